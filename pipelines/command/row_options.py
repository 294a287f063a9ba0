"""Options of commands that read rows of objects: which column means what, how text is written, what is let through."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import typer

from dtoss.errors import InputError
from pipelines.rows.amounts import share_of

Id = Annotated[str | None, typer.Option("--id", help="Column with the object's id: id, or as the store's rows had it.")]
X = Annotated[
    str | None, typer.Option("--x", help="Column with lon or x: lon, x without a lon, or as the store's rows had it.")
]
Y = Annotated[
    str | None, typer.Option("--y", help="Column with lat or y: lat, y without a lon, or as the store's rows had it.")
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
    str | None, typer.Option("--x", help="Column with lon or x; lon, or x without a lon.", metavar="COLUMN")
]
OwnY = Annotated[
    str | None, typer.Option("--y", help="Column with lat or y; lat, or y without a lon.", metavar="COLUMN")
]
OwnTime = Annotated[
    str | None, typer.Option("--time", help="Column with the time of a row; t if there is one.", metavar="COLUMN")
]
TimeFormat = Annotated[
    str | None, typer.Option(help="Of times in text: a pattern such as M/d/yyyy H:mm:ss, epoch_s, epoch_ms.")
]
Delimiter = Annotated[
    str | None, typer.Option(help="Of CSV files: a character, tab, semicolon, blank or pipe; a comma if not given.")
]
Encoding = Annotated[
    str | None, typer.Option(help="Of CSV files, such as latin-1; UTF-8 or the file's mark if not given.")
]
Multiline = Annotated[bool, typer.Option("--multiline", help="Values in quotes may hold line ends.")]
Decimal = Annotated[str | None, typer.Option(help="Mark of numbers in text: a comma, or . if not given.")]
NoHeader = Annotated[bool, typer.Option("--no-header", help="CSV without names: columns are c1, c2, ...")]
Schema = Annotated[
    Literal["union", "strict"], typer.Option(help="Parquet: the columns of all files, or all in each file.")
]
Attributes = Annotated[
    str | None,
    typer.Option("--columns", help="Attributes to carry: names separated by commas, none, or all if not given."),
]


def columns_said(
    id_: str | None,
    x: str | None,
    y: str | None,
    time: str | None,
    time_format: str | None,
    delimiter: str | None,
    encoding: str | None,
    multiline: bool,
    decimal: str | None,
    no_header: bool,
    attributes: str | None = None,
    deleted: str | None = None,
) -> dict[str, Any]:
    """Return what options say of columns and of how text is written, without what is not given.

    They are fields of :class:`pipelines.rows.positions.Columns`.
    """
    said = {
        "id": id_, "x": x, "y": y, "time": time, "attributes": attributes, "time_format": time_format,
        "delimiter": delimiter, "encoding": encoding, "multiline": multiline or None, "decimal": decimal,
        "header": False if no_header else None, "deleted": deleted,
    }  # fmt: skip
    return {name: value for name, value in said.items() if value is not None}


def max_bad(text: str | float) -> float:
    """Return the share of bad rows that are borne, as an option says it.

    Raises
    ------
    InputError
        If it is none.
    """
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
