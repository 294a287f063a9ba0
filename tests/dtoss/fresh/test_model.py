"""Generations under any order of rows, seals, cycles, rollbacks and crashes: each is what brute force says stands.

Brute force is a dictionary over the rows that the base snapshot holds and all that were acknowledged
(:func:`tests.oracles.apply`).
"""

from __future__ import annotations

import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

import dtoss
from dtoss.errors import StoreError
from dtoss.fresh.fresh_counts import FreshCounts
from dtoss.fresh.generations import Generations
from dtoss.fresh.standing import LATE, NEWER, UNCHANGED, judge
from dtoss.log.log_reader import LogReader
from dtoss.log.log_schema import log_schema
from dtoss.log.log_writer import LogWriter
from dtoss.snapshots.store import Store
from pipelines.cycle import cycle
from tests import oracles
from tests.examples import examples
from tests.oracles import Update
from tests.update_worlds import SCHEMA

IDS = (1, 2, 3, 2**53 + 1, -1)
TEXTS = ("1", " ", "a", "é", "😀")
PLACES = [(0.0, 0.0), (0.0, -0.0), (10.0, 10.0), (10.0, 10.00001), (-170.0, 60.0), (60.0, -20.0), (61.0, -20.0)]
QUERIES = [(0.0, 0.0), (10.0, 10.000005), (-120.0, 5.0)]


@st.composite
def told(draw, most):
    """A few rows of a few objects, whose times often tie."""
    number = st.integers(0, 4)
    return [
        (draw(number), draw(st.integers(0, 6)), draw(st.sampled_from(PLACES)), draw(st.sampled_from((None, "a", "b"))),
         draw(st.integers(0, 3)) == 0)
        for _ in range(draw(st.integers(1, most)))
    ]  # fmt: skip


