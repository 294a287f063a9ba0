"""An index of subscriptions as a file: the same answers, mapped; damage is named."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from dtoss.commits.file_entry import map_entry
from dtoss.commits.folder import LocalFolder
from dtoss.errors import StoreError
from dtoss.geometry.space import space_of
from dtoss.watch.index import index_files
from dtoss.watch.index.build_index import build, covers_of
from dtoss.watch.index.index_files import open_built, write_built
from dtoss.watch.matching.matcher import Matcher
from dtoss.watch.subscription import CIRCLE, ENTER, EVERYWHERE, INSIDE
from dtoss.watch.watch_folder import BUILT
from dtoss.watch.watch_settings import Rows
from tests.dtoss.watch.place_worlds import COLUMNS, SPHERE, asked, pairs_in, random_world, same, table_of

SAMPLES = Path(__file__).parents[3] / "samples"
SCHEMA = COLUMNS | {"id": pa.int64()}


def built_of(subscriptions, **more):
    """An index of subscriptions on the sphere."""
    return build(table_of(subscriptions), SPHERE, SCHEMA, **{"text": False, **more})


def matches_of(built, rows):
    """All matches of rows."""
    return pairs_in(Matcher(built, np.ones(len(built), np.bool_)).match(rows))


@pytest.mark.parametrize("seed", [1, 2])
def test_an_opened_file_gives_the_same(tmp_path, seed):
    subscriptions, rows = random_world(seed)
    subscriptions = [*subscriptions, asked("z", CIRCLE, x=0.0, y=0.0, radius=1.0, where="no_such = 1")]
    built = built_of(subscriptions)
    said = write_built(LocalFolder(str(tmp_path)), built, "base")
    assert said["rows"] == len(built)
    opened = open_built(LocalFolder(str(tmp_path)), said["name"])
    assert same(matches_of(opened, rows), matches_of(built, rows))
    assert opened.table.equals(built.table)
    assert opened.unanswered == built.unanswered
    assert [one.id for one in opened.unanswered] == ["z"]
    assert opened.schema == built.schema
    assert opened.space == built.space
    assert opened.bytes == built.bytes
    # the same subscriptions are the same bytes, and one file
    assert write_built(LocalFolder(str(tmp_path)), built_of(subscriptions), "base") == said


def test_arrays_lie_in_the_mapped_file(tmp_path, monkeypatch):
    """Nothing is copied: processes that have the same file open share its memory."""
    folder = LocalFolder(str(tmp_path))
    subscriptions = [*random_world(5)[0], asked("word", EVERYWHERE, words="fire") | {"events": INSIDE}]
    said = write_built(folder, built_of(subscriptions, text=True), "base")
    maps = []

    def kept(*of):
        maps.append(map_entry(*of))
        return maps[-1]

    monkeypatch.setattr(index_files, "map_entry", kept)
    opened = open_built(folder, said["name"])
    first, last = maps[0].address, maps[0].address + maps[0].size
    for name, array in opened.arrays.items():
        assert array.nbytes == 0 or first <= array.ctypes.data <= last - array.nbytes, name
    buffers = [one for name in ("id", "x", "radius", "words") for one in opened.table.column(name).chunk(0).buffers()]
    assert all(first <= one.address <= last - one.size for one in buffers if one is not None)


def test_columns_that_nobody_has_take_no_room(tmp_path):
    folder = LocalFolder(str(tmp_path))
    plain = [asked(f"{i:04}", CIRCLE, x=0.0, y=i / 100, radius=1.0) for i in range(2000)]
    built = built_of(plain)
    said = write_built(folder, built, "base")
    opened = open_built(folder, said["name"])
    assert opened.table.equals(built.table)
    assert opened.table.column("meta").null_count == len(plain)
    assert opened.table.column("west").to_pylist() == [None] * len(plain)
    one = write_built(folder, built_of([*plain[1:], plain[0] | {"expires": 5}]), "base")
    assert one["bytes"] - said["bytes"] >= 8 * len(plain)
    assert open_built(folder, one["name"]).table.column("expires").null_count == len(plain) - 1
    none = write_built(folder, built_of([]), "base")
    assert len(open_built(folder, none["name"])) == 0


def test_a_damaged_or_missing_file_is_named(tmp_path):
    folder = LocalFolder(str(tmp_path))
    said = write_built(folder, built_of(random_world(3)[0]), "delta")
    path = tmp_path / BUILT / said["name"]
    whole = path.read_bytes()
    for data in (b"", whole[:100], whole[: len(whole) // 2], b"x" * 1000):
        path.write_bytes(data)
        with pytest.raises(StoreError, match=f"{said['name']} is damaged"):
            open_built(folder, said["name"])
    other = whole.replace(b'"format": 2', b'"format": 9')
    name = f"delta-{hashlib.sha256(other).hexdigest()[:16]}.arrow"
    (path.parent / name).write_bytes(other)
    with pytest.raises(StoreError, match="has format 9, this dtoss reads 1 and 2 and 3 and 4: install a newer one"):
        open_built(folder, name)
    path.unlink()
    with pytest.raises(StoreError, match=f"{said['name']} is missing"):
        open_built(folder, said["name"])


def test_a_file_of_before_is_opened_and_its_polygons_are_as_they_were(tmp_path):
    """Of the format that did not say what edges are: it holds what it held, also where new ones hold more."""
    folder = LocalFolder(str(tmp_path))
    folder.make(BUILT)
    (name,) = [path.name for path in SAMPLES.glob("base-*.arrow")]
    folder.write((SAMPLES / name).read_bytes(), BUILT, name)
    opened = open_built(folder, name)
    assert len(opened) == 3
    lat = np.linspace(37.71, 37.79, 200).round(5)
    rows = Rows(np.stack([np.full(200, -122.405), lat], axis=1))
    found = Matcher(opened, np.ones(3, np.bool_)).match(rows)
    assert np.bincount(found.subscription, minlength=3).tolist() == [157, 43, 0]
    assert sorted(found.row.tolist()) == list(range(200))
    assert covers_of(opened).owner.tolist() == [0, 1, 2]


def test_what_cannot_be_asked_is_named_and_matches_nothing():
    one = {"x": 0.0, "y": 0.0, "radius": 3e7}
    subscriptions = [
        asked("a", CIRCLE, **one),
        asked("b", CIRCLE, where="speed > 3", **one) | {"events": INSIDE},
        asked("c", CIRCLE, words="fire", **one) | {"events": INSIDE},
        asked("d", EVERYWHERE, where="occupied = 0") | {"events": ENTER},
        asked("e", CIRCLE, where="occupied = 0", **one) | {"events": INSIDE},
    ]
    rows = random_world(1)[1]
    built = built_of(subscriptions, time=False)
    reasons = {found.id: found.reason for found in built.unanswered}
    assert set(reasons) == {"a", "b", "c", "d"}
    assert "speed" in reasons["b"]
    assert reasons["c"] == "it has words, and the rows have no text"
    assert reasons["d"] == "enter, leave, dwell and cross need a column of times, and the rows have none"
    assert {number for _, number, _ in matches_of(built, rows)} == {4}
    assert len(built_of(subscriptions).unanswered) == 2


def test_planes_keep_their_space(tmp_path):
    space = space_of("none", "plane")
    built = build(table_of([asked("a", CIRCLE, x=5.0, y=6.0, radius=2.0)]), space, {}, text=False)
    said = write_built(LocalFolder(str(tmp_path)), built, "base")
    assert open_built(LocalFolder(str(tmp_path)), said["name"]).space == space
