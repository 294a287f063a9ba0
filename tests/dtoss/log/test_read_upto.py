"""Offsets of sources in a log: with their rows or not at all, in each segment, whoever dies at which step."""

from __future__ import annotations

import json
import random

import pytest

from dtoss.errors import InputError, StoreError
from dtoss.log.log_reader import LogReader
from dtoss.log.log_writer import LogWriter
from dtoss.log.open_segment import SLOT_BYTES, durable_of
from dtoss.log.read_upto import MOST_SOURCES, ReadUpto, read_upto, upto_of
from tests.dtoss.log.logs import (
    BROKEN,
    COLUMNS,
    FULL,
    FaultyDisk,
    Stopped,
    ids_in,
    opened,
    rows_of,
    sealed,
    writer_of,
)
from tests.examples import examples

BATCH = 7
"""Messages that a source gives at once."""


def test_offsets_go_from_segment_to_segment(tmp_path):
    """Of each part that counts which was said last; no reader sees a row more, and what is sealed has rows only."""
    writer, reader = writer_of(tmp_path), LogReader(tmp_path, COLUMNS)
    writer.append(rows_of([1, 2]), ReadUpto("a", {0: 2, 1: 9}))
    writer.append(rows_of([]), ReadUpto("b", {4: 1}))
    assert writer.upto == {}
    assert writer.sync() == 2
    assert reader.follow(0)[0] == 2
    writer.append(rows_of([]), ReadUpto("a", {0: 1}))
    assert writer.sync() == 2
    assert reader.follow(2)[0] == 2
    known = {"a": ReadUpto("a", {0: 1, 1: 9}), "b": ReadUpto("b", {4: 1})}
    assert writer.upto == known
    writer.seal()
    writer.append(rows_of([3]))
    writer.close()
    assert reader.follow(2)[1].column("id").to_pylist() == [3]
    wider = COLUMNS.append(COLUMNS.field("word").with_name("more"))
    for schema in (COLUMNS, wider, COLUMNS):
        again = writer_of(tmp_path, schema)
        assert (again.upto, again.next) == (known, 4)
        again.close()
    assert (ids_in(tmp_path), len(sealed(tmp_path))) == ([1, 2, 3], 2)
    reader.close()


def test_offsets_of_rows_that_were_taken_back_are_not_said_later(tmp_path):
    """The next sync is of what came after them."""
    disk = FaultyDisk()
    writer = writer_of(tmp_path, disk=disk)
    disk.fault = BROKEN
    writer.append(rows_of([1, 2]), ReadUpto("a", {0: 2}))
    disk.at = disk.steps + 1
    with pytest.raises(StoreError):
        writer.sync()
    writer.append(rows_of([5]), ReadUpto("b", {4: 1}))
    writer.sync()
    known = {"b": ReadUpto("b", {4: 1})}
    assert writer.upto == known
    writer.close()
    again = writer_of(tmp_path)
    assert again.upto == known
    again.close()
    assert ids_in(tmp_path) == [5]


def test_a_log_of_offsets_alone_does_not_grow(tmp_path):
    """It is made anew by its size, and nothing is sealed."""
    writer = writer_of(tmp_path, seal_bytes=3_000)
    for at in range(200):
        writer.append(rows_of([]), ReadUpto("a", {0: at}))
        writer.sync()
        if writer.due():
            assert writer.seal() is None
        assert opened(tmp_path).stat().st_size < 3_200
    writer.append(rows_of([1]), ReadUpto("a", {0: 200}))
    writer.close()
    again = writer_of(tmp_path)
    assert (again.upto["a"].offsets, sealed(tmp_path), ids_in(tmp_path)) == ({0: 200}, [], [1])
    for at in range(MOST_SOURCES - 1):
        again.append(rows_of([]), ReadUpto(f"s{at}", {0: 1}))
    again.append(rows_of([]), ReadUpto("a", {0: 201}))
    with pytest.raises(StoreError, match="has offsets of 1000 sources, and keeps no more"):
        again.append(rows_of([2]), ReadUpto("one more", {0: 1}))
    assert again.sync() == 1


