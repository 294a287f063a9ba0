"""``dtoss history range``, ``within``, ``knn``, ``count``, ``trajectory`` and ``at``: questions about the past.

How answers of a history are printed: as CSV, JSON or GeoJSON, and what a question has read.

Trajectories as lines: GeoParquet, a line for each run of rows without a long silence.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from dtoss.extras import need
from dtoss.option import Option
from dtoss.plain_numbers import is_whole
from pipelines.command.query.knn_and_range import read_polygon
from pipelines.command.query.one_place import limit_hits, print_count, print_rows
from pipelines.command.query.query_options import Form
from pipelines.command.terminal.notes import note
from pipelines.command.terminal.option_objects import Without
from pipelines.command.terminal.options import Json, Length, MaxDistance, Radius, in_space, length_of
from pipelines.options.said_amounts import duration, names_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from dtoss.history.query.history import History
    from dtoss.history.schema import Schema
    from dtoss.hits import Hits

PastHistory = Annotated[str, Option("Path or URI of the history.", "H", name="--history")]
OfVersion = Annotated[
    int | None, Option("Number of the history's version; the newest one if not given.", "N", name="--version")
]
Place = Annotated[tuple[float, float], Option("A place: LON LAT, or X Y.", "LON LAT", name="--at")]
AnyPlace = Annotated[tuple[float, float] | None, Option("A place: LON LAT, or X Y.", "LON LAT", name="--at")]
AnyRadius = Annotated[
    Length | None,
    Option("Of --at: 5km, 300m; the disc is closed.", "LENGTH", name="--radius", more={"parser": length_of}),
]
Box = Annotated[
    tuple[float, float, float, float] | None,
    Option("West, south, east, north in degrees, or xmin, ymin, xmax, ymax.", "W S E N"),
]
Polygon = Annotated[str | None, Option("GeoJSON file with a Polygon, MultiPolygon or features of them.", "FILE")]


@dataclass(frozen=True)
class Question:
    """What a question asks of a history, beside the place."""

    title: ClassVar[str] = "Of which rows"
    history: PastHistory
    between: Annotated[
        tuple[str, str] | None,
        Option(
            "From and to, both included: ISO 8601 (UTC without a zone) or the column's numbers; - for no end.", "T1 T2"
        ),
    ] = None
    columns: Annotated[tuple[str, ...], Option("Attributes to return, separated by commas.", parse=names_of)] = ()
    where: Annotated[
        str | None, Option('Look only at rows that satisfy this: "occupied = 0 and speed > 3".', "EXPR")
    ] = None
    having: Annotated[str | None, Option("Of the hits, those that satisfy this.", "EXPR")] = None
    version: OfVersion = None
    no_learn: Annotated[bool, Option("Do not note shape and interval, by which the layout adapts.")] = False
    explain: Annotated[bool, Option("Say what is read instead: orders, ranges, bytes, what was pruned.")] = False

    def open_history(self, form: Form | None = None, other: str | None = None) -> History:
        """Return the history, once it is checked that rows are printed where something is said of these."""
        if form is not None:
            form.check("--explain" if self.explain else other)
        import dtoss

        return dtoss.history.open(self.history, version=self.version, learn=not self.no_learn)


Unranked = Annotated[Question, Without(["having"])]
"""A question whose hits have no ranks."""


def range_(question: Question, at: Place, radius: Radius, form: Form) -> None:
    """Print all rows within a radius of a place, nearest first."""
    past = question.open_history(form)
    metres = in_space("--radius", radius, past.space)
    _answer(past, question, form, "range", at, metres, between=question.between, having=question.having)


def within(question: Unranked, form: Form, box: Box = None, polygon: Polygon = None) -> None:
    """Print all rows in a box or polygon, by id and time."""
    if (box is None) == (polygon is None):
        raise ValueError("one of --box W S E N and --polygon FILE is wanted")
    past = question.open_history(form)
    kind, shape = ("box", box) if polygon is None else ("within", read_polygon(polygon))
    _answer(past, question, form, kind, shape, between=question.between)


def knn(
    question: Question,
    at: Place,
    form: Form,
    k: Annotated[int, Option("How many of the nearest.", name="-k")] = 1,
    per: Annotated[
        str,
        Option("object: of each object its nearest row; row: all rows, of which a parked one has many.", "object|row"),
    ] = "object",
    max_distance: MaxDistance = None,
) -> None:
    """Print the k objects, or rows, that came nearest to a place."""
    past = question.open_history(form)
    furthest = None if max_distance is None else in_space("--max-distance", max_distance, past.space)
    _answer(
        past, question, form, "knn", at, k, per=per, max_distance=furthest, between=question.between,
        having=question.having,
    )  # fmt: skip


def count(
    question: Annotated[Question, Without(["having", "columns"])],
    at: AnyPlace = None,
    radius: AnyRadius = None,
    box: Box = None,
    polygon: Polygon = None,
    as_json: Json = False,
) -> None:
    """Print how many rows there are: within a radius, in a box or polygon, or in all."""
    if (at is None) != (radius is None):
        raise ValueError("--at LON LAT and --radius LENGTH go together: one of them is missing")
    if sum(value is not None for value in (at, box, polygon)) > 1:
        raise ValueError("one of --at, --box and --polygon is wanted")
    past = question.open_history()
    asked: dict[str, Any] = {"between": question.between, "where": question.where}
    given: tuple[Any, ...] = ()
    kind = "count"
    if at is not None and radius is not None:
        given = (at, in_space("--radius", radius, past.space))
    elif box is not None:
        kind, given = "count_box", (box,)
    elif polygon is not None:
        kind, given = "count_within", (read_polygon(polygon),)
    if question.explain:
        print_explained(past.explain(kind, *given, **asked), as_json)
        return
    print_count({"version": past.version.number}, int(getattr(past, kind)(*given, **asked)[0]), as_json)


def trajectory(
    question: Unranked,
    id_: Annotated[list[str], Option("Of an object; may be repeated.", name="--id")],
    form: Form,
    line: Annotated[str | None, Option("Write lines to a GeoParquet file instead.", "FILE")] = None,
    gap: Annotated[
        float | None,
        Option("With --line: a longer silence begins a new line.", "TIME", parse=duration(), shown="10min"),
    ] = 600.0,
) -> None:
    """Print the rows of objects by time, or write them as lines."""
    past = question.open_history(form, "--line" if line else None)
    ids = ids_of(past.schema, id_)
    if line is None or question.explain:
        _answer(past, question, form, "trajectory", ids, between=question.between)
        return
    hits = past.trajectory(ids, between=question.between, where=question.where, columns=list(question.columns))
    number = write_lines(past, hits, line, gap)
    note(f"{number:,} lines of {len(hits):,} rows in {line}")


def at(
    question: Annotated[Question, Without(["having", "between"])],
    time: Annotated[str, typer.Argument(help="ISO 8601, UTC without a zone, or the column's number.", metavar="TIME")],
    form: Form,
    max_age: Annotated[
        float | None,
        Option("Leave out objects not heard of for so long before: 15min.", "TIME", parse=duration()),
    ] = None,
) -> None:
    """Print where each object was at a time: its latest row by then."""
    _answer(question.open_history(form), question, form, "at", time, max_age=max_age)


def _answer(past: History, question: Question, form: Form, kind: str, *given: Any, **asked: Any) -> None:
    """Print the rows that answer a question, or what is read for it."""
    asked["where"] = question.where
    if question.explain:
        print_explained(past.explain(kind, *given, **asked), form.as_json)
        return
    names = list(question.columns)
    print_past(past, getattr(past, kind)(*given, columns=names, **asked), form, names)


def ids_of(schema: Schema, texts: list[str]) -> list[Any]:
    """Return ids as the history has them, of texts."""
    if schema.id_type == "string":
        return list(texts)
    if wrong := [text for text in texts if not is_whole(text)]:
        raise ValueError(f"--id is {wrong[0]!r}: ids of this history are whole numbers, in digits such as 17")
    return [int(text) for text in texts]


def print_past(past: History, hits: Hits, form: Form, names: list[str]) -> None:
    """Print hits with their times and positions, and the columns that were asked for."""
    hits = limit_hits(hits, form, "rows")
    carried = list(dict.fromkeys(["t", *past.schema.position_names, *names]))
    columns = [[_describe(value) for value in hits.columns[name].to_pylist()] for name in carried]
    about = {"version": past.version.number}
    print_rows(about, past, hits, form, carried, columns, "append the rows with --crs")


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
