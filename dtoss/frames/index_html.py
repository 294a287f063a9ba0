"""What a notebook shows of an index."""

from __future__ import annotations

from typing import Any

from dtoss.html_table import facts_html, how_many


def index_html(index: Any) -> str:
    """Return the main facts of an index as a small table of HTML."""
    space, bounds = index.space, index.bounds
    compared = "on the sphere, in metres" if space.metric == "sphere" else "in the plane, in CRS units"
    facts = [
        ("objects", f"{len(index):,} at {how_many(index.sites, 'place')}"),
        ("partitions", f"{len(index.parts):,}"),
        ("crs", index.crs),
        ("distances", compared),
        ("ids", "text" if index.string_ids else "whole numbers"),
        ("columns", index.column_names or "none"),
    ]
    if bounds is not None:
        facts.append(("bounds of cells", [f"{value:.10g}" for value in bounds]))
    if index.snapshot:
        facts.append(("snapshot", index.snapshot))
    return facts_html("dtoss.Index", facts)
