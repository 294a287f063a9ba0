"""What docs/cycles.md shows works: each command, the cron line, the stream, S3, the metrics it names."""

from __future__ import annotations

import re
import shlex
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dtoss
from dtoss.snapshots.store import Store
from tests.object_store import object_store
from tests.pipelines.stores import objects_of

DOCUMENT = (Path(__file__).parents[3] / "docs" / "cycles.md").read_text(encoding="utf-8")


def blocks(kind, heading):
    """The blocks of code of a kind below a heading."""
    below = DOCUMENT.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    found = re.findall(rf"```{kind}\n(.*?)```", below, re.DOTALL)
    assert found, heading
    return found


def commands(kind, heading):
    return [line for block in blocks(kind, heading) for line in block.splitlines()]


def rows(first, count, minutes, gone=None):
    """A table of so many taxis, so many minutes ago; `gone` adds that column."""
    # now, not when the tests began: a run of an hour is older than what expires
    moment = datetime.now(UTC).replace(microsecond=0) - timedelta(minutes=minutes)
    rng = np.random.default_rng(first)
    table = {
        "id": np.arange(first, first + count),
        "lon": rng.uniform(-5, 5, count),
        "lat": rng.uniform(40, 45, count),
        "t": pa.array([moment] * count, pa.timestamp("us", "UTC")),
        "occupied": pa.array(rng.integers(0, 2, count), pa.int32()),
    }
    return pa.table(table | ({} if gone is None else {"gone": pa.array([gone] * count)}))


NAMES = ("fleet.parquet", "arriving", "store", "stream", "streamed", "checkpoint", "metrics.prom")
"""Files and folders of the document; the Java of these tests runs in another folder."""


@pytest.fixture
def ran(command):
    """A function that runs a command of ours, a line of the document, in this process."""

    def run(line):
        name, *arguments = (str(Path(word).absolute()) if word in NAMES else word for word in shlex.split(line))
        assert name == "dtoss"
        done = command(*arguments)
        assert done.code == 0, (line, done.err)
        return done

    return run


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder as the document has it, where we are."""
    pq.write_table(rows(0, 60, 8), tmp_path / "fleet.parquet")
    (tmp_path / "arriving").mkdir()
    (tmp_path / "stream").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_every_command_of_a_disk_runs(spark, place, ran):
    """In their order; the loop for one beat, the cron line by what stands behind its times, then the stream."""
    first, loop, *care = commands("sh", "By hand, and for ever")
    (cron,) = commands("cron", "By hand, and for ever")
    ran(first)
    pq.write_table(rows(50, 20, 1, gone=False), place / "arriving" / "a.parquet")
    ran(f"{loop} --cycles 1")
    assert sorted(objects_of("store")) == list(range(70))
    named = set(re.findall(r"`(dtoss_\w+)`", DOCUMENT.partition("## Metrics")[2]))
    written = (place / "metrics.prom").read_text()
    assert named
    # one that has labels has no line before there is a case
    said = {name.removesuffix("_total") for name in named}
    assert not [name for name in said if not re.search(rf"^# TYPE {name}(_total)? ", written, re.MULTILINE)]

    pq.write_table(rows(60, 5, 0, gone=True), place / "arriving" / "b.parquet")
    times = re.match(r"(\S+ ){5}", cron)
    assert times
    behind, _, output = cron[times.end() :].partition(" >> ")
    assert output == "cycles.log 2>&1"
    ran(behind)
    assert len(dtoss.open("store")) == 65
    read = Store("store").manifest()["ledger"]["files"]
    assert len(read) == 2

    for line in care:
        ran(line)
    assert len(dtoss.open("store")) == 70, "rolled back"
    assert "b.parquet" not in str(Store("store").manifest()["ledger"]["files"])
    ran(behind)
    assert len(dtoss.open("store")) == 65, "what came after that snapshot is read again"

    streamed = rows(100, 3, 0).to_pylist()
    lines = [str(row | {"t": row["t"].isoformat()}).replace("'", '"') for row in streamed]
    (place / "stream" / "a.json").write_text("\n".join(lines))
    (program,) = blocks("python", "A stream")
    program = program.replace('"store"', '"streamed"')
    exec(re.sub(r'"(\w+)"', lambda name: repr(str(place / name[1])) if name[1] in NAMES else name[0], program), {})
    assert sorted(objects_of("streamed")) == [100, 101, 102]


def test_the_commands_of_s3_run(place, ran):
    """On a service that speaks S3, on a loopback port; Spark's workers were started without keys."""
    pq.write_table(rows(50, 20, 1, gone=False), place / "arriving" / "a.parquet")
    with object_store() as bucket:
        uri = bucket.uri("taxis").replace("s3://", "s3://testing:testing@") + "&region=us-east-1"
        lines = [line.replace("s3://bucket/taxis", shlex.quote(uri)) for line in commands("sh", "On S3")]
        out = "".join(ran(line).out for line in lines)
        assert len(dtoss.open(uri)) == 20
    assert "20 updated" in out
