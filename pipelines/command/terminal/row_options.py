"""Options of commands that read rows of objects: which column means what, how text is written, what is let through."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from types import MappingProxyType
from typing import Annotated, Any, Literal, TypeVar, cast, get_args

import typer

from dtoss.errors import InputError
from pipelines.rows.durations_and_shares import share_of

_Command = TypeVar("_Command", bound=Callable[..., Any])
Id = Annotated[str | None, typer.Option("--id", help="Column with the object's id: id, or as the store's rows had it.")]
X = Annotated[
    str | None, typer.Option("--x", help="Column with lon or x: lon, lng, longitude, x, or as the store's rows had it.")
]
Y = Annotated[
    str | None, typer.Option("--y", help="Column with lat or y: lat, latitude, y, or as the store's rows had it.")
]
Time = Annotated[
    str | None,
    typer.Option("--time", help="Column with the time: the latest row of each id counts. t if there is one."),
]
OwnId = Annotated[
    str | None, typer.Option("--id", help="Column with the object's id; id if not given.", metavar="COLUMN")
]
"""Of a stream of positions, whose columns no store has named; as the next three."""
OwnX = Annotated[
    str | None, typer.Option("--x", help="Column with lon or x; lon, lng, longitude or x.", metavar="COLUMN")
]
OwnY = Annotated[str | None, typer.Option("--y", help="Column with lat or y; lat, latitude or y.", metavar="COLUMN")]
OwnTime = Annotated[
    str | None, typer.Option("--time", help="Column with the time of a row; t if there is one.", metavar="COLUMN")
]
TimeFormat = Annotated[
    str | None,
    typer.Option(
        "--time-format",
        help="A pattern such as M/d/yyyy H:mm:ss, or epoch_s, epoch_ms, epoch_us, excel; else ISO 8601.",
    ),
]
Zone = Annotated[
    str | None, typer.Option("--zone", help="Of times that name none: Asia/Shanghai; UTC if not given.", metavar="ZONE")
]
IdType = Annotated[
    Literal["int", "text"] | None,
    typer.Option("--id-type", help="What ids are; what most of them look like if not given."),
]
Geometry = Annotated[
    str | None,
    typer.Option("--geometry", help="Column of points, WKB or WKT, instead of --x and --y.", metavar="COLUMN"),
]
Delimiter = Annotated[
    str | None,
    typer.Option("--delimiter", help="Of CSV files: a character, tab, semicolon, blank or pipe; a comma if not given."),
]
Encoding = Annotated[
    str | None, typer.Option("--encoding", help="Of CSV files, such as latin-1; UTF-8 or the file's mark if not given.")
]
Multiline = Annotated[bool, typer.Option("--multiline", help="Values in quotes may hold line ends.")]
Decimal = Annotated[str | None, typer.Option("--decimal", help="Mark of numbers in text: a comma, or . if not given.")]
Quote = Annotated[
    str | None,
    typer.Option("--quote", help='Of CSV files: a character, or none where quotes are text; " if not given.'),
]
Escape = Annotated[
    str | None, typer.Option("--escape", help="Of CSV files: what makes a quote or a delimiter a plain character.")
]
Null = Annotated[str | None, typer.Option("--null", help="Of CSV files: what stands for no value, such as NA.")]
NoHeader = Annotated[bool, typer.Option("--no-header", help="CSV without names: columns are c1, c2, ...")]
Schema = Annotated[
    Literal["union", "strict"], typer.Option(help="Parquet: the columns of all files, or all in each file.")
]
Attributes = Annotated[
    str | None,
    typer.Option("--columns", help="Attributes to carry: names separated by commas, none, or all if not given."),
]


_OWN = {"id": OwnId, "x": OwnX, "y": OwnY, "time": OwnTime}
_OF_STORE = {"id": Id, "x": X, "y": Y, "time": Time}
_WRITTEN = {
    "id_type": IdType, "geometry": Geometry, "time_format": TimeFormat, "zone": Zone,
    "delimiter": Delimiter, "encoding": Encoding, "multiline": Multiline, "decimal": Decimal, "header": NoHeader,
    "quote": Quote, "escape": Escape, "null": Null,
}  # fmt: skip
"""How rows are written, by the fields of :class:`pipelines.rows.input_columns.Columns` that the options fill."""
TEXT = ("delimiter", "encoding", "multiline", "decimal", "header", "quote", "escape", "null")
"""Those that say how text is written, whatever is read of it."""
Rows = Mapping[str, Any]
"""What options say of rows: fields of :class:`pipelines.rows.input_columns.Columns`, without what is not given."""
NOTHING_SAID: Rows = MappingProxyType({})


def takes_rows(
    *, of_store: bool = False, without: Sequence[str] = (), only: Sequence[str] | None = None
) -> Callable[[_Command], _Command]:
    """Return what gives a command the options of rows, in the place of its one parameter ``rows``.

    ``of_store``: whether columns that are not named are those of the store's rows; ``only``: fields of which there are;
    all when None.
    """
    kinds = {**(_OF_STORE if of_store else _OWN), **_WRITTEN}
    options = {field: kind for field, kind in kinds.items() if field not in without and (only is None or field in only)}

    def with_options(command: _Command) -> _Command:
        signature = inspect.signature(command, eval_str=True)
        parameters: list[inspect.Parameter] = []
        for one in signature.parameters.values():
            parameters += _parameters(options) if one.name == "rows" else [one]

        @wraps(command)
        def run(*args: Any, **given: Any) -> Any:
            if "rows" not in given:
                given = dict(signature.replace(parameters=parameters).bind(*args, **given).arguments)
                args, given["rows"] = (), _said(options, given)
            return command(*args, **given)

        run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {one.name: one.annotation for one in parameters} | {"return": signature.return_annotation}
        return cast("_Command", run)

    return with_options


def with_others(rows: Rows, **others: Any) -> dict[str, Any]:
    """Return what is said of rows and of other fields, without those that are None."""
    return {**rows, **{field: value for field, value in others.items() if value is not None}}


def crs_said(crs: str | None, metric: str | None) -> str | None:
    """Return the CRS that is said of positions: a plane by itself has none."""
    from dtoss.geometry.space import NO_CRS

    return NO_CRS if crs is None and metric == "plane" else crs


def option_names(rows: Rows) -> dict[str, Any]:
    """Return what is said of rows by the names of its options, for those who refuse it."""
    return {"--no-header" if field == "header" else f"--{field.replace('_', '-')}": True for field in rows}


def _parameters(options: Mapping[str, Any]) -> list[inspect.Parameter]:
    return [
        inspect.Parameter(
            f"rows_{field}",
            inspect.Parameter.POSITIONAL_OR_KEYWORD,
            default=False if get_args(kind)[0] is bool else None,
            annotation=kind,
        )
        for field, kind in options.items()
    ]


def _said(options: Mapping[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """Return what options say, taken out of all that is given."""
    said = {field: given.pop(f"rows_{field}", None) for field in options}
    # a flag says something where it is set; that of a header says that there is none
    return {
        field: value if field != "header" else False
        for field, value in said.items()
        if value is not None and value is not False
    }


def max_bad(text: str | float) -> float:
    """Return the share of bad rows that are borne, as an option says it."""
    try:
        return share_of(text, "--max-bad")
    except ValueError as error:
        raise InputError(str(error)) from None


MaxBad = Annotated[
    float,
    typer.Option(parser=max_bad, metavar="SHARE", help="Share of bad rows, such as 10%, above which nothing counts."),
]
Wrap = Annotated[bool, typer.Option("--wrap", help="Take 360 from longitudes above 180.")]
MinObjects = Annotated[int, typer.Option(help="With fewer objects nothing becomes current.")]
MaxShrink = Annotated[
    str | None,
    typer.Option("--max-shrink", help="Share of the current objects, such as 50%, of which more may not be missing."),
]
AllowEmpty = Annotated[
    bool, typer.Option("--allow-empty", help="No object at all makes an empty snapshot, and no error.")
]
Seed = Annotated[int, typer.Option(help="Of the sample and the random choices.")]
OnOddFile = Annotated[
    Literal["refuse", "fail"],
    typer.Option(
        "--on-odd-file",
        help="A file that cannot be read as the others are is set aside by name, and they go on; or the batch fails.",
    ),
]
