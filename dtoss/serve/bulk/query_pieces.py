"""Questions about many places in pieces, between which it is asked whether anybody waits, and their hits as rows.

Questions about boxes and polygons: counted before they are listed, looked at in pieces.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dtoss.arguments import column_names
from dtoss.column_rows import take_rows
from dtoss.geometry.distance import distance
from dtoss.geometry.space import Space
from dtoss.hits import Hits
from dtoss.index import Index
from dtoss.kinds.alone import Alone
from dtoss.kinds.hit_tables import id_column
from dtoss.kinds.kind import Question, Search
from dtoss.names import position_names
from dtoss.queries.batch_answer import COUNTED, pieces_of
from dtoss.queries.covered import Shape, search_within
from dtoss.queries.gather import take_columns
from dtoss.queries.raw_hits import RawHits
from dtoss.serve.answers.json_out import ARROW_TYPE, HITS_A_PIECE, JSON_TYPE, rows_json
from dtoss.serve.answers.open_snapshots import ServedSnapshot
from dtoss.serve.core.pool import Stop
from dtoss.serve.core.problems import Problem
from dtoss.serve.core.server_settings import USUAL_SIZES
from dtoss.serve.observability.metrics import Metrics

SEARCHED = 1 << 18
"""Hits that are searched for at a time: the more places there are, the nearer the next one is along the curve."""
STEPPED = 64
"""Places whose question takes steps that are asked about at a time: that is work in Python."""


def nearest(
    served: ServedSnapshot, asked: Search, form: Form, stop: Stop, metrics: Metrics
) -> tuple[Iterator[Rows], int | None]:
    """Return the k nearest of each place, and k if each has so many."""
    needed = places_needed(served, form)
    step = max(SEARCHED // asked.k, 1)
    found: list[tuple[int, RawHits]] = []
    for at in range(0, len(asked), step):
        stop.check()
        found.append((at, _search(served, asked, slice(at, at + step), asked.k, needed)))
        tell_reads(metrics, found[-1][1])
    full = form.having is None and all(bool((piece.count == asked.k).all()) for _, piece in found)
    parts = ((at + first, part) for at, piece in found for first, part in parts_of(piece))
    return (rows_of(served, first, part, form) for first, part in parts), asked.k if full and found else None


def _search(served: ServedSnapshot, asked: Search, rows: slice, k: int, places: bool) -> RawHits:
    return served.index.search(asked.positions[rows], asked.radius[rows], k, asked.where, places=places)


def count_within(served: ServedSnapshot, asked: Search, stop: Stop, metrics: Metrics) -> NDArray[np.int64]:
    """Return how many objects lie within the radius of each place."""
    counts = np.zeros(len(asked), np.int64)
    for at in range(0, len(asked), COUNTED):
        stop.check()
        rows = slice(at, at + COUNTED)
        found = _search(served, asked, rows, -1, True)
        counts[rows] = found.count
        tell_reads(metrics, found)
    return counts


def within_radius(served: ServedSnapshot, asked: Search, counts: NDArray[np.int64], form: Form) -> Iterator[Rows]:
    """Yield all objects within the radius of each place, so many at a time, found when they are asked for."""
    needed = places_needed(served, form)
    for first, found in pieces_of(
        len(asked), BATCH_HITS, counts.__getitem__, lambda rows: _search(served, asked, rows, 0, needed)
    ):
        yield rows_of(served, first, found, form)


def hits_of_steps(served: ServedSnapshot, asked: Question[Any], stop: Stop) -> list[Rows]:
    """Return the hits of a question that takes steps."""
    found, alone = [], Alone(served.index.engine)
    for at in range(0, len(asked), STEPPED):
        stop.check()
        rows = rows_of_hits(alone.answer(asked.take(slice(at, at + STEPPED))))
        found.append(Rows(rows.query + at, rows.ids, rows.distance, rows.columns))
    return found


def check_hits(hits: int, most: int, way_out: str) -> None:
    """Refuse an answer of too many hits."""
    if hits > most:
        raise Problem(
            413,
            f"there are {hits:,} hits: at most {most:,} go into an answer; {way_out}",
            limit="hits",
            value=hits,
            bound=most,
        )


def places_needed(served: ServedSnapshot, form: Form) -> bool:
    """Return whether it has to be known where hits are, and not only ids and distances."""
    return bool(form.columns) or form.having is not None or served.index.string_ids


def tell_reads(metrics: Metrics, found: RawHits) -> None:
    """Tell how many partitions were read."""
    metrics.read(int(found.reads.sum()), len(found.reads))


COVER = 4
"""Times as many objects as an answer may have that discs which cover a shape may hold: so much larger they may be."""
SMALLER_SHAPES = "ask for smaller shapes, or for fewer at a time"
DISCS = 1_024
"""Discs whose objects are counted at a time."""


def found_within(
    index: Index,
    shapes: list[list[Shape]],
    corners: int,
    where: str | None,
    most: int,
    stop: Stop,
    metrics: Metrics,
    tested: int = USUAL_SIZES.tested,
) -> RawHits:
    """Return the objects within each shape, by id, each once; distances are 0."""
    discs = [shape.discs for whole in shapes for shape in whole]
    if discs:
        centres = np.concatenate([one.centres for one in discs])
        radii = np.concatenate([one.radii for one in discs])
        held = 0
        for at in range(0, len(radii), DISCS):
            stop.check()
            found = index.search_vectors(centres[at : at + DISCS], radii[at : at + DISCS], -1, where)
            tell_reads(metrics, found)
            held += int(found.count.sum())
            if held > COVER * most:
                raise Problem(
                    413,
                    f"discs that cover the shapes hold {held:,} objects or more: at most {COVER * most:,} are looked "
                    f"at; {SMALLER_SHAPES}",
                    limit="hits",
                    value=held,
                    bound=most,
                )
    stop.check()

    def search(centres: NDArray[np.float64], radii: NDArray[np.float64]) -> RawHits:
        return index.search_vectors(centres, radii, 0, where)

    checked = [[_asking(shape, max(tested // max(corners, 1), 1), stop) for shape in whole] for whole in shapes]
    return search_within(checked, search, index.parts, index.space, index.string_ids)


def _asking(shape: Shape, rows: int, stop: Stop) -> Shape:
    """Return a shape that looks at so many objects at a time."""

    def holds(positions: NDArray[np.float64], vectors: NDArray[np.float64]) -> NDArray[np.bool_]:
        inside = np.zeros(len(positions), np.bool_)
        for at in range(0, len(positions), rows):
            stop.check()
            inside[at : at + rows] = shape.holds(positions[at : at + rows], vectors[at : at + rows])
        return inside

    return replace(shape, holds=holds)


def list_hits(served: ServedSnapshot, found: RawHits, form: Form, most: int) -> Iterator[Rows]:
    """Return the hits of shapes, so many at a time."""
    check_hits(len(found.distance), most, SMALLER_SHAPES)
    return (rows_of(served, first, part, form) for first, part in parts_of(found))


def middles_of(space: Space, shapes: list[list[Shape]]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return for each shape a place amid the discs that cover it, and how far from there the furthest of them reaches.

    That is what the access log has of a shape.
    """
    vectors, radii = [], []
    for whole in shapes:
        if not whole:
            continue
        centres = np.concatenate([shape.discs.centres for shape in whole])
        middle = centres.mean(axis=0)
        if space.dimension == 3:
            length = float(np.linalg.norm(middle))
            middle = middle / length if length > 1e-9 else centres[0]
        reach = distance(centres, np.broadcast_to(middle, centres.shape))
        radii.append(float((reach + np.concatenate([shape.discs.radii for shape in whole])).max()))
        vectors.append(middle)
    return space.positions(np.array(vectors).reshape(-1, space.dimension)), np.array(radii)


