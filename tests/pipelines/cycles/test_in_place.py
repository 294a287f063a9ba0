"""A cycle merges as the dictionary of rows does, and its files are, byte for byte, those of a full build."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dtoss.errors import StoreError
from tests.examples import examples
from tests.oracles import Update, apply, in_order, standing
from tests.pipelines.cycles.in_place import begun, cycled, full_bytes, objects, state_of, stored_bytes
from tests.update_worlds import NOW, cycles, table, updates

inf = float("inf")


def same(rows):
    """Rows as they are compared: NaN is NaN, and -0.0 is not 0.0."""
    return {id: (t, in_order(x), in_order(y), *map(in_order, attributes)) for id, (t, x, y, attributes) in rows.items()}


def wanted(state):
    """What stands of a state of the oracle, as a store has it."""
    return {id: (row.t, row.x, row.y, row.attributes) for id, row in standing(state).items()}


CROSSED = pytest.mark.deep("ids of the other type; each type and each metric is in make test")


@pytest.mark.parametrize(
    ("string_ids", "plane"),
    [(False, False), (True, True), *(pytest.param(*one, marks=CROSSED) for one in ((True, False), (False, True)))],
)
@settings(max_examples=examples(12, 6), deadline=None)
@given(data=st.data())
def test_any_cycles_give_the_files_of_one_build(string_ids, plane, data):
    """However updates are split, ordered and repeated: the rows of the oracle, the bytes of a full build of them."""
    partitions = data.draw(st.sampled_from([1, 2, 2, 7, 7, 64]))
    rows = data.draw(updates(string_ids=string_ids, plane=plane))
    batches = data.draw(cycles(rows))
    expire = data.draw(st.sampled_from([None, 60, 10]))
    nows = sorted(data.draw(st.lists(st.integers(0, NOW), min_size=len(batches), max_size=len(batches))))
    nows[-1] = NOW
    state = state_of(partitions, plane=plane, seed=data.draw(st.integers(0, 3)))
    stands = {}
    with tempfile.TemporaryDirectory() as folder:
        store = begun(Path(folder) / "s", state, string_ids=string_ids)
        for batch, now in zip(batches, nows, strict=True):
            stands, counted = apply(stands, batch, now=now, expire=inf if expire is None else expire)
            counts = cycled(
                store,
                table(batch, string_ids=string_ids, plane=plane),
                now=now,
                expire=expire,
                tasks=data.draw(st.integers(1, 3)),
                plane=plane,
            )
            assert same(objects(store)) == same(wanted(stands))
            names = ("updated", "added", "late", "too_late", "unchanged", "outdated", "deletions", "deleted", "expired")
            assert {name: counts[name] for name in names} == {name: counted[name] for name in names}
        at_once, _ = apply({}, rows, now=NOW, expire=inf if expire is None else expire)
        assert same(wanted(at_once)) == same(wanted(stands))
        final = table(standing(at_once).values(), string_ids=string_ids, plane=plane)
        assert stored_bytes(store) == full_bytes(state, final, string_ids=string_ids)


def test_a_damaged_file_is_not_carried_on(tmp_path):
    """Of a partition or of the deletions: a cycle that would give it a new checksum fails, and names it."""
    for kind in ("partitions", "tombstones"):
        state = state_of(2)
        store = begun(tmp_path / kind, state)
        rows = [Update(id, 10, 1.0 * id, 2.0, ("a", 1.0), id == 3) for id in range(6)]
        cycled(store, table(rows), now=20)
        manifest = store.manifest()
        entry = manifest["tombstones"] if kind == "tombstones" else manifest["partitions"][0]
        path = Path(store.file("snapshots", manifest["snapshot"], entry["file"]))
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.write_bytes(data)
        with pytest.raises(StoreError, match=f"{re.escape(path.name)} does not have the checksum"):
            cycled(store, table([Update(1, 11, 5.0, 5.0, ("b", 2.0))]), now=20)
        assert store.current() == manifest["snapshot"]


@pytest.mark.parametrize(
    "cycles_of_it", [25, pytest.param(100, marks=pytest.mark.deep("four times as many cycles of the same fleet"))]
)
def test_a_hundred_cycles_of_a_fleet(tmp_path, cycles_of_it):
    """Taxis that move, sleep, come back, are deleted and reported late: after each cycle the rows of a dictionary."""
    rng = np.random.default_rng(14)
    state = state_of(7)
    store, stands = begun(tmp_path, state), {}
    places = np.array([(2.35, 48.86), (139.7, 35.7), (-179.99, 0.0)])[rng.integers(0, 3, 200)]
    for cycle in range(cycles_of_it):
        now = 10 * (cycle + 1)
        places = np.clip(places + rng.normal(0.0, 0.05, places.shape), (-180, -90), (180, 90))
        batch = [
            Update(
                int(taxi), int(now - rng.integers(0, 25)), *places[taxi].tolist(), ("a", 1.5), bool(rng.random() < 0.03)
            )
            for taxi in rng.choice(200, 60)
        ]
        stands, counted = apply(stands, batch, now=now, expire=120, deleted_for=50)
        counts = cycled(store, table(batch), now=now, expire=120, deleted_for=50)
        assert {name: counts[name] for name in counted} == dict(counted), cycle
        assert same(objects(store)) == same(wanted(stands)), cycle
    rows = table(standing(stands).values())
    assert stored_bytes(store) == full_bytes(state, rows)
