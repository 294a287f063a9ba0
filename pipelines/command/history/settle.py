"""``dtoss history settle``: small files become larger ones, and full periods get their orders."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from pipelines.command.history.query_history import PastHistory
from pipelines.command.terminal.notes import note
from pipelines.command.terminal.options import Json


def settle(
    history: PastHistory,
    orders: Annotated[
        str | None,
        typer.Option(
            help="Orders of full periods, by commas, kept for later: time,place if never said; time,place,object.",
            metavar="NAMES",
        ),
    ] = None,
    leaf_bytes: Annotated[
        float | None, typer.Option(help="Of a leaf by place: 2.5e6 on disks, 1e7 on object stores, if never said.")
    ] = None,
    period_bytes: Annotated[
        float | None,
        typer.Option(help="Bytes by time from which on a period is full: of eight leaves if never said."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Merge small files, eight to one, and lay full periods out by place, and by object if that is wanted."""
    from dtoss.history.layouts.compaction import settle as settle_history
    from dtoss.history.versions import Home

    names = None if orders is None else [name.strip() for name in orders.split(",") if name.strip()]
    done = settle_history(Home(history), orders=names, leaf_bytes=leaf_bytes, period_bytes=period_bytes, say=note)
    facts = {
        "version": done.version.number,
        "merged": [{"periods": list(old), "into": new} for old, new in done.merged],
        "orders": [{"order": order, "period": period} for order, period in done.orders],
        "rows_written": done.rows,
    }
    if as_json:
        print(json.dumps(facts))
        return
    if not done.merged and not done.orders:
        print(f"version {done.version.number}: nothing is to be settled")
        return
    print(
        f"version {done.version.number}: {sum(len(old) for old, _ in done.merged):,} periods became "
        f"{len(done.merged):,}, {len(done.orders):,} orders were made, {done.rows:,} rows written"
    )
