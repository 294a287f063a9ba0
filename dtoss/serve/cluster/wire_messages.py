"""What servers say to each other: questions as packed arrays, hits as Arrow, over connections that stay open.

The version of what servers say to each other: a major part that all of a plan share, a minor one that may differ.

Questions in the words of a server of an older release, and its answers as those of this one.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Annotated, Any, NamedTuple, TypeAlias, cast

import httptools
import msgspec
import numpy as np
import orjson
import pyarrow as pa
from numpy.typing import NDArray

from dtoss.arrow_stream import rows_of_stream, stream_of
from dtoss.client.endpoint import Address
from dtoss.geometry.distance import EARTH_RADIUS
from dtoss.geometry.space import Space
from dtoss.kinds.hit_tables import merge_hits
from dtoss.kinds.kind import Question, Search, Shapes
from dtoss.kinds.shapes import IN_POLYGONS, SHAPES_PART, question_of_shapes
from dtoss.queries.covered import Shape
from dtoss.serve.answers.json_out import ObjectQuestion
from dtoss.serve.observability.log_lines import ASKER
from dtoss.shards.merge_answers import AT_HOMES, PART_STEPS, SHARE_STEPS, ShareAnswer, ShareQuestion
from dtoss.shards.share import AtHome

WIRE_HEADER = b"x-dtoss-wire"
"""Of messages and of answers to them."""
_WRITTEN = re.compile(r"([0-9]{1,4})\.([0-9]{1,4})")


class Wire(NamedTuple):
    """A version of messages."""

    major: int  # Another one is not read
    minor: int  # Rises with what is new, of which an older server is not asked in words that it does not know

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"


UNSAID = Wire(1, 0)
"""Of a server whose messages say no version."""
WIRE_SPOKEN = Wire(1, 1)
"""Of this one."""
SAYS_EDGES = 1
"""The minor part from which GeoJSON says what its edges are; before, they were arcs whose sides vectors decide."""
WIRE_SAID = str(WIRE_SPOKEN).encode()


def read_wire(said: bytes | str | None) -> Wire:
    """Return the version that a message or a server says.

    Examples
    --------
    >>> str(read_wire(b"2.13")), str(read_wire(None))
    ('2.13', '1.0')
    """
    if said is None:
        return UNSAID
    text = said.decode("latin-1") if isinstance(said, bytes) else said
    found = _WRITTEN.fullmatch(text)
    if found is None:
        raise ValueError(f"{text[:40]!r} is no version of messages: {WIRE_SPOKEN} is one")
    return Wire(int(found[1]), int(found[2]))


def unread(wire: Wire) -> str | None:
    """Return why messages of a version are not read here; None where they are."""
    if wire.major == WIRE_SPOKEN.major:
        return None
    mine = WIRE_SPOKEN
    older = "that server" if wire.major < mine.major else "this one"
    return f"its messages have version {wire}, this server reads {mine.major}.x and says {mine}: upgrade {older}"


OF_OBJECT = 5
"""The kind of a message, beside those of steps: :data:`dtoss.shards.merge_answers.SHARE_STEPS`."""
STEP_OF_SHAPES = PART_STEPS[SHAPES_PART.name]
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


PeerQuestion: TypeAlias = ShareQuestion | ObjectQuestion
"""What one server asks another."""
PartialAnswer: TypeAlias = ShareAnswer | tuple[bytes, float, float] | None
"""What that one answers: hits, numbers, or an object with its place, None where it has none."""
_ENCODE = msgspec.msgpack.Encoder().encode
_DECODE = msgspec.msgpack.Decoder(Message).decode
_HOME = msgspec.msgpack.Decoder(tuple[bytes, bytes, bytes]).decode
_OBJECT = msgspec.msgpack.Decoder(tuple[bytes, float, float] | None).decode


def pack_question(question: PeerQuestion, snapshot: str, left: float) -> bytes:
    """Return the bytes of a question."""
    if isinstance(question, ObjectQuestion):
        flags: tuple[Any, ...] = (question.text, question.arrow, question.neighbours, question.cell, question.text_ids)
        columns = question.columns
        if question.where is None and columns is None:
            return _ENCODE(Message(snapshot, left, OF_OBJECT, flags=flags))
        # a flag more: a server of a version that knows no such question refuses it, and tells nothing
        flags = (*flags, columns is not None)
        return _ENCODE(Message(snapshot, left, OF_OBJECT, where=question.where, columns=columns or (), flags=flags))
    asked, number, partitions = question.asked, question.step.number, _numbers(question.partitions)
    if isinstance(asked, Question):
        assert asked.shapes is not None
        flags = (asked.shapes.form, asked.given["most"], asked.given["count"])
        return _ENCODE(
            Message(
                snapshot, left, number, where=asked.where, having=asked.having, columns=tuple(asked.columns),
                partitions=partitions, text=asked.shapes.text, flags=flags,
            )
        )  # fmt: skip
    return _ENCODE(
        Message(
            snapshot, left, number, _floats(asked.positions), _floats(asked.radius), asked.k, asked.where,
            asked.columns, asked.having, partitions,
        )
    )  # fmt: skip


def read_message(data: bytes, wire: Wire = WIRE_SPOKEN) -> tuple[Message, PeerQuestion]:
    """Return a message of a version and its question."""
    try:
        said = _DECODE(data)
        return said, _question(said, wire)
    except (msgspec.MsgspecError, TypeError, KeyError) as error:
        raise ValueError(f"the body is no question of a server: {error}") from None


def _question(said: Message, wire: Wire) -> PeerQuestion:
    positions = _read_floats(said.positions).reshape(-1, 2)
    partitions = tuple(np.frombuffer(said.partitions, np.int32).tolist())
    flags: Any = said.flags  # of what types they have to be is looked at where the question is checked
    if said.kind == OF_OBJECT:
        text, arrow, neighbours, cell, text_ids, some = (*flags, False)[:MOST_FLAGS]
        columns = said.columns if some else None
        return ObjectQuestion(text, arrow, neighbours, cell, text_ids, said.where, columns)
    step, radius = SHARE_STEPS[said.kind], _read_floats(said.radius)
    if step is STEP_OF_SHAPES:
        form, most, count = flags
        shapes = Shapes(form, said.text, by_vectors=wire.minor < SAYS_EDGES)
        about = question_of_shapes(shapes, most, count, said.where, said.having, said.columns)
        return ShareQuestion(step, about, partitions)
    if len(radius) != len(positions) * step.radii:
        raise ValueError(f"there are {len(radius)} radii of {len(positions)} places")
    asked = Search(positions, radius, said.k, said.where, said.columns, said.having)
    return ShareQuestion(step, asked, partitions)


def packed_answer(kind: int, answer: PartialAnswer) -> bytes:
    """Return the bytes of an answer."""
    if isinstance(answer, AtHome):
        return _ENCODE((stream_of(answer.hits), _floats(answer.far), answer.alone.tobytes()))
    if isinstance(answer, pa.Table):
        return b"t" + stream_of(answer)
    if kind == OF_OBJECT:
        return _ENCODE(answer)
    return b"c" + np.ascontiguousarray(answer, np.int64).tobytes()


def read_answer(question: PeerQuestion, data: bytes) -> PartialAnswer:
    """Return the answer to a question."""
    try:
        if isinstance(question, ShareQuestion) and question.step is AT_HOMES:
            hits, far, alone = _HOME(data)
            return AtHome(rows_of_stream(hits), _read_floats(far), np.frombuffer(alone, np.bool_))
        if isinstance(question, ObjectQuestion):
            return _OBJECT(data)
        return rows_of_stream(data[1:]) if data[:1] == b"t" else np.frombuffer(data[1:], np.int64)
    except (msgspec.MsgspecError, pa.ArrowException) as error:
        raise ValueError(f"what it sent is no answer: {error}") from None


def _floats(values: NDArray[np.float64]) -> bytes:
    return np.ascontiguousarray(values, np.float64).tobytes()


def _read_floats(data: bytes) -> NDArray[np.float64]:
    return np.frombuffer(data, np.float64).copy()  # kernels take arrays that may be written to


def _numbers(values: tuple[int, ...]) -> bytes:
    return np.array(values, np.int32).tobytes()


BOX_TOLERANCE = 1e-9
"""Radians by which a box round a disc is larger than rounding may make it."""


def least_minor(question: PeerQuestion, space: Space) -> int:
    """Return the minor version of messages from which a server answers a question as this one does."""
    asked = question.asked if isinstance(question, ShareQuestion) and space.geographic else None
    return SAYS_EDGES if isinstance(asked, Question) and asked.kind is IN_POLYGONS else 0


def in_older_words(
    question: ShareQuestion, space: Space, shapes: list[list[Shape]], most: int
) -> tuple[ShareQuestion, Callable[[pa.Table], Any]]:
    """Return a question about boxes that cover shapes, and what makes of its answer that to the shapes."""
    parts = [(number, part) for number, whole in enumerate(shapes) for part in whole]
    boxes = np.concatenate([np.zeros((0, 4)), *(_boxes_round(part, space) for _, part in parts)])
    # the number of a box tells the part, of several that may hold an object
    part_of = np.repeat(np.arange(len(parts)), [len(part.discs.radii) for _, part in parts])
    meant, text = question.asked, orjson.dumps({"boxes": boxes.tolist()})
    assert isinstance(meant, Question)
    columns = tuple(dict.fromkeys((*meant.columns, "lon", "lat")))
    asked = question_of_shapes(Shapes("boxes", text), most, False, meant.where, meant.having, columns)

    def within(found: pa.Table) -> pa.Table | NDArray[np.int64]:
        at = np.column_stack([found.column("c:lon").to_numpy(), found.column("c:lat").to_numpy()]).reshape(-1, 2)
        vectors, of = space.vectors(at), part_of[found.column("query").to_numpy()]
        query, held = np.zeros(len(at), np.int64), np.zeros(len(at), np.bool_)
        for number, (shape, part) in enumerate(parts):
            rows = np.flatnonzero(of == number)
            query[rows], held[rows] = shape, part.holds(at[rows], vectors[rows])
        kept = [name for name in found.column_names if name[:2] != "c:" or name[2:] in meant.columns]
        told = merge_hits([found.select(kept).set_column(0, "query", pa.array(query)).filter(pa.array(held))], 0)
        if meant.given["count"]:
            return np.bincount(told.column("query").to_numpy(), minlength=len(shapes)).astype(np.int64)
        return told

    return replace(question, asked=asked), within


def _boxes_round(shape: Shape, space: Space) -> NDArray[np.float64]:
    """Return boxes west, south, east, north in degrees that hold the discs of a shape, float64 (d, 4)."""
    lon, lat = np.radians(space.positions(shape.discs.centres)).T
    angle = shape.discs.radii / EARTH_RADIUS + BOX_TOLERANCE
    south, north = lat - angle, lat + angle
    pole = (south <= -np.pi / 2) | (north >= np.pi / 2)
    half = np.arcsin(np.where(pole, 0.0, np.sin(angle) / np.cos(lat))) + BOX_TOLERANCE
    whole = pole | (half >= np.pi / 2)
    turned = (np.degrees(np.stack([lon - half, lon + half])) + 180.0) % 360.0 - 180.0
    west, east = np.where(whole, [[-180.0], [180.0]], turned)
    return np.stack(
        [west, np.degrees(np.maximum(south, -np.pi / 2)), east, np.degrees(np.minimum(north, np.pi / 2))], 1
    )


Headers: TypeAlias = list[tuple[bytes, bytes]]
IDLE = 32
"""Connections that are kept while nobody uses them."""


class Reply(NamedTuple):
    """What another server answered, and the version of messages that it said with it."""

    status: int
    body: bytes
    wire: bytes | None = None


class _Connection(asyncio.Protocol):
    def __init__(self, link: Link) -> None:
        self.link = link
        self.transport: asyncio.Transport | None = None
        self.waiting: asyncio.Future[Reply] | None = None
        self.parser: httptools.HttpResponseParser | None = None
        self.body: list[bytes] = []
        self.wire: bytes | None = None
        self.closed = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's own are no subclass of it

    def data_received(self, data: bytes) -> None:
        if self.parser is None:
            self.close()
            return
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._fail(ConnectionError(f"what it sent is no answer: {error}"))
            self.close()

    def on_header(self, name: bytes, value: bytes) -> None:
        if name.lower() == WIRE_HEADER:
            self.wire = value

    def on_body(self, body: bytes) -> None:
        self.body.append(body)

    def on_message_complete(self) -> None:
        waiting, parser = self.waiting, self.parser
        assert parser is not None
        self.waiting = self.parser = None
        if not parser.should_keep_alive():
            self.close()
        if waiting is not None and not waiting.done():
            waiting.set_result(Reply(parser.get_status_code(), b"".join(self.body), self.wire))

    def connection_lost(self, error: Exception | None) -> None:
        self.closed = True
        with suppress(ValueError):
            self.link.idle.remove(self)
        self._fail(ConnectionResetError("it closed the connection"))

    def close(self) -> None:
        self.closed = True
        if self.transport is not None:
            self.transport.close()

    def send(self, data: bytes, loop: asyncio.AbstractEventLoop) -> asyncio.Future[Reply]:
        assert self.transport is not None
        self.waiting, self.parser, self.body = loop.create_future(), httptools.HttpResponseParser(self), []
        self.wire = None
        self.transport.write(data)
        return self.waiting

    def _fail(self, error: Exception) -> None:
        waiting, self.waiting = self.waiting, None
        if waiting is not None and not waiting.done():
            waiting.set_exception(error)


class Link:
    """The way to another server; to be used on one loop only."""

    def __init__(self, address: Address, token: str | None) -> None:
        self.address, self.token = address, token
        self.idle: list[_Connection] = []
        self._tls = ssl.create_default_context() if address.scheme == "https" else None

    async def ask(
        self,
        path: str,
        body: bytes | None,
        limit: float | asyncio.Timeout,
        asker: bytes = b"",
        given: Headers | None = None,
    ) -> Reply:
        """Return the answer to a request.

        A connection that was closed while it was idle is opened again, once: what a request changes is no other one
        the second time.

        ``body``: what is posted; None to get; ``limit``: seconds, or a timeout that the caller moves;
        ``asker``: for whom it is, as :func:`dtoss.serve.observability.log_lines.askers` has it; empty where that is not
        known; ``given``: headers that somebody sent, whose request is passed on, in place of those of this server.
        """
        data = self.request(path, body, asker, given)
        loop = asyncio.get_running_loop()
        async with limit if isinstance(limit, asyncio.Timeout) else asyncio.timeout(limit):
            if self.idle:
                with suppress(ConnectionResetError):
                    return await self._exchange(self.idle.pop(), data, loop)
            made = await self._connect(loop)
            return await self._exchange(made, data, loop)

    def close(self) -> None:
        """Close what is open."""
        for one in [*self.idle]:
            one.close()

    async def _connect(self, loop: asyncio.AbstractEventLoop) -> _Connection:
        _, made = await loop.create_connection(
            lambda: _Connection(self), self.address.host, self.address.port, ssl=self._tls
        )
        return made

    async def _exchange(self, connection: _Connection, data: bytes, loop: asyncio.AbstractEventLoop) -> Reply:
        try:
            reply = await connection.send(data, loop)
        except BaseException:
            connection.close()  # the rest of an answer may still be on its way
            raise
        if not connection.closed and len(self.idle) < IDLE:
            self.idle.append(connection)
        else:
            connection.close()
        return reply

    def request(self, path: str, body: bytes | None, asker: bytes = b"", given: Headers | None = None) -> bytes:
        """Return the bytes of a request, without a body to get."""
        if given is None:
            given = [] if self.token is None else [(b"authorization", b"Bearer " + self.token.encode())]
        token = b"".join(b"%b: %b\r\n" % header for header in [*given, *([(ASKER, asker)] if asker else [])])
        length = b"" if body is None else b"content-length: %d\r\n%b: %b\r\n" % (len(body), WIRE_HEADER, WIRE_SAID)
        method = b"GET" if body is None else b"POST"
        at = self.address
        head = b"%b %b%b HTTP/1.1\r\nhost: %b\r\n%b%b\r\n" % (
            method, at.prefix.encode(), path.encode(), at.authority.encode(), token, length,
        )  # fmt: skip
        return head if body is None else head + body
