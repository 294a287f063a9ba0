"""Groups of objects on workers: any may move at any batch, and workers come and go; no result changes."""

from __future__ import annotations

import tempfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dtoss.buckets import BUCKETS
from dtoss.errors import StoreError
from dtoss.windows.storage.group_placement import Placement, bytes_of, even, placement_of, rows_of
from dtoss.windows.storage.window_document import head_of
from tests.dtoss.windows.brute import replayed
from tests.dtoss.windows.storage.kept import ALL, begin, check, commit, counts_add_up, made, spec
from tests.dtoss.windows.storage.kept import rows_of as as_rows
from tests.examples import examples


@st.composite
def placements(draw, batches):
    """For each batch one that has nothing to do with that before, or is that with a share of groups moved."""
    rng, found = np.random.default_rng(draw(st.integers(0, 2**32 - 1))), []
    for _ in range(batches):
        share = draw(st.sampled_from([0.0, 0.25, 0.5, 1.0]))
        workers = found[-1].workers if found and share < 1 else draw(st.integers(1, 7))
        worker_of = rng.integers(0, workers, BUCKETS)
        if found and share < 1:
            worker_of = np.where(rng.random(BUCKETS) < share, worker_of, found[-1].worker_of)
        found.append(Placement(tuple(worker_of.tolist()), workers, "drawn"))
    return found


@settings(max_examples=examples(6, 3), deadline=None)
@given(st.integers(0, 10_000), placements(5), st.booleans())
def test_moving_any_groups_at_any_batch_changes_no_byte_of_a_result(seed, drawn, few):
    """Results are the files of one worker, byte for byte, and the oracle's; what moved is told."""
    wanted = spec(measures="rows,objects,here" if few else ALL, expire=None if seed % 2 else "7s")
    batches = made(seed, batches=len(drawn), rows=15 if few else 30, ids=9)
    with tempfile.TemporaryDirectory() as folder:
        (home, fixed), (alone, _) = begin(folder, wanted), begin(folder, wanted, "alone")
        before = None
        for batch, placement in zip(batches, drawn, strict=True):
            document = commit(home, fixed, batch, tasks=lambda _, one=placement: one).document
            same = commit(alone, fixed, batch, tasks=1).document
            assert document["watermark"] == same["watermark"]
            assert document["results"] == same["results"]
            assert document["counts"] == same["counts"]
            counts_add_up(document)
            said = document["placement"]
            assert said["worker_of"] == list(placement.worker_of)
            assert sum(one["rows"] for one in said["workers"]) == len(batch) == rows_of(document).sum()
            assert np.array_equal(rows_of(document), np.bincount(as_rows(batch).bucket, minlength=BUCKETS))
            moved = (
                []
                if before is None
                else np.flatnonzero(np.array(before["placement"]["worker_of"]) != placement.worker_of)
            )
            assert said["moved"]["groups"] == len(moved)
            assert said["moved"]["bytes"] == (0 if before is None else bytes_of(before)[moved].sum())
            before = document
        accepted = list(replayed(wanted, batches))[-1][0]
        check(home, accepted)


def test_a_commit_says_workers_with_their_load_and_state(tmp_path):
    """Rows and bytes of a worker are those of its groups; what stands is read again; a batch may leave a worker out."""
    home, fixed = begin(tmp_path)
    rows = made(3, batches=2, ids=40)
    document = commit(home, fixed, rows[0], tasks=3).document
    said = document["placement"]
    assert [one["groups"] for one in said["workers"]] == [86, 85, 85]
    assert placement_of(document).worker_of == even(3).worker_of
    assert (np.array(said["bytes"]) > 0).sum() == len({int(one) for one in as_rows(rows[0]).bucket})
    sizes = sum(one["bytes"] for one in document["objects"])
    assert sum(said["bytes"]) == pytest.approx(sizes, rel=0.05)
    assert sum(one["bytes"] for one in said["workers"]) == sum(said["bytes"])
    assert all(one["seconds"] > 0 for one in said["workers"])
    assert (
        commit(home, fixed, rows[1][:1], tasks=3).document["placement"]["since"]
        == (rows_of(document) + np.bincount(as_rows(rows[1][:1]).bucket, minlength=BUCKETS)).tolist()
    )
    stood = placement_of(head_of(home).commit.document)
    assert (stood.why, stood.workers, sum(stood.since)) == ("stays", 3, len(rows[0]) + 1)


def test_a_placement_that_is_none_is_refused():
    """Before the first batch there is none; a damaged one is told of."""
    assert placement_of({}) is None
    said = {"worker_of": [2] * BUCKETS, "since": [0] * BUCKETS, "workers": [{}, {}], "looked": None}
    with pytest.raises(StoreError, match="a group is on a worker of 2 to 2, and 2 are there"):
        placement_of({"placement": said})
    with pytest.raises(StoreError, match="256 whole numbers"):
        placement_of({"placement": said | {"worker_of": [0]}})
