"""Commands that are done before a parser of options were loaded, which takes longer than they do.

Only the plain form of a command is read here. Anything else (an unknown option, help, a value that is missing) goes to
the parser, which says what is wrong.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any


class UsageError(Exception):
    """The arguments of a command are not what it takes."""


_ASKING = ("--store", "--url", "--token-file", "--snapshot", "--columns", "--where", "--having")
_JOINING = ("--queries", "--out", "--how", "--id", "--x", "--y")
_VALUES = {
    "info": ("--store", "--snapshot"),
    "rollback": ("--store",),
    "knn": _ASKING + _JOINING,
    "range": _ASKING + _JOINING,
}
_NUMBERS = {"knn": {"--at": 2, "-k": 1, "--limit": 1}, "range": {"--at": 2, "--limit": 1}}
_WHOLE = ("-k", "--limit")
_LENGTHS = {"knn": ("--max-distance",), "range": ("--radius",)}
_FLAGS = {
    "info": ("--verify", "--json"),
    "knn": ("--json", "--geojson"),
    "range": ("--count", "--json", "--geojson"),
}
_PRINTED = ("--count", "--json", "--geojson", "--limit")
"""What is for answers on stdout."""
QUIETLY = ("--quiet", "-q")
"""Of all commands, also before them."""


def answer_quickly(arguments: Sequence[str]) -> bool:
    """Do what ``--version``, ``info``, ``rollback``, ``knn`` or ``range`` asks for; return whether it did."""
    if list(arguments) == ["--version"]:
        import dtoss

        print(f"dtoss {dtoss.__version__}")
        return True
    if arguments and arguments[0] in QUIETLY:
        arguments = [*arguments[1:2], arguments[0], *arguments[2:]]
    if not arguments or arguments[0] not in _VALUES:
        return False
    command = arguments[0]
    flags = (*QUIETLY, *_FLAGS.get(command, ()))
    options = _options(arguments[1:], _VALUES[command], flags, _NUMBERS.get(command, {}), _LENGTHS.get(command, ()))
    if options is None or ("--store" in options) == ("--url" in options):
        return False
    if [options.pop(name) for name in QUIETLY if name in options]:
        from pipelines.command.terminal.notes import hush

        hush()
    if "--store" not in options:
        options["--store"] = None
    store, snapshot, as_json = options.pop("--store"), options.pop("--snapshot", None), options.pop("--json", False)
    if command == "rollback":
        from pipelines.command.terminal.store_info import roll_back

        roll_back(store)
    elif command == "info":
        from pipelines.command.terminal.store_info import print_info

        print_info(store, snapshot, verify="--verify" in options, as_json=as_json)
    else:
        with _uncollected():
            return _ask(command, options, store=store, snapshot=snapshot, as_json=as_json)
    return True


@contextmanager
def _uncollected() -> Iterator[None]:
    """Search for no cycles, now or at exit: what one question loads, tens of thousands of objects, stays to the end."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def _ask(command: str, options: dict[str, Any], **others: Any) -> bool:
    """Answer a question about one place or a file of places; return whether it is one."""
    if ("--at" in options) == ("--queries" in options) or (command == "range" and "--radius" not in options):
        return False
    if command == "knn":
        options.setdefault("-k", 1)
    joining = "--queries" in options
    if joining and (
        options.get("--how", "inner") not in ("inner", "left")
        or any(name in options for name in _PRINTED)
        or others["as_json"]
        or "PYSPARK_GATEWAY_PORT" in os.environ  # spark-submit has a master
    ):
        return False
    if not joining and any(name in options for name in _JOINING):
        return False
    from dataclasses import fields

    from pipelines.command.query.query_options import Filter, Form, PlacesFile, Reach, Target
    from pipelines.options.said_amounts import names_of

    others |= {name.lstrip("-").replace("-", "_"): value for name, value in options.items()}
    if "columns" in others:
        others["columns"] = names_of(others["columns"])

    def part(kind: Any) -> Any:
        return kind(**{one.name: others[one.name] for one in fields(kind) if one.name in others})

    target, reach, objects = part(Target), part(Reach), part(Filter)
    if joining:
        from pipelines.command.query.many_places import join_places

        join_places(target, part(PlacesFile), reach, objects, None)
    else:
        from pipelines.command.query.one_place import print_near

        print_near(target, others["at"], reach, objects, part(Form))
    return True


def _options(
    arguments: Sequence[str],
    values: Sequence[str],
    flags: Sequence[str],
    numbers: dict[str, int],
    lengths: Sequence[str],
) -> dict[str, Any] | None:
    """Return the options that are given, None where any is not plain."""
    found: dict[str, Any] = {}
    waiting = list(arguments)
    while waiting:
        name, equals, value = waiting.pop(0).partition("=")
        if name in found:
            return None
        if name in flags and not equals:
            found[name] = True
        elif name in values and (equals or waiting):
            found[name] = value if equals else waiting.pop(0)
            if found[name].startswith("-"):
                return None
        elif name in lengths and (equals or waiting):
            from pipelines.command.terminal.lengths import plain_length

            found[name] = plain_length(value if equals else waiting.pop(0))
            if found[name] is None:
                return None
        elif name in numbers and not equals:
            read = _numbers(waiting[: numbers[name]], numbers[name], whole=name in _WHOLE)
            if read is None:
                return None
            found[name] = read
            del waiting[: numbers[name]]
        else:
            return None
    return found


def _numbers(texts: Sequence[str], wanted: int, *, whole: bool) -> Any:
    """Return the number in a text, or a tuple of several; None where one is missing or not plain."""
    from dtoss.plain_numbers import FINITE

    if len(texts) != wanted or not all(map(FINITE.fullmatch, texts)) or (whole and not texts[0].isdecimal()):
        return None
    if whole:
        return int(texts[0])
    return float(texts[0]) if wanted == 1 else tuple(map(float, texts))
