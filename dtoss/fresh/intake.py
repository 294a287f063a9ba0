"""Rows on their way to the process that writes a log, by a socket of this machine, and what is said of them.

A message is its length in 8 bytes and so many bytes: there how many rows, in 8 bytes, and these as an Arrow stream;
JSON back. Metadata of the stream say up to where their source was read.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa

from dtoss.arrow_stream import stream_of
from dtoss.errors import DtossError
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
