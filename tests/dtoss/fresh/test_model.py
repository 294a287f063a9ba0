"""Generations under any order of rows, seals, cycles, rollbacks and crashes: each is what brute force says stands.

So are those of several servers that read one log, each by itself or as servers of a plan, one of which builds for all
until another takes its place.

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
from dtoss.commits.chain import Conflict
from dtoss.errors import StoreError
from dtoss.fresh.fresh_counts import FreshCounts
from dtoss.fresh.generations import Generations
from dtoss.fresh.standing import LATE, NEWER, UNCHANGED, judge
from dtoss.log.log_reader import LogReader, log_schema
from dtoss.log.log_writer import LogWriter
from dtoss.opening import open_index
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
        self.writer, self.readers = None, []

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
        self.arriving = self.folder / "arriving"
        self.arriving.mkdir()
        self.writer = LogWriter.open(self.arriving, schema, lease=False)
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
            self.check(self.made)

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
        self.made = self.maker(self.home)
        self.made.begin()
        self.check(self.made)

    def maker(self, home, server=None):
        """Who makes generations, before it has begun."""
        reader, other = (LogReader(self.arriving, self.writer.schema) for _ in range(2))
        self.readers += [reader, other]
        return Generations(
            self.store, home, reader, other, self.writer.schema, FreshCounts(), self.refused, server=server
        )

    def refused(self, what, **facts):
        raise AssertionError((what, facts))

    # -- what has to be so --------------------------------------------------------------------------------------------

    def stood(self, base=None, seq=None):
        """What stands of each id at a sequence number upon a base, deletions too; else in the generation of now."""
        standing = self.made.standing
        base, seq = base or standing.base, standing.seq if seq is None else seq
        return oracles.apply({}, [*self.by_snapshot[base], *self.acknowledged[:seq]])[0]

    def check(self, made):
        """A generation that was made just now."""
        standing, manifest = made.standing, made.home.manifest()
        assert len(self.acknowledged) == standing.seq == manifest["fresh"]["seq"]
        assert manifest["fresh"]["base"] == standing.base
        self.compare(dtoss.open(made.home.path), self.stood(standing.base, standing.seq))

    def compare(self, opened, stood):
        """The answers of a generation with brute force."""
        stood = oracles.standing(stood)
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


class ToldToServers(Told):
    """Two or five servers that read the log: of a plan, and each by itself."""

    servers = 2

    def __init__(self):
        super().__init__()
        self.replaced = []  # who made generations for the plan, and does not know yet that another one does
        self.open = {}  # by server of the plan: the generation that answers, its base and its sequence number
        self.alone = {}  # by server that is in no plan: who makes its generations

    @initialize(servers=st.sampled_from((2, 5)))
    def count(self, servers):
        self.servers = servers

    @rule(server=st.integers(0, 4))
    def take_over(self, server):
        """Another server has the right to write, and begins; who had it works on."""
        self.replaced.append(self.made)
        self.made = self.maker(self.home, server % self.servers)
        self.made.begin()
        self.check(self.made)

    @precondition(lambda self: self.replaced)
    @rule(which=st.integers(0, 9), look=st.booleans())
    def step_of_one_that_was_replaced(self, which, look):
        """It changes nothing that anybody sees."""
        late, head = self.replaced[which % len(self.replaced)], self.home.head()
        if look:
            late.look()
        with suppress(Conflict, FileNotFoundError):  # or what it published last has been removed
            assert not late.step()
        assert self.home.head() == head

    @rule(server=st.integers(0, 4))
    def swap(self, server):
        """A server of the plan takes the newest generation: no number goes back."""
        _, _, before = self.open.get(server % self.servers, (None, None, 0))
        fresh = self.home.manifest()["fresh"]
        assert fresh["seq"] >= before
        opened = open_index(self.home, self.home.current(), lazy=False)
        self.open[server % self.servers] = opened, fresh["base"], fresh["seq"]

    @precondition(lambda self: self.open)
    @rule()
    def ask(self):
        """Each server answers of the generation that it has, though the builder may have removed it."""
        for opened, base, seq in self.open.values():
            self.compare(opened, self.stood(base, seq))

    @rule(server=st.integers(0, 4), look=st.booleans())
    def step_alone(self, server, look):
        """A server that is in no plan begins, or makes its next generation, in a store of its own."""
        number = server % self.servers
        if number not in self.alone:
            self.alone[number] = self.maker(Store(str(self.folder / f"home{number}")))
            self.alone[number].begin()
        else:
            before = self.alone[number].standing.seq
            if look:
                self.alone[number].look()
            if not self.alone[number].step():
                return
            assert self.alone[number].standing.seq >= before
        self.check(self.alone[number])


class ToldTexts(Told):
    texts = True


@pytest.mark.timeout(7200)
@pytest.mark.parametrize("machine", [Told, ToldTexts, ToldToServers])
def test_generations_are_what_brute_force_says(machine):
    run_state_machine_as_test(machine, settings=settings(max_examples=examples(5_000, 15), stateful_step_count=15))
