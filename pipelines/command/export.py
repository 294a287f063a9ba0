"""``dtoss export``: objects, cells and regions as GeoParquet. Runs without Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from dtoss.errors import InputError
from dtoss.export.targets import check_file
from pipelines.command.notes import note
from pipelines.command.options import Check, verify_of


def export(
    store: Annotated[str, typer.Option("--store", help="Path or URI of the store.", show_default=False)],
    what: Annotated[
        Literal["objects", "cells", "regions"],
        typer.Option(help="Points, Voronoi cells (one row a place), or the regions of the partitions."),
    ],
    out: Annotated[str, typer.Option(help="GeoParquet file to write: .parquet.", metavar="FILE")],
    clip: Annotated[
        str | None, typer.Option(help="GeoJSON boundary: only what lies inside is kept.", metavar="FILE")
    ] = None,
    snapshot: Annotated[str | None, typer.Option(help="Name of a snapshot; the current one if not given.")] = None,
    check: Check = None,
) -> None:
    """Write objects, cells or regions as GeoParquet 1.1, for GeoPandas, DuckDB, QGIS and others."""
    from dtoss.export.export import export as write
    from dtoss.opening import open_index

    if Path(out).suffix not in (".parquet", ".geoparquet"):
        raise InputError(f"--out {out} ends in {Path(out).suffix or 'nothing'}: .parquet is wanted")
    check_file("--out", out)
    index = open_index(store, snapshot, verify=verify_of(check, "touch"))
    rows = write(index, what, out, clip=clip)
    note(f"{rows:,} {what} in {out}")
