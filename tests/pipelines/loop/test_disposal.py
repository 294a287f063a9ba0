"""What is done with files that were read: only what every snapshot has read goes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dtoss.commits.offsets import Ledger
from dtoss.errors import StoreError
from pipelines.loop import disposal
from pipelines.loop.disposal import Disposal, disposal_of, dispose, read_by_all
from pipelines.rows.list_files import listing
from tests.disks import without_links


class Kept:
    """A store of which only the ledgers are asked."""

    def __init__(self, **ledgers):
        self.ledgers = ledgers

    def snapshots(self):
        return sorted(self.ledgers)

    def manifest(self, name):
        if isinstance(self.ledgers[name], Exception):
            raise self.ledgers[name]
        files = self.ledgers[name]
        return {} if files is None else {"ledger": {"files": files, "batches": {}}}


@pytest.fixture
def updates(tmp_path):
    folder = tmp_path / "updates"
    (folder / "deep").mkdir(parents=True)
    for name, data in (("a.csv", b"aa"), ("b.csv", b"bbb"), ("deep/c.csv", b"cccc")):
        (folder / name).write_bytes(data)
    return folder


def sizes(folder, *names):
    return {str(folder / name): (folder / name).stat().st_size for name in names}


def names(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_only_what_every_snapshot_has_read_goes(updates):
    every, told = sizes(updates, "a.csv", "b.csv", "deep/c.csv"), []
    kept = Kept(one={**every}, two=sizes(updates, "a.csv", "deep/c.csv"), three={**every, "/gone.csv": 7})
    assert read_by_all(kept).files == sizes(updates, "a.csv", "deep/c.csv")
    assert dispose(Disposal(None), kept, listing(str(updates)), told.append) == 2
    assert names(updates) == ["b.csv"]
    assert told == []


@pytest.mark.parametrize("other", [None, {}])
def test_a_snapshot_that_has_read_nothing_keeps_all(updates, other):
    kept = Kept(one=sizes(updates, "a.csv"), two=other)
    assert dispose(Disposal(None), kept, listing(str(updates)), pytest.fail) == 0
    assert len(names(updates)) == 3


def test_what_has_other_bytes_by_now_stays(updates):
    kept = Kept(one=sizes(updates, "a.csv", "b.csv"))
    (updates / "a.csv").write_bytes(b"grown")
    where = listing(str(updates))
    (updates / "b.csv").write_bytes(b"grown after the look")
    assert dispose(Disposal(None), kept, where, pytest.fail) == 0
    assert len(names(updates)) == 3


def test_what_was_written_again_or_is_refused_stays(updates):
    """With as many bytes; and what is refused counts nowhere."""
    where = listing(str(updates))
    read = Ledger(sizes(updates, "a.csv", "b.csv"), {}, where.stamps, {}, {str(updates / "b.csv"): "cut"})
    kept = Kept(one=sizes(updates, "a.csv", "b.csv"))
    os.utime(updates / "a.csv", (1, 1))
    for seen in (where, listing(str(updates))):
        assert dispose(Disposal(None), kept, seen, pytest.fail, [read]) == 0
    os.utime(updates / "a.csv", (1, 1))
    again = Ledger(read.files, {}, listing(str(updates)).stamps, {}, read.refused)
    assert dispose(Disposal(None), kept, listing(str(updates)), pytest.fail, [again]) == 1
    assert names(updates) == ["b.csv", "deep/c.csv"]


def test_a_snapshot_that_cannot_be_read_keeps_all(updates):
    told = []
    kept = Kept(one=sizes(updates, "a.csv"), two=StoreError("manifest.json is damaged"))
    assert dispose(Disposal(None), kept, listing(str(updates)), told.append) == 0
    assert told == ["files that were read stay where they are: manifest.json is damaged"]
    assert len(names(updates)) == 3


def test_a_store_without_snapshots_has_read_nothing():
    assert read_by_all(Kept()) == Ledger()


def test_files_move_with_their_folders_past_others_of_their_name(updates, tmp_path):
    target = tmp_path / "read"
    target.mkdir()
    (target / "a.csv").write_bytes(b"other")
    (target / "a-1.csv").write_bytes(b"another")
    (target / "b.csv").write_bytes(b"bbb")  # by a run that was cut off
    kept = Kept(one=sizes(updates, "a.csv", "b.csv", "deep/c.csv"))
    assert dispose(Disposal(str(target)), kept, listing(str(updates)), pytest.fail) == 3
    assert names(updates) == []
    assert names(target) == ["a-1.csv", "a-2.csv", "a.csv", "b.csv", "deep/c.csv"]
    assert (target / "a-2.csv").read_bytes() == b"aa"
    assert (target / "deep" / "c.csv").read_bytes() == b"cccc"


@pytest.mark.skipif(not os.access("/dev/shm", os.W_OK), reason="/dev/shm is the other disk")
def test_files_move_to_another_disk(updates, tmp_path):
    import tempfile

    with tempfile.TemporaryDirectory(dir="/dev/shm") as other:
        if Path(other).stat().st_dev == tmp_path.stat().st_dev:
            pytest.skip("/dev/shm is on the same disk")
        target = Path(other) / "read"
        target.mkdir()
        (target / "a.csv").write_bytes(b"other")
        kept = Kept(one=sizes(updates, "a.csv", "deep/c.csv"))
        assert dispose(Disposal(str(target)), kept, listing(str(updates)), pytest.fail) == 2
        assert names(updates) == ["b.csv"]
        assert names(target) == ["a-1.csv", "a.csv", "deep/c.csv"]
        assert (target / "a-1.csv").read_bytes() == b"aa"


def test_a_disk_without_links(updates, tmp_path, monkeypatch):
    without_links(monkeypatch)
    kept = Kept(one=sizes(updates, "a.csv"))
    assert dispose(Disposal(str(tmp_path / "read")), kept, listing(str(updates)), pytest.fail) == 1
    assert names(tmp_path / "read") == ["a.csv"]
    assert names(updates) == ["b.csv", "deep/c.csv"]


def test_what_cannot_go_is_told_of_and_stays(updates, tmp_path):
    told = []
    (tmp_path / "file").write_bytes(b"")
    kept = Kept(one=sizes(updates, "a.csv"))
    assert dispose(Disposal(str(tmp_path / "file")), kept, listing(str(updates)), told.append) == 0
    assert len(told) == 1
    assert told[0].startswith(f"{updates / 'a.csv'} was read and cannot be moved: ")
    assert len(names(updates)) == 3


def test_objects_move_past_others_of_their_name(tmp_path):
    from pyarrow import fs

    for name, data in (("in/a.csv", b"aa"), ("out/a.csv", b"other"), ("in/b.csv", b"bb"), ("out/b.csv", b"bb")):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(data)
    filesystem = fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem())
    disposal.move_remote(filesystem, "in/a.csv", "out/a.csv")
    disposal.move_remote(filesystem, "in/b.csv", "out/b.csv")
    assert names(tmp_path) == ["out/a-1.csv", "out/a.csv", "out/b.csv"]
    assert (tmp_path / "out" / "a-1.csv").read_bytes() == b"aa"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("remove", "delete or move:DIR is wanted"),
        ("move:", "delete or move:DIR is wanted"),
        ("move:s3://bucket/read", "on its own file system only"),
        ("move:{updates}", "would be read again"),
        ("move:{updates}/read", "would be read again"),
        ("move:{updates}/../updates/a=1/read", "would be read again"),
    ],
)
def test_what_cannot_be_done(updates, text, said):
    with pytest.raises(ValueError, match=said):
        disposal_of(text.format(updates=updates), str(updates))


def test_what_can_be_done(updates):
    assert disposal_of("delete", str(updates)) == Disposal(None)
    for target in (updates / "_read", updates / ".x" / "read", updates.parent / "updates-read"):
        assert disposal_of(f"move:{target}", str(updates)) == Disposal(str(target))
    assert disposal_of("move:s3://b/u/_read", "s3://b/u") == Disposal("s3://b/u/_read")
    with pytest.raises(ValueError, match="would be read again"):
        disposal_of("move:s3://b/u/read", "s3://b/u?region=eu-west-1")
