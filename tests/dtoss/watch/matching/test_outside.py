"""Subscriptions asked of what is outside of their places, against those of the places."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import dtoss
from dtoss.errors import InputError
from dtoss.watch.index.build_index import build
from dtoss.watch.index.index_files import encoded
from dtoss.watch.index.large_and_small import Standing
from dtoss.watch.matching.matcher import StandingMatcher
from dtoss.watch.subscription import ANY_EVENT, COMPLEMENT, EVERYWHERE
from dtoss.watch.subscriptions.subscription_text import write_rows
from dtoss.watch.subscriptions.validation import check_subscriptions
from tests.dtoss.watch.streams import (
    SPHERE,
    Home,
    change,
    random_asked,
    random_rows,
    rows_of,
    run,
    settings_of,
    table_of,
    told,
)

TYPES = settings_of().schema


def _drawn(rng, count):
    made = [
        random_asked(rng, f"s{number:03}", stays=False) | {"expires": None, "version": 0} for number in range(count)
    ]
    return [one for one in made if one["kind"] != EVERYWHERE]


def _matched(asked, rows, most):
    built = build(table_of(asked), SPHERE, TYPES, False)
    pieces = StandingMatcher(Standing(built, None), np.ones(len(asked), bool)).pieces(rows, ANY_EVENT, most)
    found = [
        (row, sub, far)
        for piece in pieces
        for row, sub, far in zip(piece.row, piece.subscription, piece.distance, strict=True)
    ]
    assert [one[:2] for one in found] == sorted(one[:2] for one in found)
    return found


@pytest.mark.parametrize("most", [1, 40, 1 << 20])
@pytest.mark.parametrize("seed", range(3))
def test_outside_is_what_is_not_inside(seed, most):
    """Of circles, boxes and polygons, of the poles and the antimeridian, with conditions; ordinary ones beside them."""
    rng = np.random.default_rng(seed)
    asked, rows = _drawn(rng, 30), rows_of(random_rows(rng, 80))
    speeds = pa.array(rng.uniform(0, 2000, len(rows)), mask=rng.random(len(rows)) < 0.3)
    rows = replace(rows, attributes={**rows.attributes, "speed": speeds})
    turned = [one | {"events": one["events"] | COMPLEMENT} if number % 3 else one for number, one in enumerate(asked)]
    inside = {(row, sub) for row, sub, _ in _matched(asked, rows, 1 << 20)}
    everywhere = [one | {"kind": EVERYWHERE, "events": 1} for one in asked]
    holds = {(row, sub) for row, sub, _ in _matched(everywhere, rows, 1 << 20)}
    found = _matched(turned, rows, most)
    wanted = {pair for pair in holds if (pair not in inside) == bool(pair[1] % 3)}
    assert {one[:2] for one in found} == wanted
    assert len(found) == len(wanted) > 200
    assert all(np.isnan(far) for _, sub, far in found if sub % 3)


@pytest.mark.parametrize("tasks", [1, 7])
def test_enter_is_to_leave_the_place(tmp_path, tasks):
    """Rows of objects in batches: an enter of one is a leave of the other, but for first rows and expiry."""
    rng = np.random.default_rng(3)
    asked = [one | {"events": 6, "where": None, "meta": None} for one in _drawn(rng, 16)]
    rows = sorted(random_rows(rng, 200), key=lambda row: row["t"])
    swapped = {}
    for name, bits in (("in", 0), ("out", COMPLEMENT)):
        home = Home(str(tmp_path / name))
        change(home, [one | {"events": one["events"] | bits} for one in asked])
        made = [run(home, settings_of(), part.tolist(), tasks) for part in np.array_split(rows, 5)]
        events = [event for commit in made for event in told(home, commit.number)]
        first = {id: min(row["t"] for row in rows if row["id"] == id) for id in range(4)}
        swapped[name] = {(kind, sub, id, t) for kind, sub, _, id, t, _ in events if t != first[id]}
    turn = {"enter": "leave", "leave": "enter"}
    assert swapped["out"] == {(turn[kind], *rest) for kind, *rest in swapped["in"]}
    assert len(swapped["in"]) > 50


BOX = {"id": "a", "box": [0, 0, 1, 1], "outside": True}


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"box": None}, "outside needs a place"),
        ({"events": ["cross"]}, "outside goes with a place that stands still"),
        ({"words": "fire"}, "outside goes with a place that stands still"),
        ({"box": None, "around": {"object": 1, "metres": 5}}, "outside goes with a place that stands still"),
        ({"outside": "yes"}, "outside is 'yes': true or false is wanted"),
    ],
)
def test_what_cannot_be_outside_is_refused_in_a_line(more, said):
    with pytest.raises(InputError, match=said):
        dtoss.subscriptions([BOX | more], text="body")


def test_a_list_may_be_subscribed_to_again():
    """What is outside stays so, and what is false is as if it were not there."""
    table, bad = check_subscriptions([BOX, BOX | {"id": "b", "outside": False}, {"id": "c", "box": [0, 0, 1, 1]}])
    assert not bad
    rows = write_rows(table)
    assert [row.get("outside") for row in rows] == [True, None, None]
    assert check_subscriptions(rows)[0].equals(table)
    assert dtoss.subscriptions(table).table.equals(table)


@pytest.mark.parametrize(("events", "number"), [(7, b"2"), (8, b"3"), (1 | COMPLEMENT, b"3")])
def test_older_releases_are_told_that_they_cannot_read_it(events, number):
    """Only where somebody asks what they do not know: other files are as they have them."""
    table = table_of([random_asked(np.random.default_rng(5), "a") | {"events": events, "version": 0}])
    data = encoded(build(table, SPHERE, TYPES, False)).to_pybytes()
    assert b'"format": ' + number in data
