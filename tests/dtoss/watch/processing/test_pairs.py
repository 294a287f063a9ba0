"""Objects that come near one another: streams against a loop over all pairs, in any batches, by any tasks."""

from __future__ import annotations

import json
from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dtoss
from dtoss.erasure.forgotten import Mentions
from dtoss.errors import InputError
from dtoss.watch.events.erase_events import erase_watched
from dtoss.watch.events.watch_tables import verify_watch
from dtoss.watch.matching.near_pairs import Moves, near_pairs
from dtoss.watch.subscription import ENTER, EVERYWHERE, LEAVE
from dtoss.watch.watch_folder import EVENTS, Home, Limits
from tests.dtoss.watch.oracle import Watched
from tests.dtoss.watch.streams import (
    ATTRIBUTES,
    BEGIN,
    NOW,
    PLACES,
    SECOND,
    SPHERE,
    asked,
    change,
    circle,
    random_asked,
    random_pairs,
    random_rows,
    run,
    settings_of,
    stands,
    table_of,
)
from tests.dtoss.watch.test_subscriptions_in_python import table_of_rows
from tests.examples import examples

_NEAR = ("kind", "subscription", "version", "object", "t", "reason", "near")


def near_told(home, commit):
    """The events of pairs of a commit, and how many other events there are."""
    found, others = [], 0
    for file in commit.document["events"]:
        for row in pq.read_table(home.folder.path(EVENTS, file["name"])).to_pylist():
            if row.get("near") is None:
                others += 1
            else:
                found.append(tuple(row[name] for name in _NEAR))
    return found, others


MORE = pytest.mark.deep("other seeds, of batches and tasks between those of the quick ones")


@pytest.mark.parametrize(
    ("seed", "batches", "tasks", "expire"),
    [
        (0, 1, 1, None),
        (1, 4, 7, 20),
        (2, 12, 2, 5),
        *(pytest.param(*case, marks=MORE) for case in ((3, 6, 2, None), (4, 9, 1, 40), (5, 3, 7, 20))),
    ],
)
def test_pairs_of_a_stream_are_the_loops(tmp_path, seed, batches, tasks, expire):
    """Subscriptions come, change and go; objects expire; rows come late, twice and at one moment."""
    rng = np.random.default_rng(seed)
    home, settings, seen = Home(str(tmp_path), "w", Limits(least_delta=3)), settings_of(), Counter()
    loop = Watched(SPHERE, settings.schema, None if expire is None else expire * SECOND)
    rows = random_rows(rng, 150, objects=9, seconds=150)
    rows.sort(key=lambda row: row["t"] + rng.normal() * 3e6)
    change(home, [random_pairs(rng, f"s{number}") for number in range(3)])
    for part in np.array_split(np.arange(len(rows)), batches):
        names = [f"s{number}" for number in range(8)]
        make = random_pairs if rng.random() < 0.6 else random_asked
        change(home, [make(rng, str(rng.choice(names)))], rng.choice(names, rng.integers(0, 2)).tolist())
        some = [rows[row] for row in part]
        commit = run(home, settings, some, tasks, expire=loop.expire)
        wanted = loop.batch(some, *stands(home))
        found, others = near_told(home, commit)
        assert Counter(found) == Counter(loop.told_of_pairs), commit.number
        assert others == len(wanted)
        seen.update(event[0] for event in found)
    assert seen["enter"] > 10
    assert seen["leave"] > 10 or batches == 1
    assert verify_watch(home).damaged == []


@pytest.mark.parametrize("seed", range(examples(40, 6)))
def test_pairs_without_a_store_are_the_loops(seed):
    """Of rows after others, in any cut; by the order of the subscriptions that were given."""
    rng = np.random.default_rng(seed)
    rows = random_rows(rng, 120, objects=9, seconds=120)
    rows.sort(key=lambda row: row["t"] + rng.normal() * 3e6)
    given = [random_pairs(rng, f"s{number}") | {"expires": None, "version": 0} for number in range(3)]
    given.append(circle("c", *PLACES[0], 2_000.0, version=0))
    cut, loop = int(rng.integers(100)), Watched(SPHERE, {**ATTRIBUTES, "id": pa.int64()})
    watch = dtoss.subscriptions(table_of(given))
    if cut:
        loop.batch(rows[:cut], 0, given)
    others = loop.batch(rows[cut:], 0, given)
    found = watch.events(table_of_rows(rows[:cut]) if cut else None, table_of_rows(rows[cut:]), carry=["kind"])
    told = found.filter(found["near"].is_valid())
    assert found.slice(0, len(told)).equals(told)
    assert len(found) - len(told) == len([one for one in others if one[0] != "reset"])
    columns = (told[name].to_pylist() for name in ("kind", "subscription", "object", "near"))
    wanted = [(kind, name, object, near, t) for kind, name, _, object, t, _, near in loop.told_of_pairs]
    assert Counter(zip(*columns, told["t"].cast(pa.int64()).to_pylist(), strict=True)) == Counter(wanted)
    assert found.schema.metadata == {b"crowded": b"0"}


