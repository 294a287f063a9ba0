"""Generations of a builder, by function: rows of a log, cycles that read segments, rollbacks, builders that died."""

from __future__ import annotations

import multiprocessing
import os
import time
from types import SimpleNamespace

import pyarrow as pa
import pytest

import dtoss
from dtoss.fresh.builder import Fresh, expired_rows, generations_of
from dtoss.fresh.fresh_counts import FreshCounts
from dtoss.fresh.generations import Generations, start_maker
from dtoss.log.log_reader import log_schema
from dtoss.log.log_writer import LogWriter
from dtoss.rows.store_clock import Scale
from dtoss.snapshots.store import Store

NOW = int(time.time()) - 1000  # a cycle forgets deletions of long ago
START = {"id": [1, 2, 3, 4], "lon": [8.0, 9.0, 10.0, 11.0], "lat": [50.0, 51.0, 52.0, 53.0], "t": [NOW + 10] * 4}


@pytest.fixture
def world(tmp_path):
    """A store, a log that is written here, and what makes builders of both."""
    (tmp_path / "in").mkdir()
    dtoss.build(START, partitions=2).save(tmp_path / "store")
    store = Store(str(tmp_path / "store"))
    schema = log_schema(store.manifest())
    log = LogWriter.open(tmp_path / "in", schema)
    fresh = Fresh(store.path, str(tmp_path / "in"), str(tmp_path / "memory"), True, FreshCounts())
    events = []

    def put(*rows):
        """(id, t, lon, lat) or (id, t) of a deletion; durable once it returns."""
        columns = zip(*((*row, None, None)[:4] for row in rows), strict=True)
        named = dict(zip(("id", "t", "lon", "lat"), map(list, columns), strict=True))
        named["t"] = [NOW + t for t in named["t"]]
        table = pa.table({**named, "deleted": [len(row) == 2 for row in rows]})
        log.append(table.select(schema.names).cast(schema))
        return log.sync()

    def builder():
        made = generations_of(fresh, lambda what, **facts: events.append((what, facts)))
        made.begin()
        return made

    yield SimpleNamespace(path=tmp_path, store=store, log=log, put=put, builder=builder, fresh=fresh, events=events)
    log.close()


def seen(world):
    """{id: (lon, lat)} of the generation that was published last, and its sequence number."""
    index = dtoss.open(world.fresh.folder)
    manifest = Store(world.fresh.folder).manifest()
    found = {}
    for part in index.parts.all():
        n = part.owned_objects
        found |= dict(zip(part.ids[:n].tolist(), map(tuple, part.positions[:n].tolist()), strict=True))
    return found, manifest["fresh"]["seq"]


def places(**moved):
    """Where the objects are, some of them elsewhere; None for one that is gone."""
    start = {id: (lon, lat) for id, lon, lat in zip(START["id"], START["lon"], START["lat"], strict=True)}
    found = start | {int(name[1:]): place for name, place in moved.items()}
    return {id: place for id, place in found.items() if place is not None}


def cycle(world, command):
    """A cycle that reads what is sealed."""
    command.works("run", "--store", world.store.path, "--updates", world.path / "in", "--cycles", "1", "--every", "1s")


def test_rows_of_the_log_are_in_the_next_generation(world):
    """Moves, new objects and deletions; late rows change nothing, and count all the same."""
    made = world.builder()
    assert seen(world) == (places(), 0)
    assert not made.step()
    world.put((1, 20, 8.5, 50.5), (9, 20, 7.0, 49.0))
    assert made.step()
    assert seen(world) == (places(_1=(8.5, 50.5), _9=(7.0, 49.0)), 2)
    world.put((9, 30), (1, 15, 0.0, 0.0))
    assert made.step()
    assert seen(world) == (places(_1=(8.5, 50.5)), 4)
    world.put((9, 25, 7.0, 49.0))
    assert made.step()
    assert seen(world) == (places(_1=(8.5, 50.5)), 5)


def test_rows_that_no_generation_can_hold_are_counted(world):
    """As a cycle sets them aside: nothing is left out in silence."""
    made = world.builder()
    world.put((1, 20, 8.5, 50.5), (2, 20, 500.0, 50.0))
    assert made.step()
    assert seen(world) == (places(_1=(8.5, 50.5)), 2)
    assert world.fresh.counts.of("unusable") == 1


def test_a_snapshot_that_has_read_segments_takes_over_and_no_row_goes(world, command):
    """Rows that came meanwhile are in, too; the sequence number goes on."""
    made = world.builder()
    world.put((1, 20, 8.5, 50.5), (2, 20))
    made.step()
    world.log.seal()
    cycle(world, command)
    world.put((3, 20, 10.5, 52.5))
    assert made.look()
    assert not made.look()
    world.put((4, 20, 11.5, 53.5))
    assert made.step()
    moved = places(_1=(8.5, 50.5), _2=None, _3=(10.5, 52.5), _4=(11.5, 53.5))
    assert seen(world) == (moved, 4)
    assert made.standing.commit == 2
    assert world.fresh.counts.of("hand_overs") == 1
    # what the snapshot remembers as deleted stays out
    world.put((2, 15, 9.0, 51.0))
    made.step()
    assert seen(world) == (moved, 5)


