"""Rows on their way to a log: by a socket to the process that writes it, and there added together by one sync.

A message is its length in 8 bytes and so many bytes: there how many rows, in 8 bytes, and these as an Arrow stream;
JSON back. Metadata of the stream say up to where their source was read.

One loop does it, so what is appended, synced and sealed is so in one order.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import pyarrow as pa

from dtoss.arrow_stream import rows_of_stream, stream_of
from dtoss.errors import DtossError, StoreError
from dtoss.fresh.fresh_counts import FreshCounts
from dtoss.log.log_writer import LogWriter
from dtoss.log.read_upto import ReadUpto, upto_of

LENGTH = 8
"""Bytes of the length of a message, and of a number of rows."""
MESSAGE_BYTES = 1 << 30
"""Of a message."""
UPTO = b"dtoss.upto"
"""Under this key the metadata say it."""
ANSWER_SECONDS = 20.0
"""For which a worker waits until its rows are acknowledged."""


class Busy(DtossError):
    """Rows were not taken, as too many wait; ``seconds``: when to come again."""

    def __init__(self, said: str, seconds: float = 1.0) -> None:
        super().__init__(said)
        self.seconds = seconds


class Away(DtossError):
    """Nobody takes rows at present, or nobody said that they are durable: they may be in the log."""


@dataclass(frozen=True)
class Receipt:
    """What became of rows that were taken."""

    taken: int  # Rows that stand in the log by now
    seq: int | None  # Sequence number of the last of them; None where there was none
    late: int  # Rows of which a later one of the same object stood already
    unchanged: int  # Rows that say what stood already
    offsets: str | None = None  # Where the source goes on of which that was asked

    def data(self) -> bytes:
        """Return the message of it."""
        return frame(json.dumps(asdict(self)).encode())


def frame(data: bytes) -> bytes:
    """Return a message with its length before it."""
    return len(data).to_bytes(LENGTH, "little") + data


def message_of(rows: pa.Table, upto: ReadUpto | None = None) -> bytes:
    """Return rows as a message."""
    told = rows if upto is None else rows.replace_schema_metadata({UPTO: upto.data()})
    return frame(len(rows).to_bytes(LENGTH, "little") + stream_of(told))


def upto_in(rows: pa.Table) -> ReadUpto | None:
    """Return up to where the source of rows was read, if a message says it."""
    said = (rows.schema.metadata or {}).get(UPTO)
    return None if said is None else upto_of(said)


def refusal(error: DtossError) -> bytes:
    """Return a message that says why rows were not taken."""
    said: dict[str, Any] = {"error": str(error)}
    if isinstance(error, Busy):
        said["seconds"] = error.seconds
    return frame(json.dumps(said).encode())


def taken_of(data: bytes) -> Receipt:
    """Return what an answer says; a refusal is raised."""
    said = json.loads(data)
    if "error" in said:
        raise Busy(said["error"], said["seconds"]) if "seconds" in said else Away(said["error"])
    return Receipt(**said)


@dataclass(frozen=True)
class Intake:
    """Where rows are taken."""

    address: str  # Of the socket

    async def put(self, rows: pa.Table, upto: ReadUpto | None = None, seconds: float = ANSWER_SECONDS) -> Receipt:
        """Return what became of rows, once they are durable, and where a source goes on that ``upto`` names."""
        try:
            async with asyncio.timeout(seconds):
                reader, writer = await asyncio.open_unix_connection(self.address)
                try:
                    writer.write(message_of(rows, upto))
                    await writer.drain()
                    length = int.from_bytes(await reader.readexactly(LENGTH), "little")
                    return taken_of(await reader.readexactly(length))
                finally:
                    writer.close()
        except (OSError, asyncio.IncompleteReadError, TimeoutError) as error:
            raise Away(_away(error)) from None


def _away(error: BaseException) -> str:
    if isinstance(error, TimeoutError):
        return "rows were not acknowledged in time: they may stand in the log; send them again, twice does no harm"
    if isinstance(error, FileNotFoundError | ConnectionRefusedError):
        return "the process that writes the log is being started: send the rows again"
    return "the process that writes the log has ended meanwhile: send the rows again, twice does no harm"


class Bounds(NamedTuple):
    """How much may wait, and for how long."""

    group_seconds: float = 0.001  # For which the first row of a group waits for others
    group_rows: int = 10_000  # From which on nobody waits
    waiting_bytes: int = 256_000_000  # Bytes of messages that are not acknowledged yet
    unseen_rows: int = 1_000_000  # Rows that are acknowledged and in no generation yet
    due_seconds: float = 0.2  # Between two looks whether the log is to be sealed


INTAKE_BOUNDS = Bounds()
PASSED_OVER = 1 << 16
"""Bytes that are read at once of what is refused."""


@dataclass(frozen=True)
class _Waiting:
    """Rows that are appended, and wait for a sync."""

    answer: asyncio.Future[Receipt]
    rows: int
    seq: int  # Of the last
    late: int
    unchanged: int
    source: str | None  # Of which it is asked where it goes on


class GroupCommit:
    """Takes rows, adds them to a log and acknowledges them, until :meth:`serve` ends.

    ``judge``: returns how many rows are late, and how many say what stands; ``synced``: is called after
    each sync; ``event``: is told what goes wrong.
    """

    def __init__(
        self,
        log: LogWriter,
        schema: pa.Schema,
        judge: Callable[[pa.Table], tuple[int, int]],
        synced: Callable[[], None],
        counts: FreshCounts,
        event: Callable[..., None],
        bounds: Bounds = INTAKE_BOUNDS,
    ) -> None:
        self._log, self._schema, self._judge = log, schema, judge
        self._synced, self._counts, self._event, self._bounds = synced, counts, event, bounds
        self._group: list[_Waiting] = []
        self._timer: asyncio.TimerHandle | None = None
        self._bytes = 0

    async def serve(self, address: str, stop: asyncio.Event, ready: Callable[[], None]) -> None:
        """Answer at a socket until told to stop; then nobody waits any more."""
        server = await asyncio.start_unix_server(self._connection, address, limit=1 << 20)
        ready()
        while not stop.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), self._bounds.due_seconds)
            await asyncio.to_thread(self.seal_if_due)  # others append meanwhile
        server.close()
        self._sync()
        await asyncio.sleep(0)  # answers are written

    def seal_if_due(self) -> None:
        """Seal the open segment if it is time; what goes wrong is told."""
        try:
            if self._log.due(time.monotonic()):
                self._log.seal()
        except (DtossError, OSError) as error:
            self._event("log not sealed", detail=str(error))

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while True:
                length = int.from_bytes(await reader.readexactly(LENGTH), "little")
                if not LENGTH <= length <= MESSAGE_BYTES:
                    break
                writer.write(await self._answer(reader, length))
                await writer.drain()
        writer.close()

    async def _answer(self, reader: asyncio.StreamReader, length: int) -> bytes:
        rows = int.from_bytes(await reader.readexactly(LENGTH), "little")
        if self._bytes + length > self._bounds.waiting_bytes:  # looked at first: what is refused is never held
            await _pass_over(reader, length - LENGTH)
            self._counts.add_refused(rows)
            return refusal(Busy(f"at most {self._bounds.waiting_bytes:,} bytes of rows may wait to be written"))
        self._bytes += length
        try:
            data = await reader.readexactly(length - LENGTH)
            return (await self.take(rows_of_stream(data))).data()
        except (Busy, Away) as error:
            return refusal(error)
        except (DtossError, pa.ArrowException, OSError) as error:
            self._event("rows not taken", detail=str(error))
            return refusal(Away(f"the log cannot be written: {error}"))
        finally:
            self._bytes -= length

    async def take(self, rows: pa.Table) -> Receipt:
        """Return what became of rows, once they are durable."""
        self._check(rows)
        upto = upto_in(rows)
        source = None if upto is None else upto.source
        upto = upto if upto is not None and upto.offsets else None
        if len(rows) == 0 and upto is None:
            return Receipt(0, None, 0, 0, self._goes_on(source))
        late, unchanged = self._judge(rows) if len(rows) else (0, 0)
        first = self._log.append(rows, upto)
        waiting = _Waiting(
            asyncio.get_running_loop().create_future(), len(rows), first + len(rows) - 1, late, unchanged, source
        )
        self._group.append(waiting)
        if sum(one.rows for one in self._group) >= self._bounds.group_rows:
            self._sync()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._bounds.group_seconds, self._sync)
        return await waiting.answer

    def _goes_on(self, source: str | None) -> str | None:
        """Return where a source goes on, as far as that is on the disk; None where nobody asks."""
        return None if source is None else self._log.upto.get(source, ReadUpto(source)).text()

    def _check(self, rows: pa.Table) -> None:
        unseen = self._counts.unseen
        if unseen > self._bounds.unseen_rows:
            self._counts.add_refused(len(rows))
            raise Busy(f"{unseen:,} rows wait to be found, at most {self._bounds.unseen_rows:,} may")
        if not rows.schema.equals(self._schema):
            raise StoreError(f"rows have the columns {rows.schema.names}, the log has {self._schema.names}")

    def _sync(self) -> None:
        """Bring what was appended to the disk, and acknowledge it."""
        if self._timer is not None:
            self._timer.cancel()
        group, self._group, self._timer = self._group, [], None
        if not group:
            return
        try:
            seq = self._log.sync()
        except (DtossError, OSError) as error:
            self._event("log not synced", detail=str(error))
            for one in group:
                one.answer.set_exception(Away(f"the log cannot be written: {error}"))
            return
        self._counts.add_acknowledged(seq, sum(one.rows for one in group))
        self._synced()
        for one in group:
            if not one.answer.done():
                one.answer.set_result(
                    Receipt(one.rows, one.seq if one.rows else None, one.late, one.unchanged, self._goes_on(one.source))
                )


async def _pass_over(reader: asyncio.StreamReader, length: int) -> None:
    """Read so many bytes and keep none, so that their sender comes to read the answer."""
    while length > 0:
        length -= len(await reader.readexactly(min(length, PASSED_OVER)))
