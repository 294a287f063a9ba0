"""Commands about one place, each made of a kind of question."""

from __future__ import annotations

from collections.abc import Callable
from inspect import Parameter, Signature
from typing import Annotated, Any

from dtoss.kinds.kind import Kind, Tells
from dtoss.kinds.kind import Parameter as Number
from dtoss.option import Option
from pipelines.command.query.one_place import columns_for, index_of, print_hits
from pipelines.command.query.query_options import Filter, Form, Target
from pipelines.command.terminal.option_objects import Without
from pipelines.command.terminal.options import Length, in_space, length_of


def command_of(kind: Kind[Any]) -> Callable[..., None]:
    """Return the command of a kind that tells hits."""
    assert kind.tells == Tells.HITS

    def command(target: Target, objects: Filter, form: Form, at: tuple[float, float], **given: Any) -> None:
        form.check(None)
        index, names = index_of(target), list(objects.columns)
        numbers: dict[str, Any] = {
            name: in_space(f"--{name.replace('_', '-')}", one, index.space) if isinstance(one, Length) else one
            for name, one in given.items()
        }
        columns = columns_for(index, names, form)
        hits: Any = index.ask(kind.name, at, where=objects.where, having=objects.having, columns=columns, **numbers)
        print_hits(index, hits, form, names)

    hidden = [name for name in ("columns", "where", "having") if name not in kind.takes]
    place = Annotated[tuple[float, float], Option("The place: LON LAT, or X Y.", "LON LAT")]
    # a map shows objects by their coordinates, which are columns
    printed = Form if "columns" in kind.takes else Annotated[Form, Without(["geojson"])]
    hints: dict[str, Any] = {"target": Target, "objects": Annotated[Filter, Without(hidden)], "form": printed}
    hints["at"] = place
    hints |= {one.name: _hint(one) for one in kind.parameters}
    defaults = {one.name: Parameter.empty if one.wanted else one.default for one in kind.parameters}
    command.__signature__ = Signature(  # type: ignore[attr-defined]
        [
            Parameter(name, Parameter.KEYWORD_ONLY, default=defaults.get(name, Parameter.empty), annotation=hint)
            for name, hint in hints.items()
        ]
    )
    command.__annotations__, command.__doc__ = hints, kind.command
    return command


def _hint(one: Number) -> Any:
    """Return what an option of a parameter is: a whole number, or a length with a unit or without."""
    name = "-k" if one.name == "k" else None
    if one.whole:
        return Annotated[int, Option(f"{one.says}.", name=name)]
    kind = Length if one.wanted else Length | None
    return Annotated[kind, Option(f"{one.says}: 5km, 300m.", "LENGTH", more={"parser": length_of})]
