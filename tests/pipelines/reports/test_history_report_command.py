"""``dtoss history report``: what it writes and prints, and what it refuses."""

from __future__ import annotations

import json

import pyarrow.parquet as pq
import pytest

from tests.dtoss.history.worlds import PLANE
from tests.pipelines.reports.histories import asked_history


@pytest.fixture(scope="module")
def history(tmp_path_factory):
    """A history that remembers what it was asked."""
    home, questions = asked_history(tmp_path_factory.mktemp("c"), PLANE, n=2000)
    home.folder.make("asked")
    pq.write_table(questions.as_table(), home.folder.path("asked", "some.parquet"))
    return home


def test_it_writes_a_page_of_what_is_remembered(history, tmp_path, command):
    """And prints the sentence of its first screen, or all numbers."""
    out = tmp_path / "report"
    report = ("history", "report", history.path, "--out", out)
    code, printed, _ = command(*report, "--a-day", 10)
    assert code == 0
    assert "for 10 questions" in printed
    ran = command(*report, "--json", "--version", 3)
    assert ran.code == 0
    told = ran.json
    assert told == json.loads((out / "report.json").read_text())
    assert (told["version"], told["questions"]["remembered"]) == (3, 100)
    assert (out / "report.html").read_text().startswith("<!DOCTYPE html>")


def test_a_history_is_named_as_by_other_commands(history, tmp_path, command):
    """By an option, or as it was before; one of them."""
    out = tmp_path / "r"
    assert command("history", "report", "--history", history.path, "--out", out, "--json").json["version"] == 4
    for named in ((), (history.path, "--history", history.path)):
        said = command.fails("history", "report", *named, "--out", out)
        assert "name one history (--history H), not " in said


def test_files_that_count_are_named(history, command):
    """A path a line, or with their rows."""
    lines = command("history", "files", "--history", history.path).lines[0]
    told = command("history", "files", "--history", history.path, "--json").json
    assert [one["file"] for one in told["files"]] == lines
    assert sum(one["rows"] for one in told["files"]) == history.version().rows
    assert sum(pq.ParquetFile(file).metadata.num_rows for file in lines) == history.version().rows
    assert told["version"] == history.version().number
    early = command("history", "files", "--history", history.path, "--version", 1, "--json").json
    assert early["version"] == 1


def test_prices_may_be_ones_own(history, tmp_path, command):
    """Twice the price of all is twice the cost."""
    prices = tmp_path / "prices.json"
    prices.write_text('{"per_thousand_requests": 0.0008, "per_machine_hour": 0.1632, "per_gigabyte_month": 0.046}')
    costs = []
    for more in ((), ("--prices", str(prices))):
        told = command("history", "report", history.path, "--out", tmp_path / "r", "--json", *more).json
        costs.append(told["contestants"][0]["dollarsADay"])
    assert costs[1] == pytest.approx(2 * costs[0])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["NOWHERE"], "is no history"),
        (["H", "--version", "9"], "versions 1 to 4 are"),
        (["H", "--a-day", "0"], "a_day is 0"),
        (["H", "--prices", "none.json"], "none.json cannot be read as prices"),
    ],
)
def test_what_is_wrong_is_one_line(history, tmp_path, command, arguments, said):
    """And exit code 2."""
    names = {"H": history.path, "NOWHERE": str(tmp_path / "nowhere")}
    given = [names.get(one, one) for one in arguments]
    assert said in command.fails("history", "report", *given, "--out", tmp_path / "out")
