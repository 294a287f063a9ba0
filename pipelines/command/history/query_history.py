"""``dtoss history range``, ``within``, ``knn``, ``count``, ``trajectory`` and ``at``: questions about the past.

How answers of a history are printed: as CSV, JSON or GeoJSON, and what a question has read.

Trajectories as lines: GeoParquet, a line for each run of rows without a long silence.
"""

from __future__ import annotations

import csv
import json
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dtoss.extras import need
from dtoss.plain_numbers import is_whole
from pipelines.command.query.one_place import column_list
from pipelines.command.query.print_answers import Form, degrees_of, form_of, print_points
from pipelines.command.query.within import read_polygon
from pipelines.command.terminal.lengths import Length, in_space, length_of
from pipelines.command.terminal.notes import note
from pipelines.command.terminal.options import GeoJson, Json, Limit, MaxDistance, Radius, seconds_or_none

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from dtoss.history.query.history import History
    from dtoss.history.schema import Schema
    from dtoss.hits import Hits

PastHistory = Annotated[
    str, typer.Option("--history", help="Path or URI of the history.", metavar="H", show_default=False)
]
Between = Annotated[
    tuple[str, str] | None,
    typer.Option(
        help="From and to, both included: ISO 8601 (UTC without a zone) or the column's numbers; - for no end.",
        metavar="T1 T2",
    ),
]
OfVersion = Annotated[
    int | None,
    typer.Option("--version", help="Number of the history's version; the newest one if not given.", metavar="N"),
]
NoLearn = Annotated[
    bool, typer.Option("--no-learn", help="Do not note what is asked: shape and interval, by which the layout adapts.")
]
Explain = Annotated[
    bool, typer.Option("--explain", help="Say what is read instead: orders, ranges, bytes, what was pruned.")
]
Where = Annotated[
    str | None,
    typer.Option("--where", help='Look only at rows that satisfy this: "occupied = 0 and speed > 3".', metavar="EXPR"),
]
Having = Annotated[str | None, typer.Option("--having", help="Of the hits, those that satisfy this.", metavar="EXPR")]
Carry = Annotated[str, typer.Option("--columns", help="Attributes to return, separated by commas.")]
Place = Annotated[
    tuple[float, float], typer.Option("--at", help="A place: LON LAT, or X Y.", metavar="LON LAT", show_default=False)
]
AnyPlace = Annotated[
    tuple[float, float] | None, typer.Option("--at", help="A place: LON LAT, or X Y.", metavar="LON LAT")
]
AnyRadius = Annotated[
    Length | None,
    typer.Option("--radius", parser=length_of, help="Of --at: 5km, 300m; the disc is closed.", metavar="LENGTH"),
]
Box = Annotated[
    tuple[float, float, float, float] | None,
    typer.Option(help="West, south, east, north in degrees, or xmin, ymin, xmax, ymax.", metavar="W S E N"),
]
Polygon = Annotated[
    str | None, typer.Option(help="GeoJSON file with a Polygon, MultiPolygon or features of them.", metavar="FILE")
]


def range_(
    history: PastHistory,
    at: Place,
    radius: Radius,
    between: Between = None,
    columns: Carry = "",
    where: Where = None,
    having: Having = None,
    version: OfVersion = None,
    no_learn: NoLearn = False,
    explain: Explain = False,
    as_json: Json = False,
    geojson: GeoJson = False,
    limit: Limit = None,
) -> None:
    """Print all rows within a radius of a place, nearest first."""
    past, form, names = (
        _opened(history, version, no_learn),
        _form(as_json, geojson, limit, explain),
        column_list(columns),
    )
    metres = in_space("--radius", radius, past.space)
    if explain:
        print_explained(past.explain("range", at, metres, between=between, where=where, having=having), as_json)
        return
    print_rows(past, past.range(at, metres, between=between, where=where, having=having, columns=names), form, names)


def within(
    history: PastHistory,
    box: Box = None,
    polygon: Polygon = None,
    between: Between = None,
    columns: Carry = "",
    where: Where = None,
    version: OfVersion = None,
    no_learn: NoLearn = False,
    explain: Explain = False,
    as_json: Json = False,
    geojson: GeoJson = False,
    limit: Limit = None,
) -> None:
    """Print all rows in a box or polygon, by id and time."""
    if (box is None) == (polygon is None):
        raise ValueError("one of --box W S E N and --polygon FILE is wanted")
    past, form, names = (
        _opened(history, version, no_learn),
        _form(as_json, geojson, limit, explain),
        column_list(columns),
    )
    shape: Any = read_polygon(polygon) if polygon is not None else box
    if explain:
        kind = "box" if polygon is None else "within"
        print_explained(past.explain(kind, shape, between=between, where=where), as_json)
    elif polygon is None:
        print_rows(past, past.box(shape, between=between, where=where, columns=names), form, names)
    else:
        print_rows(past, past.within(shape, between=between, where=where, columns=names), form, names)


