"""``dtoss export``: objects, cells, regions and windows as GeoParquet, GeoJSON or FlatGeobuf. Runs without Spark."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from dtoss.export.targets import check_file
from dtoss.option import Option
from pipelines.command.terminal.notes import note
from pipelines.command.terminal.options import Check, Length, in_space, length_of

if TYPE_CHECKING:
    from dtoss.index import Index


METRE = Length("1", "m")


@dataclass(frozen=True)
class Shapes:
    """How shapes are written."""

    title: ClassVar[str] = "Shapes"
    clip: Annotated[str | None, Option("GeoJSON boundary: only what lies inside is kept.", "FILE")] = None
    edges: Annotated[
        Literal["planar", "spherical"] | None,
        Option(
            "An edge is an arc of a great circle on the sphere, a straight line in a plane: spherical, as "
            "GeoParquet says unless told otherwise. Planar is straight in lon, lat, for GeoPandas and maps: cut at the "
            "antimeridian, valid; always so in GeoJSON and FlatGeobuf, and with --clip.",
            more={"show_default": False},
        ),
    ] = None
    tolerance: Annotated[
        Length,
        Option("How far a planar edge may leave its great circle: 1m, 50m.", "LENGTH", parse=length_of, shown="1m"),
    ] = METRE


@dataclass(frozen=True)
class OfWindows:
    """Which windows are written."""

    title: ClassVar[str] = "Windows"
    name: Annotated[str | None, Option("Of windows: their name in the store.")] = None
    at: Annotated[
        str | None,
        Option("Of windows: where they end; the last end that is due if not given.", "TIME"),
    ] = None
    since: Annotated[
        str | None,
        Option("Of windows: all ends from this one on, as Parquet without shapes.", "TIME"),
    ] = None


def export(
    store: Annotated[str, Option("Path or URI of the store.")],
    what: Annotated[
        Literal["objects", "cells", "regions", "windows"],
        Option("Points, Voronoi cells (one row a place), regions of partitions, or places of windows."),
    ],
    out: Annotated[str, Option("File to write: .parquet (GeoParquet), .geojson or .fgb (FlatGeobuf).", "FILE")],
    shapes: Shapes,
    windows: OfWindows,
    snapshot: Annotated[str | None, Option("Name of a snapshot; the current one if not given.")] = None,
    check: Check = None,
) -> None:
    """Write objects, cells or regions as GeoParquet 1.1, GeoJSON or FlatGeobuf, for GeoPandas, DuckDB, QGIS and others.

    GeoJSON is in lon, lat of WGS 84, whatever the CRS of the store. Windows are the regions of their keys (cells of
    partitions and of sites, polygons) with the measures of all lengths, as GeoParquet.
    """
    if _of_windows(store, what, out, {"--name": windows.name, "--at": windows.at, "--since": windows.since}):
        return
    from dtoss.export_files import format_of, write
    from dtoss.geometry.space import space_of
    from dtoss.opening import open_index

    kind = format_of(out)
    check_file("--out", out)
    index = open_index(store, snapshot, verify="touch" if check is None else check)
    written = write(
        index,
        what,
        out,
        clip=shapes.clip,
        edges=shapes.edges,
        tolerance=in_space("--tolerance", shapes.tolerance, space_of()),
    )
    note(f"{written.rows:,} {what} in {out}{_carried_over(index, kind)}")
    if written.empty:
        print(f"{written.empty:,} of them have no polygon: all of it is within 0.1 mm", file=sys.stderr)


def _of_windows(store: str, what: str, out: str, given: dict[str, str | None]) -> bool:
    """Write windows where these are asked for, and return whether they are."""
    from dtoss.errors import InputError

    some = next((option for option, value in given.items() if value is not None), None)
    if what != "windows":
        if some is not None:
            raise InputError(f"{some} {given[some]} is of windows, and --what is {what}: leave it out")
        return False
    from dtoss.windows.query.window_query import open_windows
    from dtoss.windows.storage.window_document import windows_of
    from pipelines.windowing.exporting import export_ends, export_windows

    name, at, since = given.values()
    if name is None:
        known = ", ".join(windows_of(store)) or "none"
        raise InputError(f"--what windows needs --name: the windows of {store} are {known}")
    check_file("--out", out)
    found = open_windows(store, name)
    end = None if at is None or at.strip() == "now" else at
    rows = export_windows(found, out, end) if since is None else export_ends(found, out, since, end)
    note(f"{rows:,} rows of windows {name} in {out}")
    return True


def _carried_over(index: Index, kind: str) -> str:
    from dtoss.geometry.space import LONLAT, same_crs

    if kind != "GeoJSON" or same_crs(index.crs, LONLAT):
        return ""
    return f", carried over from {index.crs} to lon, lat"
