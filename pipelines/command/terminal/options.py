"""Options that several commands share; one name means the same in all of them.

How a line goes on: names of a store's columns and snapshots, for shells that ask after a tab.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from dtoss.option import Option
from pipelines.command.terminal.lengths import Length, length_of
from pipelines.options.said_amounts import names_of

_LAST_WORD = re.compile(r"[^\W\d]\w*\Z|\Z")


def columns_to_come(ctx: Any, incomplete: str) -> list[str]:
    """Return how a list of columns may go on: each name that objects of ``--store`` carry, behind the last comma."""
    before, comma, begun = incomplete.rpartition(",")
    taken = before.split(",")
    return [f"{before}{comma}{name}" for name in _columns(ctx, True) if name.startswith(begun) and name not in taken]


def condition_to_come(ctx: Any, incomplete: str) -> list[str]:
    """Return how a condition may go on: each name of a column, in the place of the last word."""
    found = _LAST_WORD.search(incomplete)
    begun = found[0] if found else ""
    return [
        f"{incomplete.removesuffix(begun)}{name}" for name in ["id", *_columns(ctx, False)] if name.startswith(begun)
    ]


def snapshot_to_come(ctx: Any, incomplete: str) -> list[str]:
    """Return the names of a store's snapshots that begin so."""
    from dtoss.snapshots.store import Store

    try:
        return [name for name in Store(_store(ctx)).snapshots() if name.startswith(incomplete)]
    except Exception:  # whoever presses tab is told nothing, and is to go on typing
        return []


def _columns(ctx: Any, positions: bool) -> list[str]:
    from dtoss.names import columns_of_manifest, position_names
    from dtoss.snapshots.store import Store

    try:
        store = Store(_store(ctx))
        manifest = store.manifest(ctx.params.get("snapshot") or store.current())
        geographic = manifest["metric"] == "sphere" and not manifest["to_lonlat"]
        return [*columns_of_manifest(manifest), *(position_names(geographic) if positions else ())]
    except Exception:
        return []


def _store(ctx: Any) -> Any:
    return ctx.params["store"]


Store = Annotated[str, Option("Path or URI of the store.", name="--store")]
TokenFile = Annotated[
    str | None,
    Option("Holds the token that --url wants; DTOSS_TOKEN may, too.", "FILE", name="--token-file"),
]
Snapshot = Annotated[
    str | None,
    Option("Name of a snapshot; the current one if not given.", more={"autocompletion": snapshot_to_come}),
]
Json = Annotated[bool, Option("Print JSON instead of CSV or a table.", name="--json")]
GeoJson = Annotated[
    bool,
    Option("Print GeoJSON points: WGS 84 in degrees, a store of another CRS is transformed.", name="--geojson"),
]
Limit = Annotated[int | None, Option("Print only the first so many rows.", "N", name="--limit")]
Radius = Annotated[
    Length,
    Option(
        "5km, 300m, 2mi, 500ft, 1nmi; a number alone is metres, or CRS units in the plane; the disc is closed.",
        "LENGTH",
        name="--radius",
        more={"parser": length_of},
    ),
]
MaxDistance = Annotated[
    Length | None,
    Option(
        "At most so far away: 5km, 300m, 2mi, 500ft, 1nmi; a number alone is metres, or CRS units in the plane.",
        "LENGTH",
        name="--max-distance",
        more={"parser": length_of},
    ),
]
At = Annotated[tuple[float, float] | None, Option("One place: LON LAT, or X Y.", "LON LAT")]
Check = Annotated[
    bool | Literal["touch"] | None,
    Option(
        "Compare checksums: of each file when it is first read, or of all at once; joins and exports touch, "
        "other questions do not if it is not given.",
        name="--verify",
        written=Literal["no", "touch", "all"],
        parse={"no": False, "touch": "touch", "all": True}.__getitem__,
    ),
]
Where = Annotated[
    str | None,
    Option(
        "Search only objects that satisfy this: \"occupied = 0 and kind in ('taxi')\".",
        "EXPR",
        more={"autocompletion": condition_to_come},
    ),
]
Having = Annotated[
    str | None,
    Option("Of the hits, those that satisfy this.", "EXPR", more={"autocompletion": condition_to_come}),
]
Carry = Annotated[
    tuple[str, ...],
    Option(
        "Attributes to return, separated by commas.",
        name="--columns",
        parse=names_of,
        more={"autocompletion": columns_to_come},
    ),
]