BATCH_HITS = 64_000
"""Hits of a batch at the most."""
END = b"\xff\xff\xff\xff\0\0\0\0"
"""How a stream ends."""


@dataclass(frozen=True)
class Form:
    """How hits are wanted."""

    arrow: bool  # As an Arrow stream and not as JSON
    text_ids: bool = False  # Ids as text in JSON
    columns: Sequence[str] = ()
    having: str | None = None  # A condition on the hits
    query: bool = True  # Whether JSON says of which query a hit is

    @property
    def kind(self) -> bytes:
        """Content type of the answer."""
        return ARROW_TYPE if self.arrow else JSON_TYPE


@dataclass(frozen=True, eq=False)
class Rows:
    """Hits of consecutive queries."""

    query: NDArray[np.int64]  # int64 (n,)
    ids: pa.Array
    distance: NDArray[np.float64]  # float64 (n,)
    columns: dict[str, pa.Array]  # Attributes by their names

    take = take_rows


def check_columns(served: ServedSnapshot, form: Form) -> None:
    """Refuse columns that objects do not carry, and a condition on hits that cannot be read."""
    index = served.index
    column_names(form.columns, [*index.column_names, *position_names(index.space.geographic)])
    if form.having is not None:
        served.index.satisfying(served.index.search(np.zeros((0, 2)), np.zeros(0), 1), form.having)


