"""Which engine carries out a command, and what is said of it."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.command.terminal.output import IN_MEMORY, Engine, expected_bytes
from pipelines.rows.inputs import look
from tests.pipelines.command.processes import commands_without


@pytest.fixture
def inputs(tmp_path):
    pq.write_table(pa.table({"id": range(9), "lon": [0.0] * 9, "lat": [0.0] * 9}), tmp_path / "a.parquet")
    return look([str(tmp_path / "a.parquet")])


def test_small_files_need_no_spark(inputs, monkeypatch):
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    assert Engine().why_spark(inputs, None) is None
    assert Engine("local", "local[2]").why_spark(inputs, "it") is None


@pytest.mark.parametrize(
    ("engine", "master", "memory"), [("spark", None, None), ("auto", "x", None), ("auto", None, "1g")]
)
def test_who_says_so_gets_spark_without_a_word(inputs, engine, master, memory):
    assert Engine(engine, master, memory).why_spark(inputs, None) == ""


def test_spark_submit_is_asked_for_spark(inputs, monkeypatch):
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    assert Engine().why_spark(inputs, None) == ""


def test_what_this_process_cannot_do_is_said(inputs, monkeypatch):
    """Files that it does not reach, rows for which it has no memory."""
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    assert Engine().why_spark(inputs, "joins are its work") == "joins are its work"
    few = expected_bytes(inputs)
    assert few == IN_MEMORY["parquet"] * sum(place[0].get_file_info(place[1]).size for place in inputs.places)
    monkeypatch.setenv("DTOSS_MEMORY", "1k")
    assert "the rows take some" in Engine().why_spark(inputs, None)
    assert Engine().why_spark(type(inputs)(paths=("hdfs://a",), kind="csv"), None).startswith("hdfs")


def test_a_rebuild_loads_nothing_of_spark(tmp_path):
    """Nor of what would take a sixth of the time of a small file; of text and of Parquet."""
    lines = "1,8.5,47.4,2026-01-02T03:04:05.25Z,a\n2,8.6,47.4,2026-01-02 03:04:05,\n"
    (tmp_path / "a.csv").write_text(f"id,lon,lat,time,name\n{lines}")
    rows = {"id": [1, 2], "lon": [8.5, 8.6], "lat": [47.4, 47.4], "t": [10, 20]}
    pq.write_table(pa.table(rows), tmp_path / "b.parquet")
    unwanted = ("pyspark", "py4j", "pandas", "pyproj", "sqlglot", "matplotlib")
    commands = [
        ("rebuild", tmp_path / "a.csv", "--time", "time", "--store", tmp_path / "s"),
        ("rebuild", tmp_path / "b.parquet", "--store", tmp_path / "t"),
    ]
    assert [ran.code for ran in commands_without(unwanted, *commands, forbidden=True)] == [0, 0]
