"""A seventh table, by one description: it is logged, verified, cleared, compacted, and what is old goes."""

from __future__ import annotations

import os
import time
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dtoss.commits.chain import Chain
from dtoss.commits.file_entry import FileEntry, checked_bytes, write_entry
from dtoss.commits.folder import LocalFolder
from dtoss.commits.log_compaction import fold
from dtoss.commits.process import passing_name
from dtoss.commits.table import (
    NamedFile,
    Table,
    commit_change,
    compact,
    log_of,
    oldest_kept,
    orphans_of,
    remove_orphans,
    tidy,
    verify,
)
from dtoss.errors import StoreError
from tests.examples import examples


def notes(path, block=1000):
    """The description of a table of notes, each a line of text; a commit names all files that count."""
    chain = Chain(LocalFolder(str(path)), block, kept=True)

    def named(look, numbers):
        for number in numbers if look is not None else numbers[-1:]:
            for file in entries(chain.read(number)):
                yield NamedFile("notes", file, number == numbers[-1], check=ends_with_a_line)

    return Table("notes", chain, ("notes",), named, said=lambda one: {"what": "note", "files": len(entries(one))})


def ends_with_a_line(look, path, data, file):
    look.found.hold("notes", file.rows)
    if not data.endswith(b"\n"):
        look.wrong(f"{path} is damaged: its last line has no end")


def entries(commit):
    return tuple(map(FileEntry.of, commit.document["files"]))


def read(table, file):
    folder = table.chain.folder
    lines = checked_bytes(folder, "notes", file).decode().splitlines()
    return pa.table({"note": lines})


def write(table, rows, end="\n"):
    data = ("\n".join(rows["note"].to_pylist()) + end).encode()
    return FileEntry.of(write_entry(table.chain.folder, data, len(rows), "txt", "notes"))


def add(table, *lines, small=True):
    """Commit some notes, in as few files as if many were small."""
    rows = pa.table({"note": pa.array(lines, pa.string())})

    def change(head):
        files = () if head is None else entries(head)
        merged = compact(files, rows, partial(read, table), partial(write, table)) if small else None
        return {"files": [one.as_json() for one in merged or (*files, write(table, rows))]}

    return commit_change(table.chain, change)


def told(table):
    head = table.chain.head()
    return [] if head is None else [line for file in entries(head) for line in read(table, file)["note"].to_pylist()]


def age(path, seconds=7200):
    then = time.time() - seconds
    for file in Path(path).rglob("*"):
        os.utime(file, (then, then))


@given(st.lists(st.integers(1, 40), max_size=30))
@settings(max_examples=examples(100, 15))
def test_many_small_files_become_few(tmp_path_factory, sizes):
    """All rows in their order, in as many files as they have doublings; what was replaced goes, and nothing else."""
    table = notes(tmp_path_factory.mktemp("notes"))
    lines = [[f"{number}.{row}" for row in range(size)] for number, size in enumerate(sizes)]
    for some in lines:
        add(table, *some)
        assert remove_orphans(table, 0.0).files <= 8
    assert told(table) == [line for some in lines for line in some]
    head = table.chain.head()
    there = set(table.chain.folder.files("notes"))
    assert there == ({file.name for file in entries(head)} if head else set())
    assert len(there) <= 1 + sum(sizes).bit_length()
    found = verify([table])
    assert (found.damaged, found.commits, found.held.get("notes", 0)) == ([], len(sizes), sum(sizes))


def test_orphans_go_once_they_are_old(tmp_path):
    """What is young may be named next; what a process left that is gone goes at once; what is needed never does."""
    table, folder = notes(tmp_path), tmp_path / "notes"
    assert remove_orphans(table, 0.0).files == 0
    for number in range(3):
        add(table, f"note {number}", small=False)
    left, mine = f"ab.txt.0-1-1-{'0' * 8}-{'0' * 12}", "ab.txt." + passing_name()
    for name, text in (("0123.txt", "young"), (left, "another machine's, of 1970"), (mine, "now")):
        (folder / name).write_text(text)
    assert set(orphans_of(table)["notes"]) == {"0123.txt", left, mine}
    done = remove_orphans(table)
    assert (done.files, done.bytes, str(done)) == (1, 26, "1 file of 26 bytes")
    age(folder)
    assert tidy(table).files == 1
    assert set(orphans_of(table)["notes"]) == {mine}
    assert told(table) == ["note 0", "note 1", "note 2"]


