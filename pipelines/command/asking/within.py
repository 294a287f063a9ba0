"""``dtoss within``: the objects in a box or in polygons."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from dtoss.errors import InputError
from pipelines.command.asking.one_place import column_list, index_of
from pipelines.command.asking.printed import columns_for, form_of, print_count, print_hits
from pipelines.command.options import (
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
    columns: Carry = "",
    where: Where = None,
    count: Annotated[bool, typer.Option("--count", help="Print only how many there are.")] = False,
    snapshot: Snapshot = None,
    url: Url = None,
    token_file: TokenFile = None,
    check: Check = None,
    as_json: Json = False,
    geojson: GeoJson = False,
    limit: Limit = None,
) -> None:
    """Print all objects in a box or polygon, by id."""
    if (box is None) == (polygon is None):
        raise ValueError("one of --box W S E N and --polygon FILE is wanted")
    form = form_of(as_json, geojson, limit, "--count" if count else None)
    names = column_list(columns)
    index = index_of(store, url, token_file=token_file, snapshot=snapshot, verify=checks_of(check))
    asked = columns_for(index, names, form)
    if count:
        held = index.count_box(box, where=where) if box else index.count_within(_geojson(polygon), where=where)
        print_count(index, int(held[0]), as_json)
    elif box:
        print_hits(index, index.box(box, where=where, columns=asked), form, names)
    else:
        print_hits(index, index.within(_geojson(polygon), where=where, columns=asked), form, names)


def _geojson(path: str | None) -> Any:
    assert path is not None
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise InputError(f"--polygon {path} is not a GeoJSON file: {error}") from None
    except RecursionError:
        raise InputError(f"--polygon {path} nests too deep for a GeoJSON file: some ten levels are wanted") from None