def test_what_a_url_says_comes_back_from_the_log():
    upto = ReadUpto("kafka:é/t?group=g", {3: 2**64 - 1, 0: 0})
    assert read_upto(upto.source, upto.text()) == upto == upto_of(upto.data())
    assert len(upto.data()) % 8 == 0
    assert [one.text() for one in upto.pieces(1)] == ["0:0", f"3:{2**64 - 1}"]
    for source, text in (
        ("", ""),
        ("x" * 401, ""),
        ("a\nb", ""),
        ("a", "1"),
        ("a", "1:2,"),
        ("a", "10000:1"),
        ("a", "-1:2"),
        ("a", "1:" + "9" * 21),
    ):
        with pytest.raises(InputError, match=r"name of a source|are none"):
            read_upto(source, text)


def test_a_log_of_a_newer_format_is_refused_in_a_line(tmp_path):
    writer_of(tmp_path).close()
    slot = opened(tmp_path).read_bytes()[:SLOT_BYTES]
    assert durable_of("00000000", slot.replace(b"dtosslg1", b"dtossxx1")) is None
    opened(tmp_path).write_bytes(opened(tmp_path).read_bytes().replace(b"dtosslg1", b"dtosslg2"))
    for refuses in (lambda: writer_of(tmp_path), lambda: LogReader(tmp_path, COLUMNS).last()):
        with pytest.raises(StoreError, match=r"log [0-9a-f]{8} has format 2, this dtoss reads 1: install"):
            refuses()


class Source:
    """A topic without a memory: where it goes on is in the log alone."""

    def __init__(self):
        self.ends = 0  # How often something has failed, which may double a batch

    def tell_all(self, log, rng, until):
        """Tell rows, their offset in the same request or in one behind them, again where the log says no."""
        at = log.upto.get("s", ReadUpto("s", {0: 0})).offsets[0]
        while at < until:
            end = min(at + BATCH, until)
            try:
                cut = rng.randrange(at, end)
                if rng.random() < 0.5:
                    log.append(rows_of(range(at + 1, cut + 1)))
                    log.append(rows_of(range(cut + 1, end + 1)), ReadUpto("s", {0: end}))
                else:
                    log.append(rows_of(range(at + 1, end + 1)))
                    log.sync()
                    log.append(rows_of([]), ReadUpto("s", {0: end}))
                log.sync()
            except StoreError:
                self.ends += 1
                continue
            at = end
            assert log.upto["s"].offsets[0] == end
            if log.due():
                try:
                    log.seal()
                except StoreError:
                    continue


@pytest.mark.parametrize("seed", range(examples(200, 20)))
def test_whoever_dies_at_any_step_loses_no_row_of_a_source(tmp_path, seed):
    """Disks that stop, are full or broken: nothing is skipped, and a death doubles one batch at the most."""
    rng, source, last = random.Random(seed), Source(), 300
    while True:
        disk = FaultyDisk(rng.randrange(1, 120), rng.choice([None, None, FULL, BROKEN]))
        try:
            log = LogWriter.open(
                tmp_path, COLUMNS, lease=False, warn=lambda _: None, disk=disk, seal_bytes=2_500, clock=lambda: 0.0
            )
            source.tell_all(log, rng, last)
            log.close()
            break
        except (Stopped, StoreError):
            source.ends += 1
            disk.let_go()
    found = ids_in(tmp_path)
    assert set(found) == set(range(1, last + 1))
    assert len(found) - last <= source.ends * BATCH
    again = writer_of(tmp_path)
    assert again.upto == {"s": ReadUpto("s", {0: last})}
    assert json.loads(again.upto["s"].data())["offsets"] == f"0:{last}"
    again.close()
