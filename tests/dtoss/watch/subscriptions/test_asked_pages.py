"""Subscriptions by id, page by page: as the whole table has them, whatever files they lie in, and no more is read."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dtoss.commits.chain import Chain
from dtoss.errors import StoreError
from dtoss.watch.subscriptions import current
from dtoss.watch.subscriptions.changes import subscribe, unsubscribe
from dtoss.watch.subscriptions.current import CHANGE_SCHEMA, Pages, change_number, table_at
from dtoss.watch.watch_folder import CHANGES, DEFAULT_NAME, Home, Limits
from tests.disks import hashed_up_to
from tests.dtoss.watch.streams import circle, table_of

MORE = pytest.mark.deep("more seeds of the same kind")
NAMES = [*(f"s{i}" for i in range(30)), "é", "z/ü", "𝄞", "", " ", "\uffff"]


@pytest.fixture
def home(tmp_path):
    return Home(str(tmp_path))


@pytest.fixture
def few(tmp_path):
    """Groups of three rows, pieces of two, a base after four changes, and nothing that is small."""
    limits = Limits(asked_group_rows=3, base_every=4, merged_at_once=2, small_bytes=0)
    return Home(str(tmp_path), DEFAULT_NAME, limits)


def some(rng, count):
    return table_of([circle(id, float(rng.integers(90)), 0.0, 100.0) for id in rng.choice(NAMES, count, replace=False)])


def changed(home, rng):
    """Add, change, remove or replace some."""
    kind = rng.random()
    if kind < 0.5:
        subscribe(home, some(rng, int(rng.integers(1, 12))))
    elif kind < 0.9:
        unsubscribe(home, rng.choice(NAMES, 3, replace=False).tolist())
    else:
        subscribe(home, some(rng, int(rng.integers(0, 9))), replace=True)


def whole(pages, after=None):
    return pa.concat_tables([table_at(pages.home, 0), *pages.behind(pages.now(), after)])


def check(pages, rng):
    """All pages, those behind an id, and each by itself, are those of the whole table."""
    wanted = table_at(pages.home, change_number(pages.home))
    stand = pages.now()
    assert (stand.number, stand.count) == (change_number(pages.home), len(wanted))
    assert whole(pages).equals(wanted)
    ids = wanted.column("id").to_pylist()
    for after in rng.choice([*NAMES, "no"], 3):
        assert whole(pages, after).equals(wanted.slice(sum(id <= after for id in ids)))
    for id in rng.choice(NAMES, 5):
        assert pages.one(stand, id).to_pylist() == [row for row in wanted.to_pylist() if row["id"] == id]


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=MORE) for seed in (1, 2)), 3])
def test_pages_are_the_table(few, seed):
    """Also for one who has looked before: what is known is not read again, and nothing of it is stale."""
    rng, home = np.random.default_rng(seed), few
    kept = Pages(home)
    check(kept, rng)
    for _ in range(25):
        changed(home, rng)
        if rng.random() < 0.7:
            check(kept, rng)
    check(Pages(home), rng)


def test_small_files_are_read_once(home, monkeypatch):
    rng = np.random.default_rng(0)
    for _ in range(6):
        subscribe(home, some(rng, 5))
    pages, read = Pages(home), []
    opened = current.open_entry
    monkeypatch.setattr(current, "open_entry", lambda *file: read.append(file[-1].name) or opened(*file))
    check(pages, rng)
    first = len(read)
    assert 0 < first == len(set(read))
    check(pages, rng)
    assert len(read) == first
    subscribe(home, some(rng, 5))
    check(pages, rng)
    assert len(read) == first + 1
    check(Pages(replace(home, limits=Limits(kept_tables_bytes=0))), rng)


def test_a_page_costs_what_it_shows(tmp_path, monkeypatch):
    """Of a hundred groups one is read, of a change as well as of a base, and for one id too."""
    home = Home(str(tmp_path), DEFAULT_NAME, Limits(asked_group_rows=100, small_bytes=0))
    read, group = [], pq.ParquetFile.read_row_group
    monkeypatch.setattr(pq.ParquetFile, "read_row_group", lambda *one, **how: read.append(one[1]) or group(*one, **how))
    table = table_of([circle(f"s{i:05}", 0.0, 0.0, float(i)) for i in range(10_000)])
    subscribe(home, table)
    for runs in (1, 2):
        pages = Pages(home)
        for after, radius in (("s00499", 500.0), ("s09899", 9900.0), ("a", 0.0)):
            read.clear()
            stand = pages.now()
            assert stand.count == 10_000
            first = next(pages.behind(stand, after))
            assert first.column("radius")[0].as_py() == radius
            assert len(read) <= runs
            read.clear()
            assert pages.one(stand, f"s{int(radius):05}").column("radius").to_pylist() == [radius]
            assert len(read) <= runs
        home = replace(home, limits=home.limits._replace(least_pending=100))
        subscribe(home, table_of([circle("s00007", 0.0, 0.0, 7.5)]))  # the first change is a base now


def test_an_older_watch_whose_commits_do_not_count(home, monkeypatch):
    rng = np.random.default_rng(3)
    append = Chain.append

    def without(self, document, after):
        return append(self, {name: value for name, value in document.items() if name != "count"}, after)

    monkeypatch.setattr(Chain, "append", without)
    for _ in range(3):
        subscribe(home, some(rng, 6))
    check(Pages(home), rng)
    monkeypatch.undo()
    subscribe(home, some(rng, 6))
    assert home.changes.head().document["count"] == len(table_at(home, 4))
    check(Pages(home), rng)


def test_damage_is_named(few):
    home = few
    subscribe(home, some(np.random.default_rng(0), 12))
    name = home.changes.read(1).document["file"]
    path = Path(home.asked.path(CHANGES, name))
    data = path.read_bytes()
    for at in range(0, len(data), 97):
        path.write_bytes(data[:at] + bytes([data[at] ^ 0xFF]) + data[at + 1 :])
        with pytest.raises(StoreError, match=name):
            whole(Pages(home))
    path.unlink()
    with pytest.raises(StoreError, match=f"{name} is missing"):
        whole(Pages(home))


def test_a_large_file_is_not_read_whole_and_its_damage_is_found(few, monkeypatch):
    """Above a size no hash of all its bytes is compared; each page of it has its own."""
    home = few
    hashed_up_to(monkeypatch, 0)
    subscribe(home, some(np.random.default_rng(0), 12))
    check(Pages(home), np.random.default_rng(1))
    name = home.changes.read(1).document["file"]
    path = Path(home.asked.path(CHANGES, name))
    data = path.read_bytes()
    column = pq.ParquetFile(path).metadata.row_group(0).column(CHANGE_SCHEMA.names.index("x"))
    at = column.data_page_offset + column.total_compressed_size - 3
    path.write_bytes(data[:at] + bytes([data[at] ^ 0xFF]) + data[at + 1 :])
    with pytest.raises(StoreError, match=name):
        whole(Pages(home))
    path.write_bytes(data[:-50])
    with pytest.raises(StoreError, match="its commit says"):
        whole(Pages(home))
