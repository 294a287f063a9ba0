"""Crosses of streams in any batches, by any tasks, against a loop over rows and subscriptions."""

from __future__ import annotations

import json
from collections import Counter
from fractions import Fraction

import numpy as np
import pyarrow.parquet as pq
import pytest

import dtoss
from dtoss.geometry.space import space_of
from dtoss.watch.events.event_lines import json_lines
from dtoss.watch.events.watch_tables import verify_watch
from dtoss.watch.subscription import BOX, CIRCLE, CROSS, ENTER, LEAVE
from dtoss.watch.watch_folder import EVENTS, Home, Limits
from tests.dtoss.watch.judged_ways import met_in_plane
from tests.dtoss.watch.streams import BEGIN, SECOND, asked, change, circle, run, settings_of, stands, told

PLANE = space_of("none")
GAP = 7


def _drawn(rng, name):
    more = {"events": int(rng.choice([CROSS, CROSS | LEAVE, ENTER | LEAVE | CROSS])), "where": None}
    if rng.random() < 0.4:
        more["where"] = "occupied = 0"
    x, y = rng.integers(-6, 7, 2).tolist()
    if rng.random() < 0.5:
        return circle(name, x, y, float(rng.integers(0, 4)), **more)
    wide, high = rng.integers(1, 5, 2).tolist()
    return asked(name, BOX, west=x, south=y, east=x + wide, north=y + high, **more)


