"""Options that several commands share."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

Store = Annotated[str, typer.Option("--store", help="Path or URI of the store.", show_default=False)]
Snapshot = Annotated[str | None, typer.Option(help="Name of a snapshot; the current one if not given.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of CSV or a table.")]
At = Annotated[
    tuple[float, float] | None,
    typer.Option("--at", help="One place: LON LAT, or X Y.", metavar="LON LAT", show_default=False),
]
Queries = Annotated[str | None, typer.Option(help="A file of places, joined in Spark; needs --out.", metavar="FILE")]
Out = Annotated[str | None, typer.Option(help="Result of --queries: .parquet, .csv or .jsonl.", metavar="FILE")]
Master = Annotated[str | None, typer.Option(help="Spark master; local[*] if not given.")]
DriverMemory = Annotated[
    str | None, typer.Option(help="Heap of a local Spark, such as 4g; a sixth of the machine's if not given.")
]
QueryId = Annotated[str, typer.Option("--id", help="Column of --queries with the query's id.")]
QueryX = Annotated[str | None, typer.Option("--x", help="Column of --queries with lon or x.")]
QueryY = Annotated[str | None, typer.Option("--y", help="Column of --queries with lat or y.")]
Where = Annotated[
    str | None,
    typer.Option(
        help="Search only objects that satisfy this: \"occupied = 0 and kind in ('taxi')\".",
        metavar="EXPR",
    ),
]
Having = Annotated[str | None, typer.Option(help="Of the hits, those that satisfy this.", metavar="EXPR")]
Carry = Annotated[str, typer.Option("--columns", help="Attributes to return, separated by commas.")]
Check = Annotated[
    Literal["no", "touch", "all"] | None,
    typer.Option(
        "--verify",
        help="Compare checksums: of each file when it is first read, or of all at once; joins and exports touch, "
        "other questions do not if it is not given.",
    ),
]
_VERIFY: dict[str, bool | Literal["touch"]] = {"no": False, "touch": "touch", "all": True}


def verify_of(check: str | None, default: str) -> bool | Literal["touch"]:
    """Return what ``--verify`` means for :func:`dtoss.open`, or what the default does where it is not given."""
    return _VERIFY[check or default]