def test_all_rows_are_read_by_a_snapshot_and_the_number_goes_on(world, command):
    """A builder that begins then has none to read, and stands at the last row all the same."""
    world.put((1, 20, 8.5, 50.5))
    world.log.seal()
    cycle(world, command)
    made = world.builder()
    assert seen(world) == (places(_1=(8.5, 50.5)), 1)
    assert not made.step()
    world.put((2, 20, 9.5, 51.5))
    made.step()
    assert seen(world) == (places(_1=(8.5, 50.5), _2=(9.5, 51.5)), 2)


def test_a_rollback_applies_the_segments_again(world, command):
    """The snapshot before has not read them."""
    made = world.builder()
    world.put((1, 20, 8.5, 50.5))
    made.step()
    world.log.seal()
    cycle(world, command)
    made.look()
    made.step()
    world.store.rollback()
    world.put((2, 20, 9.5, 51.5))
    assert made.look()
    made.step()
    assert seen(world) == (places(_1=(8.5, 50.5), _2=(9.5, 51.5)), 2)
    assert made.standing.commit == 3


def test_what_expires_is_deleted_by_rows_of_the_log(world):
    """At the time of each object, so that one that is heard of again stands again; never all of them at once."""
    made, scale = world.builder(), Scale("bigint", "s")
    world.put((1, 500, 8.5, 50.5))
    made.step()
    assert len(expired_rows(made.standing, made.schema, scale, NOW + 10)) == 0
    rows = expired_rows(made.standing, made.schema, scale, NOW + 11)
    assert sorted(rows["id"].to_pylist()) == [2, 3, 4]
    assert {*rows["t"].to_pylist()} == {NOW + 10}
    assert rows["deleted"].to_pylist() == [True] * 3
    world.log.append(rows)
    world.log.sync()
    made.step()
    assert seen(world) == ({1: (8.5, 50.5)}, 4)
    assert len(expired_rows(made.standing, made.schema, scale, NOW + 1000)) == 0
    world.put((2, 11, 9.0, 51.0), (3, 9, 10.0, 52.0))
    made.step()
    assert seen(world) == ({1: (8.5, 50.5), 2: (9.0, 51.0)}, 6)


def test_a_builder_that_died_is_followed_by_one_that_knows_as_much(world):
    """It goes on in the same store of generations."""
    made = world.builder()
    world.put((1, 20, 8.5, 50.5))
    made.step()
    number = made.published.number
    again = world.builder()
    assert again.published.number == number + 1
    assert seen(world) == (places(_1=(8.5, 50.5)), 1)


def test_a_base_that_cannot_be_opened_is_refused_once_and_the_old_one_goes_on(world):
    """It is told; a later one that is whole takes over."""
    made = world.builder()
    dtoss.update(world.store, {"id": [4], "lon": [12.0], "lat": [54.0], "t": [NOW + 30]}, now=NOW + 40)
    manifest = world.path / "store" / "snapshots" / world.store.current() / "manifest.json"
    whole = manifest.read_bytes()
    manifest.write_bytes(whole.replace(b'"t"', b'"u"', 1))
    assert not made.look()
    assert not made.look()
    assert [what for what, _ in world.events] == ["base refused"]
    world.put((1, 20, 8.5, 50.5))
    made.step()
    assert seen(world) == (places(_1=(8.5, 50.5)), 1)
    assert world.fresh.counts.of("not_taken") == 1
    manifest.write_bytes(whole)
    dtoss.update(world.store, {"id": [4], "lon": [13.0], "lat": [55.0], "t": [NOW + 31]}, now=NOW + 40)
    assert made.look()
    made.step()
    assert seen(world) == (places(_1=(8.5, 50.5), _4=(13.0, 55.0)), 1)


@pytest.mark.parametrize(
    ("rows", "options", "why"),
    [
        (START | {"kind": [1, 2, 3, 4]}, {}, "have other columns than the log: restart the server"),
        (START, {"crs": "EPSG:4267"}, "is in EPSG:4267, rows of the log in EPSG:4326: restart the server"),
    ],
)
def test_a_base_that_rows_of_the_log_do_not_fit_is_refused(world, rows, options, why):
    """Its columns or its CRS are others."""
    made = world.builder()
    dtoss.build(rows, partitions=2, **options).save(world.store)
    assert not made.look()
    assert why in world.events[0][1]["detail"]
    assert not made.step()


@pytest.mark.skipif(not hasattr(os, "SCHED_IDLE"), reason="only Linux has this policy")
def test_a_generation_is_made_where_no_other_process_wants_to_run_until_that_keeps_it_too_long():
    """Behind others by nice alone, it would hold a processor while two that answer share the other one."""
    here, there = multiprocessing.Pipe()
    made = Generations(*[None] * 5, FreshCounts(), lambda what, **facts: None)
    made.standing = SimpleNamespace(seq=0, base="b")
    made.begin, made.look = lambda: None, lambda: False

    def step():
        there.send(os.sched_getscheduler(0))
        ends = time.monotonic() + 60.0
        while os.sched_getscheduler(0) == os.SCHED_IDLE and time.monotonic() < ends:
            time.sleep(0.01)
        there.send(os.sched_getscheduler(0))
        return True

    made.step = step
    with start_maker(lambda: made, made.counts, made.event) as maker:
        maker.tell()
        assert [here.recv() for _ in range(3)] == [os.SCHED_IDLE, os.SCHED_OTHER, os.SCHED_IDLE]
