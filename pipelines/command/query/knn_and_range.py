"""``dtoss knn``, ``dtoss range`` and ``dtoss within``: one place, a file of places, a box or polygons."""

from __future__ import annotations

from typing import Annotated, Any

from dtoss.option import Option
from dtoss.snapshots.manifest_fields import Columns
from pipelines.command.query.many_places import join_places, target_of
from pipelines.command.query.one_place import columns_for, index_of, print_count, print_hits, print_near
from pipelines.command.query.query_options import Filter, Form, PlacesFile, Reach, Target, Zones
from pipelines.command.terminal.notes import note
from pipelines.command.terminal.option_objects import Without, option_names
from pipelines.command.terminal.options import At, MaxDistance, Radius, in_store
from pipelines.command.terminal.output import Engine, start_spark

Spark = Annotated[Engine, Without(["engine"])]


def knn(
    target: Target,
    places: PlacesFile,
    objects: Filter,
    spark: Spark,
    form: Form,
    at: At = None,
    k: Annotated[int, Option("How many of the nearest objects.", name="-k")] = 1,
    max_distance: MaxDistance = None,
    everything: Annotated[
        bool, Option("The k nearest others of every object of the store; needs --out.", name="--all")
    ] = False,
) -> None:
    """Print the k nearest objects of a place, or join those of a file of places."""
    reach = Reach(k, max_distance=max_distance)
    if not everything:
        _answer(target, at, places, reach, objects, spark, form)
        return
    if at is not None or places.queries is not None or objects.having is not None:
        raise ValueError("--all asks about every object: --at, --queries and --having do not go with it")
    out = target_of("--all", places.out)
    form.check("--all")
    _check_unasked(places)
    store = target.stored("--all")
    from pipelines.graph import knn_graph
    from pipelines.rows.write_file import write_file

    furthest = None if max_distance is None else in_store("--max-distance", max_distance, store, target.snapshot)
    graph = knn_graph(
        start_spark(spark.master, spark.driver_memory), store, k, columns=objects.columns, where=objects.where,
        max_distance=furthest, snapshot=target.snapshot, verify=target.checked_by("touch"),
    )  # fmt: skip
    note(f"{write_file(graph, out):,} rows in {out}")


def range_(
    radius: Radius,
    target: Target,
    places: PlacesFile,
    objects: Filter,
    spark: Spark,
    form: Form,
    at: At = None,
    count: Annotated[bool, Option("Print only how many there are.")] = False,
) -> None:
    """Print all objects within a radius of a place, or join those of a file of places."""
    _answer(target, at, places, Reach(radius=radius, count=count), objects, spark, form)


def _answer(
    target: Target,
    at: tuple[float, float] | None,
    places: PlacesFile,
    reach: Reach,
    objects: Filter,
    spark: Engine,
    form: Form,
) -> None:
    """Print what is near a place, or write what is near those of a file."""
    if places.queries is not None:
        if at is not None:
            raise ValueError("--at and --queries are both given: one of them is wanted")
        form.check("--queries")
        join_places(target, places, reach, objects, spark)
        return
    _check_unasked(places)
    if at is None:
        raise ValueError("no place is given: --at LON LAT, or --queries FILE --out FILE")
    print_near(target, at, reach, objects, form)


def _check_unasked(places: PlacesFile) -> None:
    """Check that nothing is said of how text is written where none is read."""
    if places.text:
        names = ", ".join(option_names(places.text, Columns))
        raise ValueError(f"{names} is for text in files: --queries FILE is wanted")


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
