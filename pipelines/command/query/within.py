"""``dtoss within``: the objects in a box or in polygons."""

from __future__ import annotations

from typing import Annotated, Any

from pipelines.command.query.one_place import index_of
from pipelines.command.query.print_answers import columns_for, print_count, print_hits
from pipelines.command.query.query_options import Filter, Form, Target, Zones
from pipelines.command.terminal.option_objects import Without


def within(target: Target, zones: Zones, objects: Annotated[Filter, Without(["having"])], form: Form) -> None:
    """Print all objects in a box or polygon, by id, or in each zone of a file.

    A place is inside where it is inside of an odd number of rings, or on an edge. Numbers of a file without a CRS are
    in that of the store, and nothing is ever transformed. The sides of a box are meridians and parallels.
    """
    form.check("--count" if zones.count and zones.polygons is None else "--out" if zones.out else None)
    if form.geojson and zones.polygons is not None:
        raise ValueError("--geojson is for one --box or --polygon: zones are printed as CSV or --json, or go to --out")
    index, names, where = index_of(target), list(objects.columns), objects.where
    if zones.polygons is not None:
        from pipelines.command.query.zone_files import print_zones

        print_zones(index, zones, objects, form)
        return
    shape: Any = zones.box if zones.polygon is None else read_polygon(zones.polygon)
    edges: dict[str, Any] = {} if zones.polygon is None else {"edges": zones.edges}
    if zones.count:
        count = index.count_box if zones.polygon is None else index.count_within
        print_count({"snapshot": index.snapshot}, int(count(shape, where=where, **edges)[0]), form.as_json)
        return
    find = index.box if zones.polygon is None else index.within
    print_hits(index, find(shape, where=where, columns=columns_for(index, names, form), **edges), form, names)


def read_polygon(path: str) -> Any:
    """Return the polygon of a GeoJSON file."""
    from pipelines.local_joins.zone_readers import read_shape

    return read_shape(path, "--polygon ")
