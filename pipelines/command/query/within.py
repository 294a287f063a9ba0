"""``dtoss within``: the objects in a box or in polygons."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import typer

from pipelines.command.query.one_place import column_list, index_of
from pipelines.command.query.print_answers import columns_for, form_of, print_count, print_hits
from pipelines.command.terminal.options import (
    Carry,
    Check,
    GeoJson,
    Json,
    Limit,
    Snapshot,
    StoreOrUrl,
    TokenFile,
    Url,
    Where,
    checks_of,
)


def within(
    store: StoreOrUrl = None,
    box: Annotated[
        tuple[float, float, float, float] | None,
        typer.Option(help="West, south, east, north in degrees, or xmin, ymin, xmax, ymax.", metavar="W S E N"),
    ] = None,
    polygon: Annotated[
        str | None, typer.Option(help="GeoJSON file with a Polygon, MultiPolygon or features of them.", metavar="FILE")
    ] = None,
    polygons: Annotated[
        str | None,
        typer.Option(
            help="File of zones, each answered by itself: GeoJSON, GeoParquet, or what GDAL reads.", metavar="FILE"
        ),
    ] = None,
    by: Annotated[
        str | None,
        typer.Option(help="Property by which --polygons are called; the number of the row if not given."),
    ] = None,
    edges: Annotated[
        Literal["spherical", "planar"] | None,
        typer.Option(
            help="Planar edges are straight in lon, lat, as GeoJSON says, and what is meant where the file does not "
            "say it; spherical ones are arcs of great circles. Edges in a plane are straight in any case.",
            show_default=False,
        ),
    ] = None,
    columns: Carry = "",
    where: Where = None,
    count: Annotated[
        bool, typer.Option("--count", help="Print only how many there are; of each zone, zeros too.")
    ] = False,
    out: Annotated[
        str | None, typer.Option(help="Result of --polygons: .parquet, .csv or .jsonl.", metavar="FILE")
    ] = None,
    snapshot: Snapshot = None,
    url: Url = None,
    token_file: TokenFile = None,
    check: Check = None,
    as_json: Json = False,
    geojson: GeoJson = False,
    limit: Limit = None,
) -> None:
    """Print all objects in a box or polygon, by id, or in each zone of a file.

    A place is inside where it is inside of an odd number of rings, or on an edge. Numbers of a file without a CRS are
    in that of the store, and nothing is ever transformed. The sides of a box are meridians and parallels.
    """
    if [box, polygon, polygons].count(None) != 2:
        raise ValueError("one of --box W S E N, --polygon FILE and --polygons FILE is wanted")
    if polygons is None and (by is not None or out is not None):
        raise ValueError(f"{'--by' if by is not None else '--out'} is for --polygons FILE, a file of zones")
    if box is not None and edges is not None:
        raise ValueError("--edges is for --polygon and --polygons: the sides of a --box are meridians and parallels")
    form = form_of(as_json, geojson, limit, "--count" if count and polygons is None else "--out" if out else None)
    if geojson and polygons is not None:
        raise ValueError("--geojson is for one --box or --polygon: zones are printed as CSV or --json, or go to --out")
    names = column_list(columns)
    index = index_of(store, url, token_file=token_file, snapshot=snapshot, verify=checks_of(check))
    asked = columns_for(index, names, form)
    if polygons is not None:
        from pipelines.command.query.zone_files import print_zones

        print_zones(index, polygons, by, count=count, out=out, columns=names, where=where, edges=edges, form=form)
    elif count:
        held = (
            index.count_box(box, where=where)
            if box
            else index.count_within(read_polygon(polygon), where=where, edges=edges)
        )
        print_count(index, int(held[0]), as_json)
    elif box:
        print_hits(index, index.box(box, where=where, columns=asked), form, names)
    else:
        print_hits(index, index.within(read_polygon(polygon), where=where, columns=asked, edges=edges), form, names)


def read_polygon(path: str | None) -> Any:
    """Return the polygon of a GeoJSON file."""
    assert path is not None
    from pipelines.local_joins.zone_readers import read_shape

    return read_shape(path, "--polygon ")
