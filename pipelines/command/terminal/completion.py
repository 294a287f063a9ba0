"""How a line goes on: names of a store's columns and snapshots, for shells that ask after a tab."""

from __future__ import annotations

import re
from typing import Any

import typer

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
