"""What servers say to each other, as bytes: questions as packed arrays, hits as Arrow."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dtoss.serve.cluster.wire_versions import SAYS_EDGES, WIRE_SPOKEN, Wire
from dtoss.shards.merge_answers import CountQuestion, HitsQuestion, HomeQuestion, NearestToQuestion
from dtoss.shards.shard_queries import ShardQuery
from dtoss.shards.share import AtHome

OF_HOMES, OF_HITS, OF_NUMBERS, OF_NEAREST, OF_SHAPES, OF_OBJECT = range(6)


NUMBERS_BYTES, MOST_COLUMNS, MOST_FLAGS = 1 << 19, 1_000, 6
"""Of a message: looked at before memory is taken for what they count."""
Columns: TypeAlias = Annotated[tuple[str, ...], msgspec.Meta(max_length=MOST_COLUMNS)]


class Message(msgspec.Struct, array_like=True):
    """A question of one server to another."""

    snapshot: str
    left: float  # Seconds that are left until nobody waits for the answer any more
    kind: int
    positions: bytes = b""  # float64 (m, 2) and float64 (m,) as bytes
    radius: bytes = b""  # float64 (m, 2) and float64 (m,) as bytes
    k: int = 0
    where: str | None = None
    columns: Columns = ()
    having: str | None = None
    partitions: Annotated[bytes, msgspec.Meta(max_length=NUMBERS_BYTES)] = b""  # int32, as bytes
    text: bytes = b""
    flags: Annotated[tuple[str | int | bool, ...], msgspec.Meta(max_length=MOST_FLAGS)] = ()  # What else there is


class ShapesQuestion(msgspec.Struct, frozen=True):
    """Asks which objects some of a server's partitions own in shapes."""

    text: bytes  # JSON: four numbers of a box, the body of ``POST /box``, or GeoJSON
    kind: str  # box, boxes or within
    where: str | None
    having: str | None
    columns: tuple[str, ...]
    partitions: tuple[int, ...]
    most: int  # Hits of an answer
    count: bool  # Whether only numbers are wanted
    # Whether edges are arcs whose sides vectors decide, whatever the text says of them; never sent
    by_vectors: bool = False


class ObjectQuestion(msgspec.Struct, frozen=True):
    """Asks for an object by the text of its id; answered by the bytes of an answer, its place, or nothing.

    One that does not satisfy ``where`` is none, and attributes beside ``columns`` are not told; None for all.
    """

    text: str
    arrow: bool
    neighbours: bool
    cell: bool
    text_ids: bool
    where: str | None = None
    columns: tuple[str, ...] | None = None


_ENCODE = msgspec.msgpack.Encoder().encode
_DECODE = msgspec.msgpack.Decoder(Message).decode
_HOME = msgspec.msgpack.Decoder(tuple[bytes, bytes, bytes]).decode
_OBJECT = msgspec.msgpack.Decoder(tuple[bytes, float, float] | None).decode


def pack_question(question: Any, snapshot: str, left: float) -> bytes:
    """Return the bytes of a question."""
    if isinstance(question, ShapesQuestion):
        flags: tuple[Any, ...] = (question.kind, question.most, question.count)
        return _ENCODE(
            Message(
                snapshot, left, OF_SHAPES, where=question.where, having=question.having, columns=question.columns,
                partitions=_numbers(question.partitions), text=question.text, flags=flags,
            )
        )  # fmt: skip
    if isinstance(question, ObjectQuestion):
        flags = (question.text, question.arrow, question.neighbours, question.cell, question.text_ids)
        columns = question.columns
        if question.where is None and columns is None:
            return _ENCODE(Message(snapshot, left, OF_OBJECT, flags=flags))
        # a flag more: a server of a version that knows no such question refuses it, and tells nothing
        flags = (*flags, columns is not None)
        return _ENCODE(Message(snapshot, left, OF_OBJECT, where=question.where, columns=columns or (), flags=flags))
    if isinstance(question, NearestToQuestion):
        positions = _floats(question.positions)
        return _ENCODE(Message(snapshot, left, OF_NEAREST, positions, partitions=_numbers(question.partitions)))
    kind = {HomeQuestion: OF_HOMES, HitsQuestion: OF_HITS, CountQuestion: OF_NUMBERS}[type(question)]
    asked = question.asked
    partitions = _numbers(question.partitions)
    return _ENCODE(
        Message(
            snapshot, left, kind, _floats(asked.positions), _floats(asked.radius), asked.k, asked.where, asked.columns,
            asked.having, partitions,
        )
    )  # fmt: skip


