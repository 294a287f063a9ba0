"""The past as a stream: which rows come when, by whom they are seen, and how it ends."""

import os
import re
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from datasets.replay import main, microseconds, pieces, read_tables
from datasets.tables.command import BadInput

ROOT = Path(__file__).parents[2]
HOUR = 3_600_000_000


def rows_of(n=400, seed=0):
    rng = np.random.default_rng(seed)
    t = 1_211_000_000_000_000 + rng.integers(0, 3 * HOUR, n)
    times = pa.array(t).cast(pa.timestamp("us", "UTC"))
    return pa.table({"id": np.arange(n), "t": times, "lon": rng.random(n), "lat": rng.random(n)})


def replayed(folder):
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.integers(-10_000, 50_000), max_size=40),
    st.sampled_from([1000.0, 1500.0, 7_000.0, 1e9]),
    st.sampled_from([0.0, 0.4, 1.0]),
    st.sampled_from([0.0, 900.0, 20_000.0]),
    st.integers(0, 3),
)
def test_each_row_comes_once_at_its_time_or_so_much_later(t, span, share, by, seed):
    t = np.array(t, np.int64)
    found = list(pieces(t, span, share, by, seed))
    assert sorted(row for piece in found for row in piece.rows.tolist()) == list(range(len(t)))
    assert [piece.number for piece in found] == sorted({piece.number for piece in found})
    for piece in found:
        since = t[piece.rows] - t.min()
        assert (since < (piece.number + 1) * span).all()
        assert (since + by >= piece.number * span).all()
        on_time = since // span == piece.number
        assert (~on_time).sum() <= piece.late
        if share == 0:
            assert on_time.all()
            assert (np.diff(since) >= 0).all()
    again = list(pieces(t, span, share, by, seed))
    assert [piece.rows.tolist() for piece in again] == [piece.rows.tolist() for piece in found]


def test_the_share_and_the_delay_are_what_was_asked():
    t = np.arange(20_000) * 1_000_000
    found = list(pieces(t, 60e6, 0.1, 600e6, seed=1))
    late = sum(piece.late for piece in found)
    assert 1_800 < late < 2_200
    came = np.concatenate([np.full(len(piece.rows), piece.number) for piece in found])
    rows = np.concatenate([piece.rows for piece in found])
    behind = came - t[rows] // 60e6
    assert behind.max() == 10
    assert 3 < behind[behind > 0].mean() < 7
    other = np.concatenate([piece.rows for piece in pieces(t, 60e6, 0.1, 600e6, seed=2)])
    assert other.tolist() != rows.tolist()


def test_two_runs_give_the_same_files_and_each_row_once(tmp_path, capsys):
    table = rows_of()
    pq.write_table(table.slice(0, 150), tmp_path / "b.parquet")
    pa_csv.write_csv(table.slice(150), tmp_path / "a.csv")
    files = [str(tmp_path / name) for name in ("b.parquet", "a.csv")]
    kept = (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM))
    try:
        for name in ("one", "two"):
            main(files, tmp_path / name, 360_000.0, "5ms", "25%", "60min", 3, "t")
    finally:
        signal.signal(signal.SIGINT, kept[0])
        signal.signal(signal.SIGTERM, kept[1])
    one, two = replayed(tmp_path / "one"), replayed(tmp_path / "two")
    assert one == two
    assert all(re.fullmatch(r"replay-\d{8}\.parquet", name) for name in one)
    said = capsys.readouterr().err.splitlines()[-1]
    assert re.fullmatch(rf"replay: 400 rows, \d+ of them late, in {len(one)} files -> .*two", said)
    together = pa.concat_tables([pq.read_table(tmp_path / "one" / name) for name in one])
    assert together.sort_by("id").cast(table.schema).equals(table)