def knn(
    history: PastHistory,
    at: Place,
    k: Annotated[int, typer.Option("-k", help="How many of the nearest.")] = 1,
    per: Annotated[
        str,
        typer.Option(
            "--per",
            help="object: of each object its nearest row; row: all rows, of which a parked one has many.",
            metavar="object|row",
        ),
    ] = "object",
    max_distance: MaxDistance = None,
    between: Between = None,
    columns: Carry = "",
    where: Where = None,
    having: Having = None,
    version: OfVersion = None,
    no_learn: NoLearn = False,
    explain: Explain = False,
    as_json: Json = False,
    geojson: GeoJson = False,
    limit: Limit = None,
) -> None:
    """Print the k objects, or rows, that came nearest to a place."""
    past, form, names = (
        _opened(history, version, no_learn),
        _form(as_json, geojson, limit, explain),
        column_list(columns),
    )
    furthest = None if max_distance is None else in_space("--max-distance", max_distance, past.space)
    asked: dict[str, Any] = {
        "per": per, "max_distance": furthest, "between": between, "where": where, "having": having,
    }  # fmt: skip
    if explain:
        print_explained(past.explain("knn", at, k, **asked), as_json)
        return
    print_rows(past, past.knn(at, k, columns=names, **asked), form, names)


def count(
    history: PastHistory,
    at: AnyPlace = None,
    radius: AnyRadius = None,
    box: Box = None,
    polygon: Polygon = None,
    between: Between = None,
    where: Where = None,
    version: OfVersion = None,
    no_learn: NoLearn = False,
    explain: Explain = False,
    as_json: Json = False,
) -> None:
    """Print how many rows there are: within a radius, in a box or polygon, or in all."""
    if (at is None) != (radius is None):
        raise ValueError("--at LON LAT and --radius LENGTH go together: one of them is missing")
    if sum(value is not None for value in (at, box, polygon)) > 1:
        raise ValueError("one of --at, --box and --polygon is wanted")
    past = _opened(history, version, no_learn)
    asked: dict[str, Any] = {"between": between, "where": where}
    given: tuple[Any, ...] = ()
    kind = "count"
    if at is not None and radius is not None:
        given = (at, in_space("--radius", radius, past.space))
    elif box is not None:
        kind, given = "count_box", (box,)
    elif polygon is not None:
        kind, given = "count_within", (read_polygon(polygon),)
    if explain:
        print_explained(past.explain(kind, *given, **asked), as_json)
        return
    print_number(past, int(getattr(past, kind)(*given, **asked)[0]), as_json)


def trajectory(
    history: PastHistory,
    id_: Annotated[list[str], typer.Option("--id", help="Of an object; may stand again.", show_default=False)],
    between: Between = None,
    columns: Carry = "",
    where: Where = None,
    line: Annotated[
        str | None, typer.Option("--line", help="Write lines to a GeoParquet file instead.", metavar="FILE")
    ] = None,
    gap: Annotated[
        str, typer.Option("--gap", help="With --line: a longer silence begins a new line.", metavar="TIME")
    ] = "10min",
    version: OfVersion = None,
    no_learn: NoLearn = False,
    explain: Explain = False,
    as_json: Json = False,
    geojson: GeoJson = False,
    limit: Limit = None,
) -> None:
    """Print the rows of objects by time, or write them as lines."""
    form = form_of(as_json, geojson, limit, "--explain" if explain else "--line" if line else None)
    past, names = _opened(history, version, no_learn), column_list(columns)
    ids = ids_of(past.schema, id_)
    if explain:
        print_explained(past.explain("trajectory", ids, between=between, where=where), as_json)
        return
    hits = past.trajectory(ids, between=between, where=where, columns=names)
    if line is None:
        print_rows(past, hits, form, names)
        return
    seconds = seconds_or_none(gap)
    number = write_lines(past, hits, line, seconds)
    note(f"{number:,} lines of {len(hits):,} rows in {line}")


def at(
    history: PastHistory,
    time: Annotated[str, typer.Argument(help="ISO 8601, UTC without a zone, or the column's number.", metavar="TIME")],
    max_age: Annotated[
        str | None,
        typer.Option("--max-age", help="Leave out objects not heard of for so long before: 15min.", metavar="TIME"),
    ] = None,
    columns: Carry = "",
    where: Where = None,
    version: OfVersion = None,
    no_learn: NoLearn = False,
    explain: Explain = False,
    as_json: Json = False,
    geojson: GeoJson = False,
    limit: Limit = None,
) -> None:
    """Print where each object was at a time: its latest row by then."""
    past, form, names = (
        _opened(history, version, no_learn),
        _form(as_json, geojson, limit, explain),
        column_list(columns),
    )
    seconds = seconds_or_none(max_age)
    if explain:
        print_explained(past.explain("at", time, max_age=seconds, where=where), as_json)
        return
    print_rows(past, past.at(time, max_age=seconds, where=where, columns=names), form, names)


def _opened(history: str, version: int | None, no_learn: bool) -> History:
    import dtoss

    return dtoss.history.open(history, version=version, learn=not no_learn)


