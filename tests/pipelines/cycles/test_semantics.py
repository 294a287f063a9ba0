"""Cycles against the slow version: what stands, what is remembered, and what became of each row."""

from __future__ import annotations

import numpy as np
import pytest

from tests.oracles import apply, standing
from tests.pipelines.cycles.stored import FATES, compared, files, held, merged, moved
from tests.update_worlds import INT_IDS, STRING_IDS, Update, drawn

WORLDS = [
    pytest.param(False, False, marks=pytest.mark.deep("numbers as ids; test_cycle.py has them too")),
    (True, True),
]
SPLIT = pytest.mark.deep("wide; test_any_cycles_give_the_files_of_one_build splits cycles too")


def ids_of(string_ids, count):
    """Awkward ids first, and then others."""
    awkward = STRING_IDS if string_ids else INT_IDS
    return [*awkward, *((str(i) if string_ids else i) for i in range(100, 100 + count))]


def told(counts):
    """The fates of rows that the slow version and manifests both count."""
    return {fate: counts.get(fate, 0) for fate in FATES}


@pytest.mark.parametrize(("string_ids", "plane"), WORLDS)
def test_cycles_keep_what_the_slow_version_keeps(engine, tmp_path, string_ids, plane):
    """Three cycles with deletions, expiry, late rows and clocks ahead: objects, tombstones and counts of each."""
    rng = np.random.default_rng(17 + 2 * string_ids + plane)
    ids, state = ids_of(string_ids, 60), None
    rules = {"expire": 60, "deleted_for": 30, "max_ahead": 5}
    options = {"string_ids": string_ids, "plane": plane, "max_bad": 1.0}
    for number in range(3):
        now = 100 + 20 * number
        rows = drawn(rng, ids, 80, plane=plane, at=(now - 90, now + 12), deleted=0.2)
        state, counts = apply(state, rows, now=now, **rules)
        manifest = merged(engine, tmp_path / "store", rows, now=now, **options, **rules)
        assert compared(held(tmp_path / "store")) == compared(state), number
        if number:
            assert told(manifest["cycle"]) == told(counts), number
        assert manifest["cycle"]["objects"] == manifest["objects"] == len(standing(state))
        quarantined = {"time is ahead of now": counts["quarantined"]} if counts["quarantined"] else {}
        assert manifest["counts"]["quarantined"] == quarantined


@SPLIT
@pytest.mark.parametrize(("string_ids", "plane"), [(False, False), (True, True)])
def test_any_splitting_gives_the_same_bytes(engine, tmp_path, string_ids, plane):
    """Deletions remembered for ever, one schema, the same now at the end: one cycle or three, rows once or twice."""
    rng = np.random.default_rng(29 + 2 * string_ids + plane)
    ids = ids_of(string_ids, 40)
    start = drawn(rng, ids, 60, plane=plane, at=(0, 60), deleted=0.0)
    rows = drawn(rng, ids, 90, plane=plane, at=(0, 100), deleted=0.2)
    rules = {"expire": 70, "deleted_for": None, "max_ahead": None, "pivots": "keep"}
    kind = {"string_ids": string_ids, "plane": plane}
    for store, batches in (("one", [rows]), ("three", moved(rng, rows, 3))):
        merged(engine, tmp_path / store, start, now=60, **kind, **rules)
        for number, batch in enumerate(batches):
            now = 100 if number == len(batches) - 1 else 70 + 10 * number
            merged(engine, tmp_path / store, batch, now=now, **kind, **rules)
    state, _ = apply(None, [*start, *rows], now=100, expire=70)
    assert compared(standing(held(tmp_path / "one"))) == compared(standing(state))
    assert files(tmp_path / "three") == files(tmp_path / "one")


def test_the_first_rows_of_a_store_are_never_too_late(engine, tmp_path):
    """Nothing has been deleted that they could bring back, however old they are."""
    rows = [Update(1, 10, 1.0, 2.0, (None, None)), Update(2, 10, deleted=True, attributes=(None, None))]
    merged(engine, tmp_path / "store", rows, now=1000, deleted_for=30)
    assert set(standing(held(tmp_path / "store"))) == {1}
    manifest = merged(engine, tmp_path / "store", [Update(2, 9, 1.0, 2.0, (None, None))], now=1000, deleted_for=30)
    assert manifest["cycle"]["too_late"] == 1
    assert set(standing(held(tmp_path / "store"))) == {1}