def _walk(rng, count, objects=3):
    """Rows of objects that go far from row to row, each moment of an object once, some of them late."""
    rows = []
    for id in range(objects):
        for t in np.cumsum(rng.integers(1, GAP + 4, count // objects)).tolist():
            x, y = rng.integers(-9, 10, 2).tolist()
            attributes = {"occupied": [0, 0, 0, 1, None][rng.integers(5)], "kind": None}
            rows.append({"id": id, "t": BEGIN + t * SECOND, "x": float(x), "y": float(y), "attributes": attributes})
    rows.sort(key=lambda row: row["t"])
    for at in range(0, len(rows) - 6, 9):
        rows[at], rows[at + 6] = rows[at + 6], rows[at]
    return rows


class Loop:
    """What crosses are told of."""

    def __init__(self):
        self.before = {}

    def batch(self, rows, change, table):
        """The crosses of a batch as (subscription, version, object, t, t_before, occupied)."""
        found = []
        for row in sorted(rows, key=lambda row: row["t"]):
            last = self.before.get(row["id"])
            if last is not None and row["t"] <= last["t"]:
                continue
            if last is not None and row["t"] - last["t"] <= GAP * SECOND:
                found += [
                    (one["id"], one["version"], row["id"], row["t"], last["t"], row["attributes"]["occupied"])
                    for one in table
                    if one["events"] & CROSS and one["version"] <= last["change"] and _crossed(one, last, row)
                ]
            self.before[row["id"]] = row | {"change": change}
        return found


def _crossed(one, last, row):
    said = {"circle": [one["x"], one["y"], one["radius"]]}
    if one["kind"] != CIRCLE:
        said = {"box": [one[side] for side in ("west", "south", "east", "north")]}
    if one["where"] is not None and not all(end["attributes"]["occupied"] == 0 for end in (last, row)):
        return False
    if any(_held(said, Fraction(end["x"]), Fraction(end["y"])) for end in (last, row)):
        return False
    return met_in_plane(said, (last["x"], last["y"]), (row["x"], row["y"]))[0]


def _held(said, x, y):
    if "box" in said:
        west, south, east, north = said["box"]
        return west <= x <= east and south <= y <= north
    a, b, r = map(Fraction, said["circle"])
    return (x - a) ** 2 + (y - b) ** 2 <= r * r


def _crosses(home, number):
    found = []
    for file in home.batches.read(number).document["events"]:
        table = pq.read_table(home.folder.path(EVENTS, file["name"]))
        found += [row for row in table.to_pylist() if row["kind"] == "cross"]
    return [
        tuple(row[name] for name in ("subscription", "version", "object", "t", "t_before", "occupied")) for row in found
    ]


MANY = pytest.mark.deep("forty commits, where a dozen show the same in the quick tier")


@pytest.mark.parametrize(
    ("seed", "batches", "tasks"), [(0, 1, 1), (1, 4, 7), (2, 12, 2), pytest.param(3, 40, 1, marks=MANY)]
)
def test_crosses_of_a_stream_are_the_loops(tmp_path, seed, batches, tasks):
    """Subscriptions come and change between batches; a row that is late is no end of a way."""
    rng = np.random.default_rng(seed)
    home, loop = Home(str(tmp_path), "w", Limits(least_delta=3, event_group_rows=5)), Loop()
    total = 0
    for part in np.array_split(_walk(rng, 150), batches):
        names = rng.choice([f"s{number}" for number in range(12)], 12 if batches == 1 else 5, replace=False)
        change(home, [_drawn(rng, name) for name in names])
        rows = part.tolist()
        commit = run(home, settings_of(PLANE), rows, tasks, max_gap=GAP * SECOND, carry=("occupied",))
        wanted, found = loop.batch(rows, *stands(home)), _crosses(home, commit.number)
        assert Counter(found) == Counter(wanted)
        assert commit.document["counts"]["cross"] == len(found)
        total += len(found)
    assert total > 10
    assert verify_watch(home).damaged == []


def _rows(*places):
    return [
        {"id": 1, "t": BEGIN + at * SECOND, "x": x, "y": 0.0, "attributes": {"occupied": 0}}
        for at, x in enumerate(places)
    ]


def test_any_cut_into_batches_gives_the_same(tmp_path):
    """The way from the row that an earlier batch has left counts as any other."""
    rng = np.random.default_rng(5)
    rows = sorted(_walk(rng, 60), key=lambda row: row["t"])
    fences = [_drawn(rng, f"s{number}") for number in range(20)]
    found = []
    for batches in (1, 2, 30):
        home = Home(str(tmp_path / str(batches)))
        change(home, fences)
        parts = [part.tolist() for part in np.array_split(rows, batches)]
        commits = [run(home, settings_of(PLANE), part, max_gap=GAP * SECOND) for part in parts]
        found.append(sorted(event[:5] for commit in commits for event in told(home, commit.number)))
    assert found[0] == found[1] == found[2]
    assert any(event[0] == "cross" for event in found[0])


@pytest.mark.parametrize(("expire", "crosses"), [(None, 1), (SECOND, 0)])
def test_a_row_after_the_object_was_over_ends_no_way(tmp_path, expire, crosses):
    home = Home(str(tmp_path))
    change(home, [circle("a", 0.0, 0.0, 1.0, events=CROSS)])
    run(home, settings_of(PLANE), _rows(-5.0), expire=expire, witnesses="1")
    far = [row | {"id": 2, "t": row["t"] + 60 * SECOND, "x": 50.0} for row in _rows(0.0)]
    run(home, settings_of(PLANE), far, expire=expire, witnesses="1")
    late = [row | {"t": row["t"] + 61 * SECOND} for row in _rows(5.0)]
    commit = run(home, settings_of(PLANE), late, expire=expire, witnesses="1")
    assert commit.document["counts"]["cross"] == crosses


def test_lines_say_when_a_place_was_met_and_files_without_crosses_are_as_before(tmp_path):
    home = Home(str(tmp_path))
    change(home, [circle("a", 0.0, 0.0, 1.0, events=ENTER)])
    run(home, settings_of(PLANE), _rows(0.0))
    change(home, [circle("b", 0.0, 3.0, 3.0, events=CROSS)])
    run(home, settings_of(PLANE), [row | {"t": row["t"] + 9 * SECOND} for row in _rows(-5.0, 5.0)])
    assert [event["kind"] for event in dtoss.events(str(tmp_path))] == ["enter", "cross"]
    tables = [
        pq.read_table(home.folder.path(EVENTS, file["name"]))
        for number in (1, 2)
        for file in home.batches.read(number).document["events"]
    ]
    assert "t_cross" not in tables[0].column_names
    line = json.loads(bytes(json_lines(tables[1], settings_of(PLANE))))
    assert [line[name] for name in ("t_before", "t_cross", "t")] == [
        "2023-11-14T22:13:29Z", "2023-11-14T22:13:29.500000Z", "2023-11-14T22:13:30Z"
    ]  # fmt: skip
    assert line["distance"] is None