def test_what_comes_while_orphans_are_looked_for_stays(tmp_path):
    """A commit that is made between the listing and the walk, and one after it, whatever is spared."""
    table = notes(tmp_path)
    add(table, "first", small=False)

    def meanwhile(look, numbers):
        yield from table.named(look, numbers)
        add(table, "second", small=False)

    assert remove_orphans(Table("notes", table.chain, table.rooms, meanwhile), 0.0).files == 0
    assert told(table) == ["first", "second"]


def test_every_byte_is_looked_at(tmp_path):
    """Of each file and of commits, in logs too; where the newest commit is damaged nothing goes."""
    table = notes(tmp_path, block=2)
    for number in range(4):
        add(table, f"note {number}")
    fold(table.chain, 2, 0.0)
    assert verify([table]).damaged == []
    needed = {file.name for file in entries(table.chain.head())}
    for path in sorted(tmp_path.rglob("*.*")):
        data = path.read_bytes()
        for row in range(0, len(data), 7):
            path.write_bytes(data[:row] + bytes([data[row] ^ 1]) + data[row + 1 :])
            found = verify([table])
            assert any(path.name in line for line in found.damaged)
            assert (f"notes/{path.name}" in found.broken) == (path.parent.name == "notes")
        path.unlink()
        assert any(verify([table]).damaged) == (path.parent.name == "commits" or path.name in needed)
        path.write_bytes(data)
    head = Path(table.chain.path(4))
    head.write_bytes(head.read_bytes()[:-2])
    files = table.chain.folder.files("notes")
    with pytest.raises(StoreError):
        remove_orphans(table, 0.0)
    assert table.chain.folder.files("notes") == files


def test_what_a_description_looks_at_is_told(tmp_path):
    table = notes(tmp_path)
    entry = write(table, pa.table({"note": ["one"]}), "")
    table.chain.append({"files": [entry.as_json()]}, None)
    assert verify([table]).damaged == [f"{tmp_path}/notes/{entry.name} is damaged: its last line has no end"]


def test_the_log_and_what_may_go_by_it(tmp_path):
    """The newest first; of the oldest that stays it counts how many are kept, and how long it was the newest."""
    table = notes(tmp_path, block=4)
    for number in range(9):
        add(table, f"note {number}", small=False)
    said = log_of(table, 2)
    assert [(one["table"], one["number"], one["what"], one["files"]) for one in said] == [
        ("notes", 9, "note", 9), ("notes", 8, "note", 8)
    ]  # fmt: skip
    assert oldest_kept(table.chain, 9, 1, keep=3, keep_for=0.0) == 7
    assert oldest_kept(table.chain, 9, 1, keep=1, keep_for=3600.0) == 1
    assert oldest_kept(table.chain, 9, 4, keep=100, keep_for=0.0) == 4
    assert oldest_kept(table.chain, 9, 1, keep=1, keep_for=0.0) == 9
    # notes of before the third last commit go
    gone = {file.name for file in entries(table.chain.read(6))}
    commit_change(
        table.chain,
        lambda head: {"files": [one.as_json() for one in entries(head) if one.name not in gone]},
    )
    assert remove_orphans(table, 0.0).files == 6
    assert told(table) == ["note 6", "note 7", "note 8"]
    assert verify([table]).damaged == []
    assert commit_change(table.chain, lambda _: None) is None
    table.chain.append({"of": "another table"}, table.chain.head())
    assert [one["what"] for one in log_of(table, 2)] == ["unknown", "note"]
    assert table.chain.head().number == 11
