"""Rows of files and of stdin that are told to a server: what it takes, what it is told of bad ones, what goes wrong."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dtoss.serve.auth.admission import Doors
from tests.dtoss.serve.served import Intake, running, town

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
ROW = {
    "id": 7, "lon": 10.5, "lat": 50.0, "t": "2026-01-01T12:00:00Z", "speed": 3, "share": 0.5, "name": "é",
    "seen": "2026-01-01T12:00:00Z", "free": True,
}  # fmt: skip
REST = {name: ROW[name] for name in [*ROW][4:]}
TAKEN = ROW | {"t": NOW, "seen": NOW, "deleted": False}


@pytest.fixture(scope="module")
def index():
    return town(objects=50)


@pytest.fixture
def server(index):
    with running(index, allow_positions=True, intake=Intake()) as found:
        found.url = "http://{}:{}".format(*found.at)
        yield found


def lines(*rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


def csv(*rows):
    said = [[str(value).lower() if value is True else str(value) for value in row.values()] for row in rows]
    return "\n".join(",".join(row) for row in [[*rows[0]], *said]) + "\n"


def test_files_of_any_kind_and_stdin(server, command, tmp_path):
    (tmp_path / "a.jsonl").write_text(lines(ROW, ROW))
    (tmp_path / "b.csv").write_text(csv(ROW))
    pq.write_table(pa.Table.from_pylist([{**TAKEN}]).drop_columns(["deleted"]), tmp_path / "c.parquet")
    for file, count in (("a.jsonl", 2), ("b.csv", 1), ("c.parquet", 1)):
        ran = command.works("put", "--to", server.url, tmp_path / file, "--json")
        assert (ran.json["taken"], ran.json["bad"], ran.json["reasons"]) == (count, 0, {}), file
    assert command.works("put", "--to", server.url, stdin=lines(ROW)).out == "1 rows up to 5\n"
    assert command.works("put", "--to", server.url, "-", stdin=csv(ROW)).out == "1 rows up to 6\n"
    assert server.state.intake.rows == [TAKEN] * 6


def test_columns_are_named_as_those_of_inputs(server, command):
    row = {
        "vehicle": 7,
        "east": 10.5,
        "north": 50.0,
        "when": ROW["t"],
        **{n: ROW[n] for n in [*ROW][4:]},
        "gone": False,
    }
    names = ("--id", "vehicle", "--x", "east", "--y", "north", "--time", "when", "--deleted", "gone")
    gone = {**dict.fromkeys(row), "vehicle": 8, "when": ROW["t"], "gone": True}
    command.works("put", "--to", server.url, *names, stdin=lines(row, gone))
    nobody = {**dict.fromkeys(TAKEN), "id": 8, "t": NOW, "deleted": True}
    assert server.state.intake.rows == [TAKEN, nobody]


def test_bad_rows_are_told_by_their_number(server, command):
    """Those that are bad by themselves, and those that the server refuses."""
    rows = [ROW, ROW | {"id": None}, ROW | {"lon": 190}, ROW | {"t": "9000-01-01"}, ROW]
    ran = command.works("put", "--to", server.url, stdin=lines(*rows))
    assert ran.out == "2 rows up to 2 (3 bad)\n"
    assert ran.err.splitlines() == [
        "bad: row 2: no id", "bad: row 3: longitude out of range", "bad: row 4: time is ahead of now",
    ]  # fmt: skip
    ran = command.works("put", "--to", server.url, "--json", stdin=lines(ROW, *[ROW | {"lat": 91}] * 150))
    assert (ran.json["taken"], ran.json["bad"], sum(ran.json["reasons"].values())) == (1, 150, 150)
    assert len(ran.err.splitlines()) == 20


def test_what_a_user_gets_wrong_is_a_line(server, index, command, tmp_path, monkeypatch):
    (tmp_path / "a.jsonl").write_text(lines(ROW | {"lat": 91}))
    (tmp_path / "b.jsonl").write_text(lines({"id": 1, "lon": 2, "lat": 3}))
    ran = command("put", "--to", server.url, tmp_path / "a.jsonl")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.endswith("error: none of 1 rows could be used: latitude out of range (1)\n")
    assert "--time" in command.fails("put", "--to", server.url, tmp_path / "b.jsonl")
    assert "- is all of stdin" in command.fails("put", "--to", server.url, tmp_path / "a.jsonl", "-")
    assert "no column 'nobody'" in command.fails("put", "--to", server.url, tmp_path / "a.jsonl", "--id", "nobody")
    (tmp_path / "tokens").write_text("gate g1 positions\n")
    doors = Doors(str(tmp_path / "tokens"))
    with running(index, allow_positions=True, intake=Intake(), doors=doors) as closed:
        monkeypatch.setenv("DTOSS_TOKEN", "g1")
        command.works("put", "--to", "http://{}:{}".format(*closed.at), stdin=lines(ROW))
