"""Generations in a store: what is opened there is what stands, and what no row touches is the file that it was."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

import dtoss
from dtoss.fresh.generations import publish
from dtoss.fresh.standing import LATE, UNCHANGED, Newest, judge, merge_rows, standing_of
from dtoss.snapshots.store import Store

from .test_standing import files_of


def base_of(path, count=400, string_ids=False):
    rng = np.random.default_rng(5)
    ids = [f"n{i}" for i in range(count)] if string_ids else np.arange(count)
    rows = {"id": ids, "lon": rng.uniform(-170, 170, count), "lat": rng.uniform(-60, 60, count)}
    dtoss.build({**rows, "speed": rng.random(count), "t": np.full(count, 10)}, partitions=8).save(path)
    return Store(str(path))


def row(id, t, place, deleted=False):
    lon, lat = place
    return pa.table({"id": [id], "lon": [lon], "lat": [lat], "speed": [1.0], "t": [t], "deleted": [deleted]})


def inodes(home, published):
    return [
        Path(home.file("snapshots", published.name, entry["file"])).stat().st_ino
        for entry in published.manifest["partitions"]
    ]


def test_what_is_opened_is_what_stands_and_untouched_files_are_links(tmp_path):
    standing, home = standing_of(base_of(tmp_path / "base")), Store(str(tmp_path / "home"))
    published = publish(standing, home, None)
    assert files_of(dtoss.open(home.path)) == files_of(standing.index)
    assert home.manifest()["fresh"] == {"base": standing.base, "commit": 1, "seq": 0, "generation": 1}
    place = standing.index.parts[3].positions[0]
    for seq, id in enumerate((7, 9999), 1):
        after, _ = merge_rows(standing, row(id, 20, place), seq)
        then = publish(after, home, published)
        same = [one is other for one, other in zip(standing.index.parts.all(), after.index.parts.all(), strict=True)]
        assert 2 <= sum(same) < 8
        assert [one == other for one, other in zip(inodes(home, published), inodes(home, then), strict=True)] == same
        opened = dtoss.open(home.path, verify=True)
        assert files_of(opened) == files_of(after.index)
        assert opened.knn(place, 2).id.tolist() == after.index.knn(place, 2).id.tolist()
        after.index.save(tmp_path / f"saved-{seq}")
        assert files_of(dtoss.open(tmp_path / f"saved-{seq}")) == files_of(opened)
        assert home.manifest()["fresh"] == {"base": standing.base, "commit": 1, "seq": seq, "generation": seq + 1}
        standing, published = after, then


def test_a_generation_that_only_knows_more_late_rows_is_all_links(tmp_path):
    """Of an opened index and of a merged one; another process goes on with the numbers."""
    standing, home = standing_of(base_of(tmp_path / "base", string_ids=True)), Store(str(tmp_path / "home"))
    first = publish(standing, home, None)
    late, counts = merge_rows(standing, row("n7", 9, (0.0, 0.0)), 1)
    second = publish(late, home, first)
    assert counts.late == 1
    assert inodes(home, first) == inodes(home, second)
    assert home.manifest()["fresh"]["seq"] == 1
    anew = publish(late, Store(home.path), None)
    assert (anew.number, home.manifest()["fresh"]["generation"]) == (3, 3)


def test_a_snapshot_whose_rows_only_delete_what_does_not_stand_is_published_with_these_deletions(tmp_path):
    """Its files are copied, as no partition is another one; the next generation links what it remembers."""
    standing, home = standing_of(base_of(tmp_path / "base")), Store(str(tmp_path / "home"))
    deleted, _ = merge_rows(standing, row(9999, 20, (8.0, 50.0), deleted=True), 1)
    published = publish(deleted, home, None)
    moved, _ = merge_rows(deleted, row(7, 20, (8.0, 50.0)), 2)
    for one in (published, publish(moved, home, published)):
        again = standing_of(home, one.commit)
        assert again.tombstones.to_pydict() == {"id": [9999], "t": [20]}
        assert judge(again, row(9999, 15, (8.0, 50.0))).tolist() == [LATE]


def test_an_empty_generation_can_be_opened_and_the_last_few_stay(tmp_path):
    rows = {"id": [1], "lon": [8.0], "lat": [50.0], "speed": [1.0], "t": [10]}
    dtoss.build(rows).save(tmp_path / "base")
    standing, home = standing_of(Store(str(tmp_path / "base"))), Store(str(tmp_path / "home"))
    published = publish(standing, home, None, keep=2)
    for seq in range(1, 5):
        standing, _ = merge_rows(standing, row(1, 10 + seq, (8.0, 50.0), deleted=seq % 2 == 1), seq)
        published = publish(standing, home, published, keep=2)
        assert len(dtoss.open(home.path)) == (seq + 1) % 2
    assert len(home.snapshots()) == 2


def test_commits_do_not_pile_up_and_those_that_are_gone_are_not_looked_for(tmp_path):
    standing, home = standing_of(base_of(tmp_path / "base", count=8)), Store(str(tmp_path / "home"))
    published = None
    for _ in range(6):
        published = publish(standing, home, published, commits=3)
    assert home.chain.listed() == ([4, 5, 6], [])
    warnings = []
    assert [commit.number for commit in home.chain.newest_first(warnings.append)] == [6, 5, 4]
    assert len(warnings) == 1
    assert len(dtoss.open(home.path)) == 8


def test_rows_are_judged_by_the_newest_generation_and_the_deletions_that_it_remembers(tmp_path):
    """As by what stands; a file of deletions is written where they change, and else a link."""
    standing, home = standing_of(base_of(tmp_path / "base")), Store(str(tmp_path / "home"))
    newest, place = Newest(home), (8.0, 50.0)
    newest.look()
    assert newest.judge(row(7, 5, place)) == (0, 0)  # nobody has published anything
    published = publish(standing, home, None)
    files = set()
    for seq, one in enumerate((row(7, 20, place, deleted=True), row(8, 20, place), row(7, 30, place)), 1):
        standing, _ = merge_rows(standing, one, seq)
        published = publish(standing, home, published)
        files.add(published.manifest["tombstones"]["file"])
        newest.look()
        rows = pa.concat_tables(
            [row(7, 15, place), row(7, 20, place, deleted=True), row(8, 20, place), row(9, 1, place)]
        )
        found = judge(standing, rows)
        assert newest.judge(rows) == ((found == LATE).sum(), (found == UNCHANGED).sum())
    assert len(files) == 2
