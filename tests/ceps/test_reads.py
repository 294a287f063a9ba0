"""What requests read together: gathered, sampled where there is much of it, and written with the patterns."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ceps import Patterns, Reads, read_patterns, write_patterns
from ceps.model.reads import bound_reads, reads_together
from tests.ceps.instances import waves

REQUESTS = st.lists(
    st.tuples(st.sets(st.integers(0, 9), min_size=1, max_size=6), st.integers(0, 8)), min_size=0, max_size=30
)


def pairs(requests):
    """Pairs (request, row) and weights of requests, the pairs in a shuffled order."""
    found = np.array([(r, p) for r, (rows, _) in enumerate(requests) for p in rows], np.int64).reshape(-1, 2)
    found = found[np.random.default_rng(len(found)).permutation(len(found))]
    return found[:, 0], found[:, 1], np.array([weight for _, weight in requests], float)


def as_dict(reads):
    return {tuple(reads.row[a:b]): w for a, b, w in zip(reads.start, reads.start[1:], reads.weight, strict=False)}


def many(sets=4_000, seed=3, partitions=60):
    """Reads with some heavy sets and thousands of light ones."""
    rng = np.random.default_rng(seed)
    rows = [np.sort(rng.choice(partitions, rng.integers(2, 6), replace=False)) for _ in range(sets)]
    request = np.repeat(np.arange(sets), [len(row) for row in rows])
    return reads_together(request, np.concatenate(rows), rng.pareto(1.1, sets) + 0.1)


@settings(deadline=None)
@given(REQUESTS, st.sampled_from([1.0, 4.0]))
def test_sets_are_counted_as_one_by_one(requests, days):
    """Each distinct set of two or more partitions once, with all its requests a day; the total counts every one."""
    wanted: dict[tuple[int, ...], float] = {}
    for rows, weight in requests:
        if len(rows) > 1 and weight:
            key = tuple(sorted(rows))
            wanted[key] = wanted.get(key, 0.0) + weight / days
    reads = reads_together(*pairs(requests), days=days)
    assert as_dict(reads) == wanted
    assert reads.total == sum(weight for _, weight in requests) / days
    assert reads.sampled == 0.0


def test_a_sample_is_kept_small_and_right_in_the_mean():
    """Heavy sets stay as they are; what many samples say of any sets' sum lies round the truth; the bounds hold."""
    reads = many()
    few = bound_reads(reads, sets=400)
    assert len(few) == 400
    assert 0 < few.sampled < 1
    assert few.total == reads.total
    everything = as_dict(reads)
    kept = as_dict(few)
    least = min(kept.values())
    assert all(kept[key] == max(everything[key], least) for key in kept)
    assert {key for key, weight in everything.items() if weight > least} <= kept.keys()
    assert bound_reads(reads, members=50).start[-1] <= 50
    assert len(bound_reads(reads, sets=0)) == 0
    chosen = {key for key in everything if 7 in key}  # any subset will do
    truth = sum(everything[key] for key in chosen)
    said = [
        sum(w for key, w in as_dict(bound_reads(reads, 400, salt=salt)).items() if key in chosen) for salt in range(60)
    ]
    assert abs(np.mean(said) - truth) < 4 * np.std(said) / np.sqrt(len(said))
    assert np.std(said) < 0.15 * truth


def test_a_sample_is_the_same_each_time_and_all_where_there_is_room():
    """No randomness but the sets' own."""
    reads = many(500)
    assert as_dict(bound_reads(reads, 100)) == as_dict(bound_reads(reads, 100))
    assert as_dict(bound_reads(reads, 100)) != as_dict(bound_reads(reads, 100, salt=1))
    assert bound_reads(reads, len(reads)) is reads


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"start": [0, 1, 4]}, "set 0 has fewer than 2"),
        ({"start": [0, 4]}, "start has shape"),
        ({"row": [1, 0, 0, 2]}, r"row\[1\] is 0"),
        ({"row": [0, 0, 0, 2]}, r"row\[1\] is 0"),
        ({"row": [-1, 0, 0, 2]}, r"row\[0\] is -1"),
        ({"weight": [1.0, 0.0]}, r"weight\[1\] = 0.0"),
        ({"weight": [np.nan, 1.0]}, r"weight\[0\] = nan"),
        ({"total": -1.0}, "total = -1.0"),
        ({"sampled": 2.0}, "sampled = 2.0"),
    ],
)
def test_bad_reads_are_refused(changes, message):
    """The message names what is wrong and where."""
    with pytest.raises(ValueError, match=message):
        Reads(**({"start": [0, 2, 4], "row": [0, 1, 0, 2], "weight": [1.0, 2.0], "total": 5.0} | changes))


def test_patterns_carry_reads():
    """They grow with the loads, stay with smoothing, and name no partition that is not there."""
    reads = Reads([0, 2], [0, 2], [3.0], total=8.0)
    made = replace(waves(3, 100.0), reads=reads)
    grown = made.scaled(2.0).smoothed(7200)
    assert (grown.reads.weight.tolist(), grown.reads.total) == ([6.0], 16.0)
    with pytest.raises(ValueError, match="reads name row 2 but loads has 2 partitions"):
        Patterns(loads=np.ones((2, 24)), reads=reads)


@pytest.mark.parametrize("sets", [0, 300])
def test_a_file_gives_reads_back(tmp_path, sets):
    """Every bit, by the partitions' numbers, from each weekday of the file; files without them are silent."""
    reads = bound_reads(many(sets), 200) if sets else Reads([0], [], [], total=7.5)
    day = replace(waves(60, 100.0), partitions=np.arange(60)[::-1] * 3, reads=reads)
    write_patterns(tmp_path / "p.parquet", [day, replace(day, weekday=2, reads=None)])
    for weekday in (None, 2):
        found = read_patterns(tmp_path / "p.parquet", weekday).reads
        assert as_dict(found) == as_dict(reads)
        assert (found.total, found.sampled) == (reads.total, reads.sampled)
    write_patterns(tmp_path / "old.parquet", replace(day, reads=None))
    assert read_patterns(tmp_path / "old.parquet").reads is None


def test_damaged_reads_are_refused(tmp_path):
    """A file whose sets cannot be read, or name partitions that are not there, is not read without them."""
    import json

    import pyarrow.parquet as pq

    path = tmp_path / "p.parquet"
    write_patterns(path, replace(waves(3, 100.0), reads=Reads([0, 2], [0, 2], [3.0], total=8.0)))
    table = pq.read_table(path)
    known = table.schema.metadata
    pq.write_table(table.replace_schema_metadata(known | {b"ceps.reads": b"AAAA"}), path)
    with pytest.raises(ValueError, match=r"'ceps\.reads' is damaged"):
        read_patterns(path)
    about = json.loads(known[b"ceps.patterns"]) | {"partitions": [0, 1, 7]}
    rows = table.filter([p != 2 for p in table["partition"].to_pylist()])
    pq.write_table(rows.replace_schema_metadata(known | {b"ceps.patterns": json.dumps(about).encode()}), path)
    with pytest.raises(ValueError, match="partition 2 is read but has no bytes"):
        read_patterns(path)
