"""Results that cannot be written and stores that are damaged: one line and exit code 2, before any work begins."""

from __future__ import annotations

from pathlib import Path

import pytest

from dtoss.errors import InputError
from dtoss.export.targets import check_file, check_folder
from dtoss.snapshots.store import Store
from tests.dtoss.snapshots.small_stores import as_before_commits, commit, immutable
from tests.pipelines.command.processes import commands_without

SPARK = ("pyspark", "py4j")


def test_a_result_that_cannot_be_written(tmp_path):
    """A folder, nothing, a file as a folder, a device, and what the disk refuses."""
    (tmp_path / "folder.csv").mkdir()
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match=r"^--out .*folder\.csv is a folder: name a file in it$"):
        check_file("--out", str(tmp_path / "folder.csv"))
    with pytest.raises(InputError, match=r"^--out .*o\.csv: there is no folder .*nowhere; make it first$"):
        check_file("--out", str(tmp_path / "nowhere" / "o.csv"))
    with pytest.raises(InputError, match=r"^--out /dev/null is no file that can be replaced"):
        check_file("--out", "/dev/null")
    with pytest.raises(InputError, match=r"^--out /proc/o\.csv cannot be written: "):
        check_file("--out", "/proc/o.csv")
    with pytest.raises(InputError, match=r"^--out .*/file/x: .*/file is no folder"):
        check_folder("--out", str(tmp_path / "file" / "x"))
    with pytest.raises(InputError, match=r"^--out /proc/a/b cannot be written: "):
        check_folder("--out", "/proc/a/b")
    (tmp_path / "old.csv").touch()
    for good in ("new.csv", "old.csv"):
        check_file("--out", str(tmp_path / good))
    check_file("--out", "s3://nowhere/x.parquet")
    check_folder("--out", str(tmp_path / "a" / "b"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder.csv", "old.csv"]


def test_a_folder_that_is_not_to_be_changed(tmp_path):
    """As on a disk that is mounted to be read only, also for root."""
    if not immutable(tmp_path, "+i"):
        pytest.skip("no right to make files immutable here")
    try:
        with pytest.raises(InputError, match="cannot be written: Operation not permitted"):
            check_file("--out", str(tmp_path / "o.csv"))
        with pytest.raises(InputError, match="cannot be written: Operation not permitted"):
            check_folder("--out", str(tmp_path / "report"))
    finally:
        immutable(tmp_path, "-i")


def test_commands_look_before_they_start(tmp_path):
    """Spark is not loaded."""
    (tmp_path / "a.csv").write_text("id,lon,lat\n1,2,3\n")
    ran = commands_without(
        SPARK,
        ("knn", "--store", "s", "--queries", "q.csv", "--out", "/proc/o.csv"),
        ("knn", "--store", "s", "--all", "--out", "/proc/o.csv"),
        ("range", "--store", "s", "--radius", "1", "--queries", "q.csv", "--out", "/proc/o.csv"),
        ("patterns", tmp_path / "a.csv", "--store", "s", "--out", "/proc/o.parquet"),
        ("rebuild", tmp_path / "a.csv", "--store", "/proc/store"),
        forbidden=True,
    )
    for one in ran:
        assert (one.code, one.out, one.err.count("\n")) == (2, "", 1)
        assert one.err.startswith("error: ")
        assert " cannot be written: " in one.err


def test_a_damaged_pointer_in_a_command(tmp_path, command):
    """That of a store of an earlier version, and a damaged commit: one line each; rolling back mends it."""
    store = Store(str(tmp_path / "store"))
    first = commit(store, 1)
    as_before_commits(store)
    for text in (b"", b"\xff\x00", b"../x"):
        (tmp_path / "store" / "CURRENT").write_bytes(text)
        assert "CURRENT of " in command.fails("info", "--store", store.path)
    code, out, err = command("rollback", "--store", store.path)
    assert (code, err) == (0, "")
    assert out.startswith(f"{first} is current, ")
    assert store.current() == first
    Path(store.chain.path(1)).write_bytes(b"{")
    assert "00000000000000000001.json is damaged: it is not JSON" in command.fails("info", "--store", store.path)
