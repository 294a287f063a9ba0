"""Processes that write a log and are killed: all that they have acknowledged is there, once, under its number."""

from __future__ import annotations

import os
import random
import signal

import pytest

from dtoss.commits.offsets import Ledger
from dtoss.log.log_reader import LogReader
from dtoss.log.log_writer import LogWriter
from tests.dtoss.log.logs import COLUMNS, Unsynced, rows_of, sealed
from tests.ends import end_now

MOST_SYNCS = 40
"""How often a process says that rows are in, at the most, before it is killed."""


def write(folder, pipe):
    """Append, sync, seal; after each sync say the number of the last row."""
    said = []
    writer = LogWriter.open(folder, COLUMNS, seal_bytes=4_000, warn=said.append, disk=Unsynced())
    while True:
        first = writer.next
        writer.append(rows_of(range(first, first + 7)))
        os.write(pipe, writer.sync().to_bytes(8, "little"))
        if writer.due():
            writer.seal()


def killed(folder, syncs):
    """Kill a process that writes once it has said so often that rows are in; return the last number that it said."""
    there, pipe = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            write(str(folder), pipe)
        finally:
            end_now(1)
    os.close(pipe)
    try:
        said = b"".join(os.read(there, 8) for _ in range(syncs))
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        while more := os.read(there, 1 << 16):
            said += more
    finally:
        os.close(there)
    assert os.WIFSIGNALED(status)
    return int.from_bytes(said[-8:], "little")


@pytest.mark.parametrize(
    "kills", [10, pytest.param(100, marks=pytest.mark.deep("more of the kills that are tried above"))]
)
def test_whoever_is_killed_has_lost_nothing(tmp_path, kills):
    moments, last = random.Random(8), 0
    reader = LogReader(tmp_path, COLUMNS)
    followed = 0
    for _ in range(kills):
        acknowledged = killed(tmp_path, moments.randrange(1, MOST_SYNCS))
        assert acknowledged > last
        followed, rows = reader.follow(followed)
        assert rows.column("id").to_pylist() == list(range(last + 1, followed + 1))
        assert followed >= acknowledged
        last = followed
    LogWriter.open(tmp_path, COLUMNS, disk=Unsynced(), warn=lambda _: None).close()
    assert reader.last() >= acknowledged
    found = [one for _, rows in reader.rows_unread(Ledger()) for one in rows.column("id").to_pylist()]
    assert found == list(range(1, reader.last() + 1))
    firsts = [name[19:39] for name in sealed(tmp_path)]
    assert len(set(firsts)) == len(firsts) > kills // 10
    reader.close()
