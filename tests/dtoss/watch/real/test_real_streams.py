"""Real rows through the batch function, held to a plain account of what is told; ``whole`` does all of them."""

from __future__ import annotations

import numpy as np
import pytest

from tests.dtoss.watch.real.plain import Fence, Rows, held_by, life, metres, spelled, told, track_of, words_of
from tests.dtoss.watch.real.whole import WORLDS, held

FEW = {"taxis": 1_000, "ships": 1_000, "aircraft": 1_000}
ALIKE = {
    "ships": "tracks like those of taxis and aircraft",
    "brightkite": "rows like those of gowalla",
    "brightkite in words": "messages like those of gowalla",
}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.deep(ALIKE[name])] if name in ALIKE else []) for name in WORLDS]
)
def test_a_part_of_each_set_tells_what_the_plain_account_says(name, tmp_path):
    """In several cuts, in time and with late rows, by 1 and by 7 tasks."""
    said = held(name, FEW.get(name, 500), 40, 1, tmp_path, (1, 7))
    assert " 0 events" not in said


def made(*rows):
    """Rows of (id, second, lon, lat)."""
    id_, t, lon, lat = (np.array(column) for column in zip(*rows, strict=True))
    return Rows(id_, t * 1_000_000, lon.astype(float), lat.astype(float), {"id": id_})


def kinds(fences, rows, ends, expire=None):
    """What is told as (batch, object, second, kind, fence)."""
    track = track_of(rows, ends, None if expire is None else expire * 1_000_000)
    found = told(fences, rows, track)
    name = {0: "leave", 1: "enter", 2: "inside"}
    return [
        (int(b), track.ids[o], int(t) // 1_000_000, name[int(k)], fences[f].id)
        for b, o, t, k, f in zip(found.batch, found.object, found.t, found.kind, found.fence, strict=True)
    ]


def test_the_plain_account_of_a_few_rows():
    """Entered, left, entered again by a fence that was changed; late, tied and over."""
    fence = Fence("a", box=(0.0, 0.0, 1.0, 1.0), events=("enter", "leave"))
    rows = made((1, 10, 0.5, 0.5), (1, 20, 2, 0), (1, 5, 0.5, 0.5), (1, 20, 3, 0), (1, 30, 1, 1), (2, 99, 1, 0))
    assert kinds([fence], rows, [6]) == [
        (0, 1, 5, "enter", "a"), (0, 1, 20, "leave", "a"), (0, 1, 30, "enter", "a"), (0, 2, 99, "enter", "a"),
    ]  # fmt: skip
    assert kinds([fence], rows, [2, 4, 6]) == [
        (0, 1, 10, "enter", "a"), (0, 1, 20, "leave", "a"), (2, 1, 30, "enter", "a"), (2, 2, 99, "enter", "a"),
    ]  # fmt: skip
    assert track_of(rows, [2, 4, 6]).counts[1] == {"late": 2, "repeated": 0, "tied": 0, "outdated": 0, "expired": 0}
    assert track_of(rows, [6]).counts[0]["tied"] == 1
    # a clock of 99 seconds, about, which three objects say at the end of the second batch
    rows = made((1, 10, 0.5, 0.5), *((id, 99, 9, 9) for id in (2, 3, 4)), (1, 100, 0.5, 0.5), (1, 50, 0.5, 0.5))
    assert kinds([fence], rows, [1, 4, 5, 6], 30) == [
        (0, 1, 10, "enter", "a"), (1, 1, 40, "leave", "a"), (2, 1, 100, "enter", "a"),
    ]  # fmt: skip
    assert kinds([fence], rows, [1, 3, 4, 5, 6], 30)[1][:3] == (2, 1, 40)
    assert life(Fence("b", expires=99_000_000, begins=1), [None, None, 98_000_000, 99_000_000]) == (1, 3, "expired")


def test_the_plain_account_of_places_and_words():
    """Distances, borders that are unsure, holes, and formulas."""
    assert metres(np.array([0.0]), np.array([0.0]), (180.0, 0.0))[0] == pytest.approx(np.pi * 6_371_008.8)
    rows = made((1, 0, 179.5, 0.5), (2, 0, -179.5, 0.5), (3, 0, 0.0, 0.0), (4, 0, 180.0, 0.2))
    assert held_by(Fence("a", box=(179.0, 0.0, -179.0, 1.0)), rows)[0].tolist() == [0, 1, 3]
    ring = [[179.0, 0.0], [-179.0, 0.0], [-179.0, 1.0], [179.0, 1.0]]
    hole = [[179.4, 0.4], [179.6, 0.4], [179.6, 0.6], [179.4, 0.6]]
    assert held_by(Fence("b", polygons=[[ring]]), rows)[0].tolist() == [0, 1, 3]
    assert held_by(Fence("c", polygons=[[ring, hole]]), rows)[0].tolist() == [1, 3]
    assert held_by(Fence("d", polygons=[[ring, [[180.0, 0.2], *hole[1:]]]]), rows)[1].tolist() == [3]
    assert held_by(Fence("e", circle=(0.0, 0.0, 0.0)), rows)[0].tolist() == [2]
    border = float(metres(np.array([180.0]), np.array([0.2]), (180.0, 0.0))[0])
    assert held_by(Fence("f", circle=(180.0, 0.0, border)), rows)[1].tolist() == [3]
    assert words_of("Coffee-shop, CAFE\u0301 no_1!") == ["coffee", "shop", "café", "no", "1"]
    asked = ("and", ("or", ("word", "fire"), ("phrase", "big flood")), ("not", ("word", "drill")))
    assert spelled(asked) == '((fire) or ("big flood")) and (not (drill))'
    rows = Rows(rows.id, rows.t, rows.lon, rows.lat, {}, ["A Fire", "big flood", "flood big", "fire drill"])
    assert held_by(Fence("g", words=asked), rows)[0].tolist() == [0, 1]