def _form(as_json: bool, geojson: bool, limit: int | None, explain: bool) -> Form:
    return form_of(as_json, geojson, limit, "--explain" if explain else None)


def ids_of(schema: Schema, texts: list[str]) -> list[Any]:
    """Return ids as the history has them, of texts."""
    if schema.id_type == "string":
        return list(texts)
    if wrong := [text for text in texts if not is_whole(text)]:
        raise ValueError(f"--id is {wrong[0]!r}: ids of this history are whole numbers, in digits such as 17")
    return [int(text) for text in texts]


def print_rows(past: History, hits: Hits, form: Form, names: list[str]) -> None:
    """Print hits with their times and positions, and the columns that were asked for."""
    found = len(hits)
    if form.limit is not None and form.limit < found:
        hits = hits[: form.limit]
        note(f"the first {len(hits):,} of {found:,} rows: --limit {form.limit}")
    carried = list(dict.fromkeys(["t", *past.schema.position_names, *names]))
    header = ["query_id", "id", "distance", *carried]
    values = [hits.query.tolist(), hits.id.tolist(), hits.distance.tolist()]
    for name in carried:
        column = hits.columns[name]
        values.append([_describe(value) for value in column.to_pylist()])
    rows = zip(*values, strict=True)
    about = {"version": past.version.number}
    if form.geojson:
        print_points(about, degrees_of(hits.positions, past.space, "append the rows with --crs"), header, rows)
    elif form.as_json:
        said = [dict(zip(header, row, strict=True)) for row in rows]
        print(json.dumps({**about, "hits": said}, default=str))
    else:
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)


def print_number(past: History, number: int, as_json: bool) -> None:
    """Print how many rows there are."""
    print(json.dumps({"version": past.version.number, "count": number}) if as_json else number)


def print_explained(facts: dict[str, Any], as_json: bool) -> None:
    """Print what a question has read: of each order what it would be, and what was read in the end."""
    if as_json:
        print(json.dumps(facts, default=str))
        return
    from pipelines.command.terminal.output import print_columns, print_table

    read, pruned = facts["read"], facts["pruned"]
    lines = [
        ("question", f"{facts['question']} of version {facts['version']}"),
        ("hits", "counted" if facts["hits"] is None else f"{facts['hits']:,}"),
        (
            "read",
            f"{read['bytes']:,} bytes in {read['ranges']:,} ranges: {read['blocks']:,} blocks, {read['rows']:,} rows",
        ),
        ("pruned", f"{max(pruned['blocks'], 0):,} of {pruned['of']:,} blocks"),
        ("time", f"{facts['milliseconds']:,} ms"),
        ("a request counts as", f"{facts.get('request_bytes', 0):,} bytes"),
    ]
    if "rounds" in facts:
        lines.append(("rounds", ", ".join(map(str, facts["rounds"]))))
    if facts.get("blocks_counted_unread"):
        lines.append(("counted unread", f"{facts['blocks_counted_unread']:,} blocks"))
    print_table(lines)
    header = ("order", "periods", "used", "blocks", "ranges", "bytes")
    table = [[name, *(f"{one[key]:,}" for key in header[1:])] for name, one in sorted(facts.get("orders", {}).items())]
    print_columns(header, table)


def _describe(value: Any) -> Any:
    return value.isoformat() if hasattr(value, "isoformat") else value


def write_lines(past: History, hits: Hits, path: str, gap: float | None) -> int:
    """Write lines of rows to a GeoParquet file and return how many they are.

    ``gap``: seconds: after a longer silence a new line begins; None for never.

    Columns id, t_from, t_to, rows and the line; a row by itself is a line from its place to the same place. Nothing is
    drawn between two rows but a straight line: no roads, no antimeridian.
    """
    geopandas = need("geopandas", "--line", "frames")
    import numpy as np
    import shapely

    t = _numbers(past, hits)
    limit = np.inf if gap is None else gap * (1e6 if past.schema.t_type == "timestamp" else 1.0)
    fresh = np.ones(len(hits), np.bool_)
    fresh[1:] = (hits.query[1:] != hits.query[:-1]) | (np.diff(t) > limit)
    first = np.flatnonzero(fresh)
    end = np.append(first[1:], len(hits))
    places = hits.positions
    lines = []
    for begin, stop in zip(first.tolist(), end.tolist(), strict=True):
        part = places[begin:stop]
        lines.append(shapely.LineString(part if len(part) > 1 else np.repeat(part, 2, axis=0)))
    times = hits.columns["t"].to_numpy(zero_copy_only=False)
    columns = {"id": hits.id[first], "t_from": times[first], "t_to": times[end - 1], "rows": end - first}
    crs = None if past.space.crs.lower() == "none" else past.space.crs
    geopandas.GeoDataFrame(columns, geometry=lines, crs=crs).to_parquet(path)
    return len(lines)


def _numbers(past: History, hits: Hits) -> NDArray[np.float64]:
    from dtoss.history.row_blocks import t_numbers

    return t_numbers(hits.columns["t"]).astype(float)
