"""``dtoss windows run --rebuild`` as a user types it: rows that came too late, were mended, or are gone."""

from __future__ import annotations

import json

import numpy as np
import pytest

from dtoss.windows.query.window_query import open_windows
from dtoss.windows.storage.window_document import head_of
from tests.dtoss.windows.storage.kept import SECOND, counts_add_up
from tests.pipelines.windowing.test_windows_command import ARGUMENTS, BEGIN, held_to_the_oracle, made, put

SITES = np.array([[8.1, 50.1], [8.3, 50.1], [8.2, 50.0]])
HOME = ("--store", "store", "--name", "w")


@pytest.fixture
def run(session, command, monkeypatch, tmp_path):
    """(exit code, lines of stdout, the last line of stderr) of a run of windows in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shops.csv").write_text("id,lon,lat\n" + "".join(f"{i},{x},{y}\n" for i, (x, y) in enumerate(SITES)))

    by = () if session is None else ("--engine", "spark")

    def ended(*arguments, first="windows"):
        ran = command(first, *(("run", "in", *HOME, *by, *arguments) if first == "windows" else arguments))
        assert "Traceback" not in ran.err
        out, err = ran.lines
        return ran.code, out, err[-1] if err else ""

    return ended


def at(seconds):
    """A time as a user types it."""
    return str(BEGIN + seconds)


def held(rows):
    """Hold all ends that are due to the oracle."""
    space = open_windows("store", "w").spec.space
    vectors = space.vectors(SITES)
    keys_at = lambda x, y: [int(((vectors - space.vectors(np.array([[x, y]]))) ** 2).sum(axis=1).argmin())]  # noqa: E731
    assert held_to_the_oracle("store", "w", keys_at, rows) > 10


def test_rows_that_were_late_or_mended_or_removed_are_counted_anew(run, tmp_path):
    """A file that no batch takes counts, one that was mended counts as it is now; batches go on after both."""
    moves = tmp_path / "in"
    first, second, third = made(1, 0), made(2, 130), made(3, 260)
    late = [row for row in made(4, 0, 20) if row[1] < (BEGIN + 110) * SECOND]
    put(moves, "a.csv", first)
    put(moves, "b.csv", second)
    asked = ("--by", "sites:shops.csv", "--lengths", "20s,1min", *ARGUMENTS, "--measures", "rows,objects,speed")
    assert run(*asked, "--once")[0] == 0
    put(moves, "late.csv", late)
    code, _, err = run("--once")
    assert (code, "later than --late" in err) == (2, True)
    code, out, err = run("--rebuild", at(-10), at(115), "--json")
    assert code == 0, err
    facts = json.loads(out[0])
    assert (facts["reason"], facts["commit"], facts["state"]) == ("rebuild", 2, "replaced")
    assert facts["counts"]["results"] == facts["counts"]["revised"] > 10
    held(first + second + late)
    assert run("--once")[1] == ["nothing has changed"]
    mended = [(*row[:2], row[2] + 0.1, row[3]) for row in first if row[0]]
    put(moves, "a.csv", mended)
    assert run("--rebuild", at(0), at(120))[0] == 0
    held(mended + second + late)
    assert run("--once")[1] == ["nothing has changed"]
    put(moves, "c.csv", third)
    assert run("--once")[0] == 0
    held(mended + second + late + third)
    (moves / "b.csv").unlink()
    code, _, err = run("--rebuild", at(0), at(120))
    assert (code, "b.csv, read by commit 1, is gone" in err) == (2, True)
    assert "rows from 2023-11-14T22:1" in err
    (moves / "b.csv").write_text("")
    assert run("--rebuild", at(0), at(420))[0] == 0
    held(mended + late + third)
    document = head_of(open_windows("store", "w").home).commit.document
    counts_add_up(document)
    assert [one["commit"] for one in document["rebuilds"]] == [2, 3, 5]
    assert run("--store", "store", "--windows", "w", first="verify")[0] == 0
    assert run("--store", "store", first="gc")[0] == 0
    held(mended + late + third)


def test_several_folders_are_counted_anew_together(run, tmp_path):
    """As they were read; who names one of them is told what is missing, and nothing has changed."""
    first, second = made(1, 0), made(2, 0)
    put(tmp_path / "in", "a.csv", first)
    put(tmp_path / "more", "b.csv", second[:-3])
    given = ("more", "--by", "sites:shops.csv", "--lengths", "1min", *ARGUMENTS)
    assert run(*given, "--once")[0] == 0
    put(tmp_path / "more", "b.csv", second)
    code, _, err = run("--rebuild", at(0), at(600))
    assert code == 2
    assert "more/b.csv, read by commit 1, is gone; restore it" in err
    assert run("more", "--rebuild", at(0), at(600))[0] == 0
    held(first + second)


@pytest.mark.parametrize(
    ("span", "said"),
    [
        (("noon", "1"), "--rebuild noon: a time such as"),
        ((at(60), at(60)), "is no time: give the beginning first"),
        ((at(9000), at(9060)), "no end after 2023-11-15T00:43:20Z is due; rows from there on are counted by the next"),
    ],
)
def test_bad_input_is_one_line_and_code_2(run, tmp_path, span, said):
    """With the value, the bound and the way out."""
    for option in (("--retain", "1d"), ("--workers", "3"), ("--clock", "wall"), ("--rebalance", "off")):
        code, _, err = run("--rebuild", *span, *option)
        assert (code, err.endswith("leave " + (" ".join(option[: 1 + (option[1] == "wall")])) + " out")) == (2, True)
    put(tmp_path / "in", "a.csv", made(1, 0))
    if not said.startswith("--rebuild noon"):
        assert run("--by", "sites:shops.csv", "--lengths", "1min", *ARGUMENTS, "--once")[0] == 0
    code, out, err = run("--rebuild", *span)
    assert (code, out) == (2, [])
    assert said in err
