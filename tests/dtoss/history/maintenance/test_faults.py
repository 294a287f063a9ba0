"""Faults of what changes a history: some of those that ``make check-data`` takes all of."""

from __future__ import annotations

import errno
import os
import shutil

import pytest

from dtoss.commits.folder import LocalFolder
from dtoss.history.history_commit import Change, commit, undone
from dtoss.history.layouts.compaction import make_order
from dtoss.history.maintenance.erase_rows import forget
from dtoss.history.maintenance.history_table import clear
from dtoss.history.segments import write_named
from dtoss.history.versions import Home
from tests.dtoss.history.drop_orders import drop_orders
from tests.dtoss.history.maintenance.crowd import crowd, in_processes, in_threads
from tests.dtoss.history.maintenance.faults import (
    SCHEMA,
    STEPS,
    batch,
    faulty,
    full,
    kill,
    made_home,
    ready,
    silent,
    state,
)
from tests.dtoss.history.maintenance.operations import WHAT, operated
from tests.dtoss.history.worlds import new_home, put_batch
from tests.examples import examples


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A history to be copied."""
    return made_home(str(tmp_path_factory.mktemp("made") / "h"))


@pytest.fixture(scope="module", params=STEPS)
def change(request, made, tmp_path_factory):
    """Each kind of change, and a history that it is made of."""
    return ready(request.param, tmp_path_factory.mktemp(request.param), made)


@pytest.mark.parametrize("fault", [kill, full])
def test_a_fault_at_a_step_leaves_the_rows_from_before_or_after(tmp_path, change, fault):
    """And what comes next finishes and leaves nothing behind."""
    assert faulty(change, tmp_path, examples(8, 1 if fault is kill else 3), 5, fault) > 0


@pytest.mark.parametrize(
    ("count", "seed"),
    [(20, 7), pytest.param(60, 1, marks=pytest.mark.deep("sixty; twenty are in make test"))],
)
def test_random_operations_keep_every_row(tmp_path, count, seed):
    """One after the other upon one history, of which the script does a thousand."""
    done = operated(new_home(tmp_path / "h"), count, seed)
    assert len({*WHAT, "cut"} - set(done)) <= 2
    assert done["cut"] > 0


def test_flipped_bits_are_told_with_the_file(tmp_path, made):
    """In rows, tables and the commit."""
    assert silent(Home(str(shutil.copytree(made.path, tmp_path / "h"))), 30, 3) == []


def test_who_was_killed_clearing_leaves_nothing_to_wait_for(tmp_path, monkeypatch):
    """Rows that were forgotten go with the next gc --now, though the first one had ended their versions already."""
    home = new_home(tmp_path / "h")
    put_batch(home, batch(0), SCHEMA, "0")
    forget(home, [3])
    with monkeypatch.context() as patch:

        def killed(*_):
            raise KeyboardInterrupt

        patch.setattr(type(home.folder), "remove", killed)
        with pytest.raises(KeyboardInterrupt):
            clear(home, now=True)
    assert len(list((tmp_path / "h/time").glob("*.parquet"))) == 2
    done = clear(home, now=True)
    assert (done.ended, len(list((tmp_path / "h/time").glob("*.parquet")))) == (1, 1)


def test_two_who_clear_at_once_end_versions_once(tmp_path):
    """The later commit does not bring back what the first one has ended, nor fails over it."""
    home = new_home(tmp_path / "h")
    for number in range(5):
        put_batch(home, batch(number), SCHEMA, str(number))
    before = home.version()
    clear(home, keep=1, keep_for=0.0)
    commit(home, Change("gc", oldest=2), before)
    assert home.version().document["oldest"] == 5
    assert clear(home, keep=1, keep_for=0.0).ended == 2


def test_what_is_committed_while_somebody_clears_stays(tmp_path, monkeypatch):
    """A table with the bytes of one of a version that ended: it was touched after that, so it stays."""
    home = new_home(tmp_path / "h")
    put_batch(home, batch(0), SCHEMA, "0")
    make_order(home, 0, "place")
    sizes = type(home.folder).sizes
    ran = []

    def meanwhile(folder, *parts):
        if not ran:
            ran.append(True)
            drop_orders(home, ["place"])  # its table of files is that of version 1
        return sizes(folder, *parts)

    monkeypatch.setattr(type(home.folder), "sizes", meanwhile)
    clear(home, now=True)
    assert ran
    assert state(new_home(tmp_path / "h"))[0] == len(batch(0))


@pytest.mark.parametrize(
    "do", [in_threads, pytest.param(in_processes, marks=pytest.mark.deep("in processes, threads are in make test"))]
)
def test_a_crowd_at_one_history(tmp_path, do):
    """Appenders that send each other's batches, one who rewrites, one who clears, one who asks."""
    told = crowd(str(tmp_path / "h"), 2, 16, do)
    assert told["repeated"] == 17, "each batch stands once"
    assert told["changes"] > 0
    assert told["seen"] > 0


class Unsure(LocalFolder):
    """A disk that makes a commit and then cannot say so."""

    def create(self, data, *parts):
        assert super().create(data, *parts)
        raise OSError(errno.EIO, "Input/output error")


def test_a_commit_that_stands_keeps_its_files_whatever_its_writer_is_told(tmp_path):
    """Only what no version names is removed where a change fails."""
    home = new_home(tmp_path / "h")
    put_batch(home, batch(0), SCHEMA, "0")
    vars(home)["folder"] = Unsure(home.folder.root)
    with pytest.raises(OSError, match="Input/output error"):
        forget(home, [3])
    rows = batch(0).column("id").to_pylist()
    assert state(Home(home.path))[0] == len(rows) - rows.count(3)


def test_what_another_writer_has_touched_stays_where_a_change_fails(tmp_path):
    """It is about to commit it; a file that was there before is nobody's to remove either."""
    home = new_home(tmp_path / "h")
    write_named(home.folder, b"old", "time", "old")

    @undone(home, None)
    def change():
        for name in ("old", "mine", "shared"):
            write_named(home.folder, name.encode(), "time", name)
        os.utime(tmp_path / "h/time/shared", ns=(7, 7))
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        change()
    assert home.folder.files("time") == ["old", "shared"]