def read_message(data: bytes, wire: Wire = WIRE_SPOKEN) -> tuple[Message, Any]:
    """Return a message of a version and its question."""
    try:
        said = _DECODE(data)
        return said, _question(said, wire)
    except (msgspec.MsgspecError, TypeError, KeyError) as error:
        raise ValueError(f"the body is no question of a server: {error}") from None


def _question(said: Message, wire: Wire) -> Any:
    positions = _read_floats(said.positions).reshape(-1, 2)
    partitions = tuple(np.frombuffer(said.partitions, np.int32).tolist())
    flags: Any = said.flags  # of what types they have to be is looked at where the question is checked
    if said.kind == OF_SHAPES:
        kind, most, count = flags
        older = wire.minor < SAYS_EDGES
        return ShapesQuestion(said.text, kind, said.where, said.having, said.columns, partitions, most, count, older)
    if said.kind == OF_OBJECT:
        text, arrow, neighbours, cell, text_ids, some = (*flags, False)[:MOST_FLAGS]
        columns = said.columns if some else None
        return ObjectQuestion(text, arrow, neighbours, cell, text_ids, said.where, columns)
    if said.kind == OF_NEAREST:
        return NearestToQuestion(positions, partitions)
    radius = _read_floats(said.radius)
    if len(radius) != len(positions):
        raise ValueError(f"there are {len(radius)} radii of {len(positions)} places")
    asked = ShardQuery(positions, radius, said.k, said.where, said.columns, said.having)
    if said.kind == OF_NUMBERS:
        return CountQuestion(asked, partitions)
    return {OF_HOMES: HomeQuestion, OF_HITS: HitsQuestion}[said.kind](asked, partitions)


def packed_answer(kind: int, answer: Any) -> bytes:
    """Return the bytes of an answer."""
    if kind == OF_HOMES:
        return _ENCODE((_table(answer.hits), _floats(answer.far), answer.alone.tobytes()))
    if isinstance(answer, pa.Table):
        return b"t" + _table(answer)
    if kind == OF_OBJECT:
        return _ENCODE(answer)
    return b"c" + np.ascontiguousarray(answer, np.int64).tobytes()


def read_answer(question: Any, data: bytes) -> Any:
    """Return the answer to a question."""
    try:
        if isinstance(question, HomeQuestion):
            hits, far, alone = _HOME(data)
            return AtHome(_read_table(hits), _read_floats(far), np.frombuffer(alone, np.bool_))
        if isinstance(question, ObjectQuestion):
            return _OBJECT(data)
        return _read_table(data[1:]) if data[:1] == b"t" else np.frombuffer(data[1:], np.int64)
    except (msgspec.MsgspecError, pa.ArrowException) as error:
        raise ValueError(f"what it sent is no answer: {error}") from None


def _floats(values: NDArray[np.float64]) -> bytes:
    return np.ascontiguousarray(values, np.float64).tobytes()


def _read_floats(data: bytes) -> NDArray[np.float64]:
    return np.frombuffer(data, np.float64).copy()  # kernels take arrays that may be written to


def _numbers(values: tuple[int, ...]) -> bytes:
    return np.array(values, np.int32).tobytes()


def _table(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    found: bytes = sink.getvalue().to_pybytes()
    return found


def _read_table(data: bytes) -> pa.Table:
    return pa.ipc.open_stream(data).read_all()