@pytest.mark.checked
def test_a_crowd_without_a_store_is_counted():
    """150 in one place: each is near to a hundred others at most; a row of one who has left makes room."""
    watch = dtoss.subscriptions([{"id": "a", "events": ["enter"], "near": {"metres": 5}}])
    rows = {"id": list(range(150)), "t": [0.0] * 150, "lon": [0.0] * 150, "lat": [0.0] * 150}
    found = watch.events(None, rows)
    assert len(found) <= 150 * 100 / 2
    assert len(watch.match(rows)) == 0
    assert len(found) + int(found.schema.metadata[b"crowded"]) == 150 * 149 / 2


def test_a_pair_says_where_both_are():
    """Where each was seen last, also of who has parted."""
    watch = dtoss.subscriptions([{"id": "a", "events": ["enter", "leave"], "near": {"metres": 5}}], crs="none")
    found = watch.events(None, {"id": [1, 2, 2], "t": [0, 1, 2], "x": [0.0, 3.0, 30.0], "y": [0.0, 4.0, 40.0]})
    names = ("kind", "object", "x", "y", "distance", "near", "near_x", "near_y")
    assert [tuple(row[name] for name in names) for row in found.to_pylist()] == [
        ("enter", 1, 0.0, 0.0, 5.0, 2, 3.0, 4.0), ("leave", 1, 0.0, 0.0, None, 2, 30.0, 40.0)
    ]  # fmt: skip


@pytest.mark.checked
def test_nothing_speaks_of_who_was_erased(tmp_path):
    """Neither events of others, nor pairs that are near."""
    home = Home(str(tmp_path))
    change(home, [asked("a", EVERYWHERE, events=ENTER | LEAVE, stay=json.dumps({"near": {"metres": 2e7}}))])
    rows = [{"id": id, "t": BEGIN, "x": 0.0, "y": 0.0, "attributes": {}} for id in (1, 77, 3)]
    commit = run(home, settings_of(), rows)
    assert sorted(event[3::3] for event in near_told(home, commit)[0]) == [(1, 3), (1, 77), (3, 77)]
    erase_watched(home, pa.array([77]), Mentions(frozenset(["77"])), NOW)
    files = [pa.ipc.open_file(home.folder.path("state", one)).read_all() for one in home.folder.files("state")]
    files += [pq.read_table(home.folder.path(EVENTS, one)) for one in home.folder.files("events") if "hour" in one]
    assert len(files) > 2
    assert not any(77 in row.values() for file in files for row in file.to_pylist())
    later = run(home, settings_of(), [rows[0] | {"t": BEGIN + SECOND, "y": 90.0, "x": 0.0}])
    assert near_told(home, later)[0] == []


def _crowd(count):
    places = np.concatenate([np.random.default_rng(1).uniform(0, 5, (count, 2)), np.zeros((count, 1))], axis=1)
    sides = np.full(count, 3, np.uint8)
    return Moves(places, sides, np.arange(count), places.copy(), sides)


@pytest.mark.checked
def test_a_crowd_has_a_bound():
    """Each object is near to so many at most; what is more is counted, and nobody leaves who has not entered."""
    none = np.zeros((0, 2), np.int64)
    found = near_pairs(_crowd(40), none, 100.0, False, most=7)
    # each row finds 39 others, but those that are near already
    assert found.crowded > 40 * 39 - 2 * 40 * 7
    assert np.bincount(found.left.ravel(), minlength=40).max() == 7
    assert set(map(tuple, found.left.tolist())) == set(zip(found.first.tolist(), found.second.tolist(), strict=True))
    away = Moves(np.zeros((40, 3)), np.full(40, 3, np.uint8), np.arange(40), np.zeros((40, 3)), np.zeros(40, np.uint8))
    gone = near_pairs(away, found.left, 100.0, False, most=7)
    assert len(gone.left) == 0
    assert len(gone.row) == len(found.left)


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"events": ["enter", "inside"], "near": {"metres": 5}}, "near goes with enter and leave only"),
        ({"events": ["enter"], "near": {"metres": 5}, "box": [0, 0, 1, 1]}, "near goes with enter and leave only"),
        ({"events": ["enter"], "near": {"metres": 5}, "margin": {"seconds": 1}}, "near goes with enter"),
        ({"events": ["enter"], "near": {"where": "a = 1"}}, "near has no metres"),
        ({"events": ["enter"], "near": {"metres": 0}}, "near is"),
        ({"events": ["enter"], "near": {"metres": 5, "where": "a ="}}, "where 'a ='"),
    ],
)
def test_pairs_that_cannot_be_told_are_refused(said, why):
    with pytest.raises(InputError, match=why):
        dtoss.subscriptions([{"id": "a", **said}])
