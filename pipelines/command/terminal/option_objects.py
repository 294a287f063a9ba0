"""Options of a command from the objects that it takes: one for each field that says how people write it.

Help lists them by the objects that they come from.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import cache, wraps
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup

from dtoss.option import Option
from pipelines.engines.progress import work_shown
from pipelines.options.snapshot_options import SaidOf


class Without(frozenset[str]):
    """Marks an object of which a command does not take these fields, however deep."""


class Only(frozenset[str]):
    """Marks an object of which a command takes these fields alone."""


@dataclass(frozen=True)
class _Field:
    """A field of an object that is an option, or an object itself."""

    name: str
    default: Any  # As the object has it
    kind: Any  # Its type
    option: Option | None  # None of an object

    @property
    def option_name(self) -> str:
        """The name of its option."""
        return (self.option and self.option.name) or f"--{self.name.rstrip('_').replace('_', '-')}"

    @property
    def turns_off(self) -> bool:
        """Whether its option is a flag that says no."""
        plain = self.option is not None and self.option.parse is None and "/" not in self.option_name
        return plain and self.kind is bool and self.default is True


@dataclass(frozen=True)
class _Place:
    """What stands for an object: its class, whether only what is said counts, and which fields a command takes."""

    kind: Any
    said: bool
    marks: tuple[Without | Only, ...]

    def fields(self) -> Iterator[_Field]:
        """Yield the fields that a command takes."""
        for field in _fields(self.kind):
            if field.option is None or all((field.name in mark) == isinstance(mark, Only) for mark in self.marks):
                yield field


_COMMAND = _Place(None, False, ())
"""What the parameters of a command stand in."""


@cache
def _fields(kind: Any) -> tuple[_Field, ...]:
    """Return the fields of a class that are options or objects; commands share classes, whose hints take long."""
    hints = get_type_hints(kind, include_extras=True)
    found = (_field(one.name, hints[one.name], one.default) for one in fields(kind))
    return tuple(field for field in found if field is not None)


def takes_objects(command: Callable[..., Any]) -> Callable[..., Any]:
    """Return a command with options as the parser wants them: those of parameters, and of the objects among these."""
    signature = inspect.signature(command, eval_str=True)
    known: list[_Field] = []
    parameters: list[inspect.Parameter] = []
    for name, one in signature.parameters.items():
        field = _field(name, one.annotation, MISSING if one.default is one.empty else one.default)
        known += [] if field is None else [field]
        parameters += [one] if field is None else _parameters(field, _COMMAND, None)

    @wraps(command)
    def run(**given: Any) -> Any:
        made = {field.name: _value(field, _COMMAND, given) for field in known}
        return command(**made, **given)

    parameters = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in parameters]
    run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {one.name: one.annotation for one in parameters} | {"return": signature.return_annotation}
    return run


def option_names(said: Mapping[str, Any], kind: type) -> list[str]:
    """Return the names of the options that have said something of a class."""
    return [field.option_name for field in _Place(kind, True, ()).fields() if field.name in said]


def _parts(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) is Annotated else (hint,)


def _place(hint: Any, outer: tuple[Without | Only, ...] = ()) -> _Place | None:
    """Return what an annotation stands for; None where it is no object with options."""
    kind, *marks = _parts(hint)
    chosen = (*outer, *(mark for mark in marks if isinstance(mark, (Without, Only))))
    for mark in marks:
        if isinstance(mark, SaidOf):
            return _Place(mark.kind, True, chosen if mark.only is None else (*chosen, Only(mark.only)))
    is_object = is_dataclass(kind) and all(isinstance(mark, (Without, Only)) for mark in marks)
    return _Place(kind, False, chosen) if is_object else None


def _field(name: str, hint: Any, default: Any) -> _Field | None:
    """Return what an annotation stands for: an option, or an object of some; None where it is neither."""
    kind, *marks = _parts(hint)
    option = next((mark for mark in marks if isinstance(mark, Option)), None)
    if option is not None:
        return _Field(name, default, kind, option)
    return _Field(name, None, hint, None) if _place(hint) else None


def _parameters(field: _Field, around: _Place, title: str | None) -> Iterator[inspect.Parameter]:
    """Yield the options of a field, as the parser wants them."""
    if (place := _place(field.kind, around.marks)) is None or field.option is not None:
        yield _parameter(field, title, around.said)
        return
    for inner in place.fields():
        yield from _parameters(inner, place, getattr(place.kind, "title", title))


def _parameter(field: _Field, title: str | None, said: bool) -> inspect.Parameter:
    """Return an option as the parser wants it; without its default where only what is said counts."""
    option = field.option
    assert option is not None
    kind: Any = option.written or (str if option.parse else field.kind)
    default = inspect.Parameter.empty if field.default is MISSING else field.default
    if option.parse:
        default = option.shown or (f"{100 * default:g}%" if isinstance(default, float) else None)  # a share
    if said or field.turns_off:
        default = False if kind is bool else None
    told = typer.Option(
        field.option_name, help=option.help, metavar=option.metavar, rich_help_panel=title, **option.more
    )
    annotation: Any = Annotated[kind | None if default is None else kind, told]
    return inspect.Parameter(field.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _value(field: _Field, around: _Place, given: dict[str, Any]) -> Any:
    """Return what options say of a field, taken out of all that is given; MISSING where that is nothing."""
    option = field.option
    if option is None:
        place = _place(field.kind, around.marks)
        assert place is not None
        found = ((inner.name, _value(inner, place, given)) for inner in place.fields())
        values = {name: value for name, value in found if value is not MISSING}
        return values if place.said else place.kind(**values)
    text = given.pop(field.name)
    if around.said and (text is None or text is False):
        return MISSING  # a flag says something where it is set
    if option.parse:
        return field.default if text is None else option.parse(text)
    return not text if field.turns_off else text


class _Described:
    """What has a help option, false where it is not given: None would be read, by pydantic, which loads slowly."""

    def get_help_option(self, ctx: Any) -> Any:
        """Return the option."""
        option = super().get_help_option(ctx)  # type: ignore[misc]
        if option is not None:
            option.default = False
        return option


class GroupedCommand(_Described, TyperCommand):
    """A command that says how far it is, and whose help lists options by the objects that they come from."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        with work_shown(str(self.name), bar=False):
            return super().invoke(ctx)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments, options of the command alone, and those of each object."""
        groups: dict[str, list[Any]] = {"Arguments": [], "Options": []}
        one: Any
        for one in self.get_params(ctx):
            name = "Arguments" if one.param_type_name == "argument" else one.rich_help_panel or "Options"
            if (record := one.get_help_record(ctx)) is not None:
                groups.setdefault(name, []).append(record)
        for name, records in groups.items():
            if records:
                with formatter.section(name):
                    formatter.write_dl(records)


class GroupedCommands(_Described, TyperGroup):
    """Commands of which help lists each in its group, with the whole sentence of what it does."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return their names, and make none of them."""
        return list(self.commands)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the groups in the order in which they are met."""
        groups: dict[str, list[tuple[str, str]]] = {}
        for name in self.list_commands(ctx):
            command: Any = self.get_command(ctx, name)
            groups.setdefault(command.rich_help_panel or "Commands", []).append((name, first_sentence(command.help)))
        for title, records in groups.items():
            with formatter.section(title):
                formatter.write_dl(records)


def first_sentence(help_text: str | None) -> str:
    """Return what a command does, in a line."""
    return " ".join((help_text or "").split("\n\n")[0].split())


def add_commands(app: typer.Typer, commands: Mapping[str, Callable[..., Any]], group: str | None = None) -> None:
    """Give a program commands by their names, in a group of its help."""
    for name, command in commands.items():
        app.command(name, cls=GroupedCommand, rich_help_panel=group)(takes_objects(command))