def rows_of(served: ServedSnapshot, first: int, found: RawHits, form: Form) -> Rows:
    """Return raw hits with ids and attributes; those that do not satisfy a condition on hits are left out.

    ``first``: the number of the first query.
    """
    index = served.index
    count = found.count
    if len(count) == 1:
        query = np.full(len(found.distance), first, np.int64)
    else:
        query = np.repeat(np.arange(first, first + len(count), dtype=np.int64), count)
    taken = take_columns(index.parts, found, form.columns) if form.columns else []
    rows = Rows(query, index.ids_of(found), found.distance, dict(zip(form.columns, taken, strict=True)))
    if form.having is None:
        return rows
    kept = index.satisfying(found, form.having)
    mask = pa.array(kept)
    columns = {name: column.filter(mask) for name, column in rows.columns.items()}
    return Rows(query[kept], rows.ids.filter(mask), found.distance[kept], columns)


def rows_of_hits(hits: Hits) -> Rows:
    """Return hits as rows."""
    return Rows(hits.query, id_column(hits.id), hits.distance, hits.columns)


def encode_rows(
    served: ServedSnapshot,
    pieces: Iterator[Rows],
    form: Form,
    every: int | None = None,
    following: str | None = None,
) -> Iterator[bytes]:
    """Yield the bytes of an answer, some hits at a time: in Arrow how many each place has, in JSON the next page."""
    return _arrow(served, pieces, form, every) if form.arrow else _json(served, pieces, form, following)


def _arrow(served: ServedSnapshot, pieces: Iterator[Rows], form: Form, every: int | None) -> Iterator[bytes]:
    first = next(pieces, None)
    if first is None:  # the schema is told all the same
        first = rows_of(served, 0, served.index.search(np.zeros((0, 2)), np.zeros(0), 1), form)
    head: bytes | None = None
    for rows in chain((first,), pieces):
        batch = hits_batch(None if every is not None else rows.query, rows.ids, rows.distance, rows.columns)
        if head is None:
            head = beginning(served, batch.schema, every)
            yield head
        yield from batches(batch)
    yield END


def _json(served: ServedSnapshot, pieces: Iterator[Rows], form: Form, following: str | None) -> Iterator[bytes]:
    yield served.beginning + b"["
    begun = False
    for rows in pieces:
        for at in range(0, len(rows.query), HITS_A_PIECE):
            some = rows.take(slice(at, at + HITS_A_PIECE))
            ids = some.ids.to_numpy(zero_copy_only=False)
            hits = Hits(some.query, ids, some.distance, some.columns)
            text = rows_json(hits, query=form.query, text_ids=form.text_ids)
            yield b"," + text if begun else text
            begun = True
    yield b"]}" if following is None else b'],"next":"%s"}' % following.encode()


def parts_of(found: RawHits, most: int = BATCH_HITS) -> Iterator[tuple[int, RawHits]]:
    """Yield raw hits as many queries at a time as have so many hits, with the first query's number.

    A query that has more is a part by itself.
    """
    ends = np.cumsum(found.count)
    first = begin = 0
    while first < len(ends):
        last = max(int(np.searchsorted(ends, begin + most, side="right")), first + 1)
        rows = slice(begin, int(ends[last - 1]))
        yield (
            first,
            RawHits(
                found.count[first:last],
                found.part[rows] if len(found.part) else found.part,
                found.item[rows] if len(found.item) else found.item,
                found.distance[rows],
                None if found.ids is None else found.ids[rows],
                found.reads[first:last],
            ),
        )
        first, begin = last, rows.stop


def beginning(served: ServedSnapshot, schema: pa.Schema, every: int | None = None) -> bytes:
    """Return the message of a schema, which names the snapshot."""
    metadata = {"snapshot": served.name} | ({} if every is None else {"every": str(every)})
    return _bytes(schema.with_metadata(metadata).serialize())


def hits_batch(
    query: NDArray[np.int64] | None,
    ids: pa.Array,
    distance: NDArray[np.float64],
    columns: Mapping[str, pa.Array],
) -> pa.RecordBatch:
    """Return hits as a batch with the columns query (unless it is None), id, distance and the attributes."""
    table: dict[str, Any] = {} if query is None else {"query": pa.array(query)}
    # values are copied once, into the message
    table |= {"id": ids, "distance": pa.array(distance), **columns}
    return pa.record_batch(list(table.values()), names=list(table))


def batches(batch: pa.RecordBatch) -> Iterator[bytes]:
    """Yield the messages of a batch, :data:`BATCH_HITS` at a time."""
    for at in range(0, len(batch), BATCH_HITS):
        yield _bytes(batch.slice(at, BATCH_HITS).serialize())


def column_stream(served: ServedSnapshot, name: str, values: pa.Array) -> bytes:
    """Return the stream of one column."""
    batch = pa.record_batch([values], names=[name])
    return beginning(served, batch.schema) + _bytes(batch.serialize()) + END


def _bytes(buffer: pa.Buffer) -> bytes:
    made: bytes = buffer.to_pybytes()
    return made
