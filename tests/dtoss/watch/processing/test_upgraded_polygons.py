"""Polygons of before are upgraded: borders belong to all of them then, and nobody is told of an enter or a leave."""

from __future__ import annotations

import numpy as np

from dtoss.watch.events.event_log import events
from dtoss.watch.subscriptions.changes import Change, subscribe, upgrade
from dtoss.watch.subscriptions.current import table_at
from dtoss.watch.subscriptions.subscription_text import write_rows
from dtoss.watch.subscriptions.validation import check_subscriptions
from tests.dtoss.watch.streams import BEGIN, SECOND, Home, run, settings_of

COUNT = 40


def fences(**said):
    """Two squares that share a meridian, and a circle."""
    squares = [("west", -122.43, -122.405), ("east", -122.405, -122.38)]
    rows = [
        {
            "id": name, "events": ["enter", "leave"], "polygon": {
                "type": "Polygon", "coordinates": [[[w, 37.7], [e, 37.7], [e, 37.8], [w, 37.8]]], **said,
            },
        }
        for name, w, e in squares
    ]  # fmt: skip
    table, bad = check_subscriptions([*rows, {"id": "circle", "circle": [0, 0, 5]}])
    assert bad == []
    return table


def batch(home, turn, lon):
    """Commit a batch of objects on a meridian, and return who entered and left."""
    lat = np.linspace(37.71, 37.79, COUNT).round(5).tolist()
    nothing = {"occupied": 0, "kind": None}
    made = [{"id": i, "t": BEGIN + turn * SECOND, "x": lon, "y": y, "attributes": nothing} for i, y in enumerate(lat)]
    run(home, settings_of(), made)
    told = [row for table in events(home) for row in table.select(["batch", "kind", "subscription"]).to_pylist()]
    return [(row["kind"], row["subscription"]) for row in told if row["batch"] == turn]


def test_an_upgrade_is_told_to_nobody(tmp_path):
    home = Home(str(tmp_path / "store"), "default")
    subscribe(home, fences(edges="vectors"))
    first = batch(home, 1, -122.405)
    assert len(first) == COUNT  # each in one of them, as rounded vectors have it
    assert {name for _, name in first} == {"west", "east"}
    before = table_at(home, 1)
    assert upgrade(home) == Change(2, 0, 2, 0, 1)
    after = table_at(home, 2)
    assert after["version"].to_pylist() == before["version"].to_pylist()
    assert [row["polygon"]["edges"] for row in write_rows(after) if "polygon" in row] == ["spherical"] * 2
    assert after.drop_columns(["polygon"]).equals(before.drop_columns(["polygon"]))
    assert batch(home, 2, -122.405) == []
    assert upgrade(home) == Change(2, 0, 0, 0, 3)
    assert len(batch(home, 3, 5.0)) == 2 * COUNT  # who leaves, leaves both


def test_new_polygons_are_of_today(tmp_path):
    home = Home(str(tmp_path / "store"), "default")
    subscribe(home, fences())
    assert len(batch(home, 1, -122.405)) == 2 * COUNT
    assert upgrade(home) == Change(1, 0, 0, 0, 3)
    assert subscribe(home, fences()) == Change(1, 0, 0, 0, 3)