class Told(RuleBasedStateMachine):
    """A store, a log, who makes generations of both, and what was acknowledged."""

    texts = False

    def __init__(self):
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(dir="/dev/shm" if Path("/dev/shm").is_dir() else None))
        self.writer = None

    def teardown(self):
        if self.writer is not None:
            self.writer.close()
            for reader in self.readers:
                reader.close()
        shutil.rmtree(self.folder)

    # -- rows ---------------------------------------------------------------------------------------------------------

    def updates(self, rows):
        ids = TEXTS if self.texts else IDS
        return [Update(ids[id], t, *place, (name,), deleted) for id, t, place, name, deleted in rows]

    def table(self, updates, schema=None):
        x, y = ("x", "y") if self.plane else ("lon", "lat")
        columns = {
            "id": pa.array([row.id for row in updates], pa.string() if self.texts else pa.int64()),
            x: pa.array([None if row.deleted else row.x for row in updates], pa.float64()),
            y: pa.array([None if row.deleted else row.y for row in updates], pa.float64()),
            "t": pa.array([row.t for row in updates], pa.int64()),
            "name": pa.array([row.attributes[0] for row in updates], SCHEMA["name"]),
            "deleted": pa.array([row.deleted for row in updates], pa.bool_()),
        }
        return pa.table(columns) if schema is None else pa.table([columns[f.name] for f in schema], schema=schema)

    @initialize(rows=told(8), plane=st.booleans(), partitions=st.sampled_from((1, 2, 3)))
    def begin(self, rows, plane, partitions):
        self.plane = plane
        updates = self.updates([*((id, 0, PLACES[id], None, False) for id in (0, 4)), *rows])
        first = [row for row in updates if not row.deleted]
        self.store, self.home = (Store(str(self.folder / name)) for name in ("store", "home"))
        greatest = oracles.standing(oracles.apply(None, first)[0])
        table = self.table(greatest.values()).drop_columns(["deleted"])
        dtoss.build(table, crs="none" if plane else None, partitions=partitions).save(self.store)
        self.by_snapshot = {self.store.current(): first}  # all rows that each holds which are not of the log
        self.acknowledged = []
        self.ledgers = {self.store.current(): frozenset()}
        schema = log_schema(self.store.manifest())
        arriving = self.folder / "arriving"
        arriving.mkdir()
        self.writer = LogWriter.open(arriving, schema, lease=False)
        self.readers = [LogReader(arriving, schema) for _ in range(2)]
        self.seq = 0
        self.crash()

    # -- what may happen ----------------------------------------------------------------------------------------------

    @rule(rows=told(5))
    def put(self, rows):
        updates = self.updates(rows)
        table = self.table(updates, self.writer.schema)
        stands = self.stood()
        order = judge(self.made.standing, table)
        for row, said in zip(updates, order.tolist(), strict=True):
            counts = oracles.apply(stands, [row])[1]
            assert {NEWER: "updated" if not row.deleted else "deletions", UNCHANGED: "unchanged", LATE: "late"}[
                said
            ] in counts
        self.writer.append(table)
        assert self.writer.sync() == len(self.acknowledged) + len(rows)
        self.acknowledged += updates

    @rule()
    def seal(self):
        self.writer.seal()

    @rule()
    def step(self):
        """A generation, if there is anything new."""
        if self.made.step():
            self.check()

    @rule(all_of_them=st.booleans())
    def cycle(self, all_of_them):
        """A cycle reads sealed segments, all or the last one, in whatever order they come."""
        files = sorted(self.folder.glob("arriving/positions-*.parquet"))
        fresh = [file for file in files if file.name not in self.ledgers[self.store.current()]]
        read = fresh if all_of_them else fresh[-1:]
        if read:
            before = self.store.current()
            self.make_cycle(pa.concat_tables([pq.read_table(file) for file in read]), read)
            self.by_snapshot[self.store.current()] = self.by_snapshot[before]

    @rule(rows=told(3))
    def cycle_of_other_rows(self, rows):
        before, updates = self.store.current(), self.updates(rows)
        self.make_cycle(self.table(updates), [])
        self.by_snapshot[self.store.current()] = [*self.by_snapshot[before], *updates]

    def make_cycle(self, table, read):
        before = self.store.current()
        sizes = {str(file): file.stat().st_size for file in read}
        cycle(table, self.store.path, ledger=lambda ledger: ledger.reading(sizes), deleted="deleted", deleted_for=None,
              now=100, allow_empty=True, keep=None, in_place_until=1e9)  # fmt: skip
        self.ledgers[self.store.current()] = self.ledgers[before] | {file.name for file in read}

    @precondition(lambda self: len(self.by_snapshot) > 1)
    @rule()
    def rollback(self):
        # of the first snapshot there is none before
        with suppress(StoreError):
            self.store.rollback()

    @rule()
    def look(self):
        """The next generation stands upon the newest snapshot, though more may happen before it is made."""
        self.made.look()

    @rule()
    def crash(self):
        """The builder is gone with all it knew."""
        reader, other = self.readers
        self.made = Generations(self.store, self.home, reader, other, self.writer.schema, FreshCounts(), self.refused)
        self.made.begin()
        self.check()

    def refused(self, what, **facts):
        raise AssertionError((what, facts))

    # -- what has to be so --------------------------------------------------------------------------------------------

    def stood(self):
        """What stands of each id in the generation of now, deletions too."""
        standing = self.made.standing
        return oracles.apply({}, [*self.by_snapshot[standing.base], *self.acknowledged[: standing.seq]])[0]

    def check(self):
        standing = self.made.standing
        assert len(self.acknowledged) == standing.seq >= self.seq
        self.seq = standing.seq
        assert self.home.manifest()["fresh"]["seq"] == standing.seq
        opened = dtoss.open(self.home.path)
        stood = oracles.standing(self.stood())
        hits = opened.knn(QUERIES, 5, columns=["name", *(("x", "y") if self.plane else ("lon", "lat"))])
        found = {
            id: row
            for id, *row in zip(
                hits.id.tolist(), *(hits.columns[name].to_pylist() for name in hits.columns), strict=True
            )
        }
        assert found == {id: [row.attributes[0], row.x, row.y] for id, row in stood.items()}
        places = [(row.x, row.y) for row in stood.values()]
        wanted = oracles.knn(opened.space, stood, places, QUERIES, 5)
        assert [(q, i) for q, i, _ in wanted] == list(zip(hits.query.tolist(), hits.id.tolist(), strict=True))
        assert len(opened) == len(stood)


class ToldTexts(Told):
    texts = True


@pytest.mark.timeout(7200)
@pytest.mark.parametrize("machine", [Told, ToldTexts])
def test_generations_are_what_brute_force_says(machine):
    run_state_machine_as_test(machine, settings=settings(max_examples=examples(5_000, 25), stateful_step_count=15))
