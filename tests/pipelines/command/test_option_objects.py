"""Options that come from objects: names, defaults, what only is said, and help by the objects."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar

import pytest

from dtoss.option import Option
from pipelines.command.app import command_line
from pipelines.command.terminal.option_objects import Only, Without, takes_objects
from pipelines.options.snapshot_options import SaidOf

PARSERS = [two for one in command_line().commands.values() for two in getattr(one, "commands", {0: one}).values()]
ALL = [one.callback.__wrapped__.__wrapped__ for one in PARSERS]


@dataclass(frozen=True)
class Inner:
    """Three kinds of fields."""

    title: ClassVar[str] = "Inside"
    seconds: Annotated[float, Option("Amount.", "TIME", parse=lambda text: float(text[:-1]), shown="2s")] = 2.0
    limit: Annotated[int | None, Option("Number.", more={"min": 1})] = None
    quick: Annotated[bool, Option("Says no.", name="--slow")] = True
    kept: str = "no option"


@dataclass(frozen=True)
class Outer:
    """An object in an object, and what only is said of one."""

    inner: Inner = field(default_factory=Inner)
    said: Annotated[Mapping[str, Any], SaidOf(Inner, ("quick",))] = field(default_factory=dict)


def options_of(command):
    return {name: one.default for name, one in inspect.signature(takes_objects(command)).parameters.items()}


def test_a_command_has_an_option_for_each_field_and_gets_the_objects():
    def command(inner: Inner, name: Annotated[str, Option("Its name.", name="--name")] = "a"):
        return inner, name

    assert options_of(command) == {"seconds": "2s", "limit": None, "quick": False, "name": "a"}
    run = takes_objects(command)
    assert run(seconds="2s", limit=None, quick=False, name="b") == (Inner(), "b")
    assert run(seconds="0.5s", limit=3, quick=True, name="b") == (Inner(0.5, 3, quick=False), "b")


def test_what_was_not_said_is_left_out():
    """Where rows follow others, a default would say something."""

    def command(outer: Annotated[Outer, Without(["limit"])], others: Annotated[Inner, Only(["limit"])]):
        return outer, others

    def alone(said: Annotated[Mapping[str, Any], SaidOf(Inner)]):
        return said

    with pytest.raises(ValueError, match="duplicate parameter name: 'quick'"):
        takes_objects(command)
    assert options_of(alone) == {"seconds": None, "limit": None, "quick": False}
    run = takes_objects(alone)
    assert run(seconds=None, limit=None, quick=False) == {}
    assert run(seconds="7s", limit=None, quick=True) == {"seconds": 7.0, "quick": False}


@pytest.mark.parametrize("command", ALL, ids=lambda command: f"{command.__module__}.{command.__name__}")
def test_the_default_that_is_shown_is_the_one_that_holds(command):
    """Texts such as 1h are read as they would be if they were given."""
    waiting = list(typing.get_type_hints(command, include_extras=True).values())
    while waiting:
        hint = waiting.pop()
        kind = typing.get_args(hint)[0] if typing.get_origin(hint) is Annotated else hint
        for one in getattr(kind, "__dataclass_fields__", {}).values():
            inner = typing.get_type_hints(kind, include_extras=True)[one.name]
            waiting.append(inner)
            for mark in getattr(inner, "__metadata__", ()):
                if isinstance(mark, Option) and mark.shown is not None:
                    assert mark.parse(mark.shown) == one.default, (kind, one.name)


def test_help_lists_options_by_the_objects_that_they_are_of(command):
    """Those of the command alone come first."""
    code, out, err = command("rebuild", "--help")
    assert (code, err) == (0, "")
    titles = [line for line in out.splitlines() if line.endswith(":") and not line.startswith(" ")]
    assert titles == [
        "Arguments:", "Options:", "What is read:", "What is built; of updates, a store's first snapshot:",
        "How updates are merged:", "What keeps a snapshot from becoming current:", "What stays:",
        "Where the work is done:",
    ]  # fmt: skip
    read = out[out.index("What is read:") : out.index("What is built")]
    assert "--max-bad SHARE" in read
    assert "[default: 10%]" in read
    assert "--keep-for" not in read
