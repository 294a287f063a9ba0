"""Options that several commands share; one name means the same in all of them.

How a line goes on: names of a store's columns and snapshots, for shells that ask after a tab.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

import typer

from pipelines.command.terminal.lengths import Length, length_of

_LAST_WORD = re.compile(r"[^\W\d]\w*\Z|\Z")


def columns_to_come(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return how a list of columns may go on: each name that objects of ``--store`` carry, behind the last comma."""
    before, comma, begun = incomplete.rpartition(",")
    taken = before.split(",")
    return [f"{before}{comma}{name}" for name in _columns(ctx, True) if name.startswith(begun) and name not in taken]


def condition_to_come(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return how a condition may go on: each name of a column, in the place of the last word."""
    found = _LAST_WORD.search(incomplete)
    begun = found[0] if found else ""
    return [
        f"{incomplete.removesuffix(begun)}{name}" for name in ["id", *_columns(ctx, False)] if name.startswith(begun)
    ]


def snapshot_to_come(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the names of a store's snapshots that begin so."""
    from dtoss.snapshots.store import Store

    try:
        return [name for name in Store(_store(ctx)).snapshots() if name.startswith(incomplete)]
    except Exception:  # whoever presses tab is told nothing, and is to go on typing
        return []


def _columns(ctx: typer.Context, positions: bool) -> list[str]:
    from dtoss.names import columns_of_manifest, position_names
    from dtoss.snapshots.store import Store

    try:
        store = Store(_store(ctx))
        manifest = store.manifest(ctx.params.get("snapshot") or store.current())
        geographic = manifest["metric"] == "sphere" and not manifest["to_lonlat"]
        return [*columns_of_manifest(manifest), *(position_names(geographic) if positions else ())]
    except Exception:
        return []


def _store(ctx: typer.Context) -> Any:
    return ctx.params["store"]


Store = Annotated[str, typer.Option("--store", help="Path or URI of the store.", show_default=False)]
StoreOrUrl = Annotated[str | None, typer.Option("--store", help="Path or URI of the store, or --url.")]
Url = Annotated[str | None, typer.Option("--url", help="Of dtoss serve, which is asked instead of a store.")]
TokenFile = Annotated[
    str | None,
    typer.Option("--token-file", help="Holds the token that --url wants; DTOSS_TOKEN may, too.", metavar="FILE"),
]
Snapshot = Annotated[
    str | None,
    typer.Option(help="Name of a snapshot; the current one if not given.", autocompletion=snapshot_to_come),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of CSV or a table.")]
GeoJson = Annotated[
    bool,
    typer.Option("--geojson", help="Print GeoJSON points: WGS 84 in degrees, a store of another CRS is transformed."),
]
Limit = Annotated[int | None, typer.Option("--limit", help="Print only the first so many rows.", metavar="N")]
Radius = Annotated[
    Length,
    typer.Option(
        "--radius",
        parser=length_of,
        help="5km, 300m, 2mi, 500ft, 1nmi; a number alone is metres, or CRS units in the plane; the disc is closed.",
        metavar="LENGTH",
        show_default=False,
    ),
]
MaxDistance = Annotated[
    Length | None,
    typer.Option(
        "--max-distance",
        parser=length_of,
        help="At most so far away: 5km, 300m, 2mi, 500ft, 1nmi; a number alone is metres, or CRS units in the plane.",
        metavar="LENGTH",
    ),
]
At = Annotated[
    tuple[float, float] | None,
    typer.Option("--at", help="One place: LON LAT, or X Y.", metavar="LON LAT", show_default=False),
]
Queries = Annotated[
    str | None,
    typer.Option(
        help="A file of places, joined in this process, or in Spark if --master is given; needs --out.", metavar="FILE"
    ),
]
Out = Annotated[str | None, typer.Option(help="Result of --queries: .parquet, .csv or .jsonl.", metavar="FILE")]
Master = Annotated[str | None, typer.Option(help="Spark master; local[*] if not given.")]
DriverMemory = Annotated[
    str | None, typer.Option(help="Heap of a local Spark, such as 4g; a sixth of the machine's if not given.")
]
QueryId = Annotated[str, typer.Option("--id", help="Column of --queries with the query's id.")]
QueryX = Annotated[str | None, typer.Option("--x", help="Column of --queries with lon or x.")]
QueryY = Annotated[str | None, typer.Option("--y", help="Column of --queries with lat or y.")]
QueryGeometry = Annotated[
    str | None, typer.Option("--geometry", help="Column of --queries with points, WKB or WKT.", metavar="COLUMN")
]
QueryIdType = Annotated[
    Literal["int", "text"] | None,
    typer.Option("--id-type", help="What ids of --queries are; as they look if not given."),
]
QueryCrs = Annotated[
    str | None, typer.Option("--crs", help="CRS of --queries, that of the store, where the file does not say it.")
]
Where = Annotated[
    str | None,
    typer.Option(
        help="Search only objects that satisfy this: \"occupied = 0 and kind in ('taxi')\".",
        metavar="EXPR",
        autocompletion=condition_to_come,
    ),
]
Having = Annotated[
    str | None,
    typer.Option(help="Of the hits, those that satisfy this.", metavar="EXPR", autocompletion=condition_to_come),
]
Carry = Annotated[
    str,
    typer.Option("--columns", help="Attributes to return, separated by commas.", autocompletion=columns_to_come),
]
Check = Annotated[
    Literal["no", "touch", "all"] | None,
    typer.Option(
        "--verify",
        help="Compare checksums: of each file when it is first read, or of all at once; joins and exports touch, "
        "other questions do not if it is not given.",
    ),
]
Updates = Annotated[
    str, typer.Option("--updates", help="Folder in which files of updates arrive.", metavar="DIR", show_default=False)
]
Deleted = Annotated[
    str | None, typer.Option("--deleted", help="Column that says whether a row deletes its object.", metavar="COLUMN")
]
DeletedFor = Annotated[
    str, typer.Option("--deleted-for", help="For how long a deletion is remembered: 1h, 2d, or ever.", metavar="TIME")
]
Expire = Annotated[
    str | None,
    typer.Option("--expire", help="Drop objects that were not heard of for so long: 15min, 1h.", metavar="TIME"),
]
Now = Annotated[str | None, typer.Option("--now", help="What the time is, for replays; the clock's if not given.")]
Clock = Annotated[
    Literal["wall", "data"], typer.Option("--clock", help="What tells the time: this machine, or what witnesses say.")
]
BeatClock = Annotated[
    Literal["data", "wall"],
    typer.Option("--clock", help="What moves the time where no rows come: nothing, or this machine's clock."),
]
Witnesses = Annotated[
    str | None,
    typer.Option(
        "--witnesses",
        help="Objects that have to say what time it is: a share, or a count; 1% if not given.",
        metavar="SHARE",
    ),
]
MaxAhead = Annotated[
    str, typer.Option("--max-ahead", help="Rows so long after now are set aside: 5min, or off.", metavar="TIME")
]
Once = Annotated[bool, typer.Option("--once", help="Read what there is, and end.")]
MaxRowsPerBatch = Annotated[
    int | None,
    typer.Option(
        "--max-rows-per-batch", help="Rows of a batch, about, of whole files; all there are if not given.", min=1
    ),
]
MetricOfRows = Annotated[Literal["sphere", "plane"] | None, typer.Option("--metric", help="Of a projected CRS.")]
Missing = Annotated[
    Literal["error", "null"], typer.Option("--missing", help="What a column of the store that updates lack does.")
]
InPlaceUntil = Annotated[
    float, typer.Option("--in-place-until", help="Share of the objects from which on a cycle builds everything.")
]
Lease = Annotated[
    Literal["on", "off"],
    typer.Option("--lease", help="Whether other writers are kept out meanwhile; off: who commits first is through."),
]
Keep = Annotated[int, typer.Option("--keep", help="Snapshots that stay for rollback, the new one among them.")]
KeepFor = Annotated[
    str | None,
    typer.Option(
        "--keep-for",
        help="Snapshots that were current less than this ago stay too; 10min on object stores, else none.",
        metavar="TIME",
    ),
]
Done = Annotated[
    str | None,
    typer.Option(
        "--done", help="What to do with files that all snapshots have read: delete, or move:DIR.", metavar="WHAT"
    ),
]
History = Annotated[str | None, typer.Option("--history", help="Path or URI of a history of positions.", metavar="H")]
AsOf = Annotated[
    str | None, typer.Option("--as-of", help="Instead: what stood at a time, by --history.", metavar="TIME")
]
MaxAge = Annotated[
    str | None,
    typer.Option("--max-age", help="With --as-of: leave out objects not heard of for so long before.", metavar="TIME"),
]
OfVersion = Annotated[
    int | None,
    typer.Option("--version", help="Number of the history's version; the newest one if not given.", metavar="N"),
]
_VERIFY: dict[str, bool | Literal["touch"]] = {"no": False, "touch": "touch", "all": True}


def seconds_or_none(text: str | None, never: str = "off") -> float | None:
    """Return the seconds that a duration means; None where there is none, or the word for never."""
    from pipelines.rows.durations_and_shares import seconds_of

    return None if text is None or text.strip() == never else seconds_of(text)


def witnesses_said(text: str | None, clock: str, now: str | None) -> str:
    """Return how many witnesses a cycle asks."""
    from dtoss.witnesses import USUAL_WITNESSES

    if text is not None and (clock != "data" or now is not None):
        raise ValueError(
            f"--witnesses {text} is for --clock data without --now: else no rows are asked what time it is"
        )
    return text or USUAL_WITNESSES


def seconds_said(text: str, option: str) -> float:
    """Return the seconds that an option asks for."""
    from dtoss.errors import InputError
    from pipelines.rows.durations_and_shares import seconds_of

    try:
        return seconds_of(text)
    except ValueError as error:
        raise InputError(f"{option}: {error}") from None


def seconds_or_off(text: str | None, option: str) -> float | None:
    """Return the seconds that an option asks for; None where it is not given, or off."""
    return None if text is None or text.strip() == "off" else seconds_said(text, option)


def verify_of(check: str | None, default: str) -> bool | Literal["touch"]:
    """Return what ``--verify`` means for :func:`dtoss.open`, or what the default does where it is not given."""
    return _VERIFY[check or default]


def checks_of(check: Literal["no", "touch", "all"] | None) -> bool | Literal["touch"] | None:
    """Return what ``--verify`` means for a question about a place; None where it was not said."""
    return None if check is None else verify_of(check, "no")