def test_times_of_all_kinds_and_rows_without_one(tmp_path):
    moments = [datetime(2008, 5, 17, 10, tzinfo=UTC), None]
    at = int(moments[0].timestamp() * 1e6)
    for kind in (pa.timestamp("us", "UTC"), pa.timestamp("ns", "Asia/Shanghai"), pa.timestamp("s")):
        column = pa.array([at // 10**6, None]).cast(pa.timestamp("s")).cast(pa.timestamp("s", kind.tz)).cast(kind)
        t, there = microseconds(pa.table({"t": column}), "t")
        assert t.tolist() == [at, 0]
        assert there.tolist() == [True, False]
    for column in ([at / 1e6, None], [float("nan"), at / 1e6], [1e300, at / 1e6], pa.array([at // 10**6, None])):
        t, there = microseconds(pa.table({"t": column}), "t")
        assert sorted(t.tolist()) == [0, at]
        assert there.sum() == 1
    with pytest.raises(BadInput, match="there is no column 'when' of times, but t: name it with --time"):
        microseconds(pa.table({"t": [1]}), "when")
    with pytest.raises(BadInput, match="column 't' is of type string"):
        microseconds(pa.table({"t": ["yesterday"]}), "t")
    (tmp_path / "a.jsonl").write_text('{"t": 1.5, "lon": 2}\n{"t": null, "lon": 3}\n')
    assert read_tables([tmp_path / "a.jsonl"]).num_rows == 2


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--speed", "0"), "the speed is 0"),
        (("--every", "0s"), "a file comes every 0 s"),
        (("--every", "soon"), "'soon' is no duration"),
        (("--late-share", "2"), "2"),
        (("--seed", "-1"), "seed is -1"),
        (("--time", "when"), "there is no column 'when'"),
        (("--speed", "0.0001"), "would span 0.0002 s"),
    ],
)
def test_what_cannot_be_is_one_line(tmp_path, dataset, options, says):
    pq.write_table(rows_of(3), tmp_path / "a.parquet")
    said = dataset("replay", *replay_of(tmp_path), *options, code=2)
    assert said.startswith("error: ")
    assert says in said
    assert said.count("\n") == 1


def test_files_that_cannot_be_read_or_do_not_go_together(tmp_path):
    (tmp_path / "a.parquet").write_text("no parquet")
    with pytest.raises(BadInput, match=r"a\.parquet: "):
        read_tables([tmp_path / "a.parquet"])
    (tmp_path / "a.txt").write_text("1")
    with pytest.raises(BadInput, match=r"a\.txt is none of \.parquet"):
        read_tables([tmp_path / "a.txt"])
    (tmp_path / "a.csv").write_text("t,lon\n1,2\n")
    (tmp_path / "b.csv").write_text("t,lon\nyesterday,2\n")
    with pytest.raises(BadInput, match="do not go together"):
        read_tables([tmp_path / "a.csv", tmp_path / "b.csv"])


def replay_of(folder):
    """The words of a replay of a file in a folder."""
    return [str(folder / "a.parquet"), "--to", str(folder / "to"), "--speed", "3600"]


def started(folder, *options):
    command = [sys.executable, "-W", "error", "-m", "datasets.replay", *replay_of(folder), *options]
    return subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_leaves_whole_files_only(tmp_path, dataset, number):
    pq.write_table(rows_of(), tmp_path / "a.parquet")
    process = started(tmp_path, "--every", "50ms")
    try:
        ends = time.monotonic() + 120
        while not list((tmp_path / "to").glob("*.parquet")):
            assert time.monotonic() < ends
            time.sleep(0.02)
        os.kill(process.pid, number)
        said = process.communicate(timeout=120)[1]
    finally:
        process.kill()
    assert process.returncode == 128 + number
    assert said == "replay: interrupted; what came so far stays, and each file is whole\n"
    there = list((tmp_path / "to").iterdir())
    assert there
    assert 0 < sum(pq.read_table(path).num_rows for path in there) < 400
    again = dataset("replay", *replay_of(tmp_path), code=2)
    assert again == f"error: --to {tmp_path}/to holds files of an earlier replay: remove them, or name another folder\n"
