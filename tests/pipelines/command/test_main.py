"""The ``dtoss`` command: results on stdout, one-line errors on stderr, exit codes."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dtoss
from tests.dtoss.snapshots.damaged_stores import stored

ROOT = Path(__file__).parents[3]
N = 500
START = "import sys; from pipelines.command.main import main; main(sys.argv[1:])"


@pytest.fixture(scope="module")
def positions(tmp_path_factory):
    rng = np.random.default_rng(10)
    path = tmp_path_factory.mktemp("cli") / "positions.parquet"
    table = {"id": rng.permutation(N), "lon": rng.uniform(-5, 5, N), "lat": rng.uniform(-5, 5, N)}
    pq.write_table(pa.table(table | {"kind": np.where(table["id"] % 3, "bus", "taxi")}), path)
    return path


def index_of(positions, partitions):
    """An index of the positions, as the rebuild makes it."""
    table = pq.read_table(positions)
    places = np.stack([table["lon"].to_numpy(), table["lat"].to_numpy()], axis=1)
    columns = {"kind": table["kind"].to_pylist()}
    return dtoss.build(table["id"].to_numpy(), places, partitions=partitions, columns=columns)


@pytest.fixture(scope="module")
def store(positions):
    return stored(index_of(positions, 3), positions.with_name("store"))


def expected(index, hits):
    return [
        {"query_id": q, "id": i, "distance": d, "rank": r}
        for (q, i, d), r in zip(hits, hits.rank().tolist(), strict=True)
    ]


def parsed(text):
    rows = list(csv.DictReader(io.StringIO(text)))
    kinds = {"query_id": int, "id": int, "distance": float, "rank": int}
    return [{name: kinds[name](value) for name, value in row.items()} for row in rows]


def test_rebuild_says_what_it_did(command, positions, tmp_path):
    """A table, or JSON for programs; nothing on stderr."""
    code, out, err = command("rebuild", positions, "--store", tmp_path / "store", "--partitions", 3)
    assert (code, err) == (0, "")
    said = dict(line.split(maxsplit=1) for line in out.splitlines() if line.strip())
    assert "500" in out
    assert {"snapshot", "duplicates", "partitions", "cells", "replicas", "bytes", "seconds"} <= said.keys()
    code, out, err = command(
        "rebuild", positions, "--store", tmp_path / "store", "--objects-per-partition", 100, "--json"
    )
    facts = json.loads(out)
    assert (code, err) == (0, "")
    assert facts["counts"] == {"read": N, "kept": N, "duplicates": 0, "quarantined": {}}
    assert facts["partitions"] == 5
    assert sum(facts["objects_per_partition"]) == N
    assert dtoss.open(str(tmp_path / "store")).snapshot == facts["snapshot"]


def test_knn_and_range_print_csv_and_json(command, store):
    """The columns of the contract; numbers that read back as the same doubles."""
    index = dtoss.open(store)
    for arguments, hits in (
        (("knn", "-k", 8), index.knn([[1.5, -2.5]], 8)),
        (("knn", "-k", 8, "--max-distance", 3e4), index.knn([[1.5, -2.5]], 8, max_distance=3e4)),
        (("range", "--radius", 40000), index.range([[1.5, -2.5]], 40000.0)),
        (("range", "--radius", 0), index.range([[1.5, -2.5]], 0.0)),
    ):
        code, out, err = command(*arguments, "--store", store, "--at", 1.5, -2.5)
        assert (code, err) == (0, "")
        assert out.splitlines()[0] == "query_id,id,distance,rank"
        assert parsed(out) == expected(index, hits)
        code, out, err = command(*arguments, "--store", store, "--at", 1.5, -2.5, "--json")
        assert (code, err) == (0, "")
        assert json.loads(out) == {"snapshot": index.snapshot, "hits": expected(index, hits)}


@pytest.mark.parametrize("arguments", [("knn", "-k", 1), ("range", "--radius", 1e6)])
def test_queries_in_a_file_that_can_have_no_hits_are_counted(command, store, tmp_path, arguments):
    """A warning says how many and why; the others are answered."""
    (tmp_path / "q.csv").write_text("id,lon,lat\n1,0.5,0.5\n2,,0.5\n3,east,0.5\n4,0.5,90.5\n")
    out = tmp_path / "answers.csv"
    code, said, err = command(*arguments, "--store", store, "--queries", tmp_path / "q.csv", "--out", out)
    assert (code, said) == (0, "")
    rows, warning = err.splitlines()
    assert rows.endswith(f" rows in {out}")
    assert warning == "warning: of 4 queries, 2 without a position and 1 out of range have no hits"
    assert {row["query_id"] for row in parsed(out.read_text())} == {1}


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".jsonl"])
def test_a_file_of_queries(command, store, tmp_path, suffix):
    """A join by the suffix of --out, with the queries' own columns named; the same rows as in process."""
    index = dtoss.open(store)
    (tmp_path / "q.csv").write_text("who,east,north\n" + "".join(f"{i},{i / 4},{i / 5}\n" for i in range(20)))
    places = [(i / 4, i / 5) for i in range(20)]
    out = tmp_path / f"answers{suffix}"
    named = ("--id", "who", "--x", "east", "--y", "north", "--queries", tmp_path / "q.csv", "--out", out)
    asked = [(("knn", "-k", 3), index.knn(places, 3)), (("range", "--radius", 3e4), index.range(places, 3e4))]
    for arguments, hits in asked:
        code, said, err = command(*arguments, "--store", store, *named)
        assert (code, said) == (0, "")
        assert err == f"{len(hits):,} rows in {out}\n"
        if suffix == ".parquet":
            rows = pq.read_table(out).to_pylist()
        elif suffix == ".csv":
            rows = parsed(out.read_text())
        else:
            rows = [json.loads(line) for line in out.read_text().splitlines()]
        got = sorted(rows, key=lambda row: (row["query_id"], row["rank"]))
        assert [row["id"] for row in got] == hits.id.tolist()
        assert [row["query_id"] for row in got] == hits.query.tolist()
        assert [row["distance"] for row in got] == pytest.approx(hits.distance.tolist(), rel=1e-9, abs=1e-6)
    assert sorted(path.name for path in tmp_path.iterdir()) == [out.name, "q.csv"]


def test_info_and_rollback(command, positions, tmp_path):
    """The facts of the contract; checksums on request; the snapshot before."""
    place = tmp_path / "store"
    for count in (2, 4):
        stored(index_of(positions, count), place)
    code, out, _ = command("info", "--store", place, "--json")
    facts = json.loads(out)
    assert code == 0
    contract = {
        "snapshot", "created", "format", "objects", "sites", "partitions", "crs", "metric", "bounds", "parameters",
        "counts", "bytes", "timings",
    }  # fmt: skip
    assert contract <= facts.keys()
    assert (facts["objects"], facts["partitions"], facts["crs"], facts["metric"]) == (N, 4, "EPSG:4326", "sphere")
    files = place.glob(f"snapshots/{facts['snapshot']}/**/*.arrow")
    assert facts["bytes"] == sum(path.stat().st_size for path in files)
    code, out, _ = command("info", "--store", place, "--verify")
    assert code == 0
    assert "500 on 500 sites" in out
    assert "all checksums agree" in out
    code, out, _ = command("rollback", "--store", place)
    assert (code, out.endswith(f"is current, {facts['snapshot']} was\n")) == (0, True)
    assert json.loads(command("info", "--store", place, "--json")[1])["partitions"] == 2
    assert "no snapshot before" in command.fails("rollback", "--store", place)
    (file,) = place.glob(f"snapshots/{facts['snapshot']}/partitions/00003-*.arrow")
    file.write_bytes(bytes(100))
    assert file.name in command.fails("info", "--store", place, "--snapshot", facts["snapshot"], "--verify")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["knn", "--store", "STORE"], "no place is given: --at LON LAT"),
        (["knn", "--store", "STORE", "--at", "1", "95"], "lat in [-90, 90]"),
        (["knn", "--store", "STORE", "--at", "40", "-110"], "lon comes before lat"),
        (["knn", "--store", "STORE", "--at", "1", "2", "-k", "0"], "k is 0"),
        (["knn", "--store", "STORE", "--at", "1", "2", "-k", "many"], "'-k'"),
        (["knn", "--store", "STORE", "--at", "1", "2", "--columns", "speed"], "speed"),
        (["knn", "--store", "STORE", "--at", "1", "2", "--max-distance", "-5"], "max_distance"),
        (["knn", "--store", "STORE", "--at", "1", "2", "--snapshot", "x"], "no snapshot 'x'"),
        (["knn", "--store", "STORE", "--at", "1,2"], "write --at LON LAT: numbers with blanks between them"),
        (["knn", "--store", "STORE", "--at", "1,2", "-k", "3"], "write --at LON LAT: numbers with blanks between"),
        (["within", "--store", "STORE", "--box=1,2,3,4"], "write --box W S E N: numbers with blanks between them"),
        (["knn", "--at", "1", "2"], "--store"),
        (["knn", "--store", "STORE", "--queries", "q.csv"], "--queries needs --out FILE"),
        (["knn", "--store", "STORE", "--queries", "q.csv", "--out", "o.xls"], ".parquet, .csv or .jsonl"),
        (["knn", "--store", "STORE", "--queries", "q.csv", "--out", "o.csv", "--at", "1", "2"], "both given"),
        (["knn", "--store", "STORE", "--queries", "none.csv", "--out", "o.csv"], "nothing is at"),
        (["range", "--store", "STORE", "--at", "1", "2", "--radius", "-1"], "radius"),
        (["range", "--store", "STORE", "--at", "1", "2"], "--radius"),
        (["info", "--store", "nowhere"], "nowhere is not a store, or holds no snapshot yet: dtoss rebuild"),
        (["rebuild", "none.csv", "--store", "s"], "nothing is at"),
        (["rebuild", "POSITIONS", "--store", "s", "--crs", "EPSG:0"], "EPSG:0"),
        (["rebuild", "POSITIONS", "--store", "s", "--partitions", "0"], "partitions is 0"),
        (["rebuild", "POSITIONS", "--store", "s", "--max-bad", "7"], "--max-bad is"),
        (["rebuild", "POSITIONS", "--store", "s", "--pivots", "some"], "some"),
        (["rebuild", "POSITIONS"], "--store"),
        (["rebuild", "--store", "s"], "--updates DIR"),
        (["rebuilt"], "rebuilt"),
        (["info", "--stor", "s"], "--stor"),
    ],
)
def test_a_users_mistake_is_one_line_and_code_2(command, store, positions, tmp_path, monkeypatch, arguments, words):
    """What is wrong and what to do; nothing on stdout, nothing written."""
    monkeypatch.chdir(tmp_path)
    names = {"STORE": store, "POSITIONS": str(positions)}
    assert words in command.fails(*[names.get(argument, argument) for argument in arguments])
    assert not list(tmp_path.rglob("manifest.json"))


def test_a_column_that_is_not_there_is_one_line(command, positions, tmp_path):
    """As all mistakes above; it is seen once Spark looks at the files."""
    said = command.fails("rebuild", positions, "--store", tmp_path / "s", "--x", "east")
    assert "no column 'east' (--x NAME); the columns are id," in said
    assert not (tmp_path / "s").exists()


def test_bad_rows_fail_or_are_told(command, tmp_path):
    """Counts by reason, the limit and the way out; within the limit a line of the table; a warning about (0, 0)."""
    lines = [f"{i},{i / 10},0" for i in range(18)] + ["18,,0", "19,0,100"]
    (tmp_path / "p.csv").write_text("id,lon,lat\n" + "\n".join(lines))
    base = ("rebuild", tmp_path / "p.csv", "--store", tmp_path / "store")
    code, out, err = command(*base, "--max-bad", 0.09)
    assert (code, out) == (2, "")
    assert "2 of 20 rows are bad (1 no position; 1 latitude out of range), more than --max-bad 9% allows" in err
    code, out, err = command(*base)
    assert code == 0
    assert "quarantined" in out
    assert "1 latitude out of range" in out
    assert err.startswith("warning: 1 of 18 rows are at (0, 0)")


def test_a_failure_inside_is_code_1(command, positions, tmp_path, monkeypatch):
    """Not the user's mistake: one line that says what happened and how to see where."""
    import pipelines.rebuild

    def fail(*arguments):
        raise KeyError("surprise")

    monkeypatch.setattr(pipelines.rebuild, "survey", fail)
    code, out, err = command("rebuild", positions, "--store", tmp_path / "store")
    assert (code, out) == (1, "")
    assert err == "error: KeyError: 'surprise' (DTOSS_DEBUG=1 shows where)\n"


def test_version_and_help(command):
    """Both on stdout, code 0; no arguments mean help."""
    assert command("--version") == (0, f"dtoss {dtoss.__version__}\n", "")
    code, out, err = command("--help")
    assert (code, err) == (0, "")
    for name in ("rebuild", "knn", "range", "info", "rollback"):
        assert f"  {name} " in out
        assert command(name, "--help")[0] == 0
    assert command()[:2] == (0, out)


def test_a_reader_that_goes_away_is_no_failure(store):
    """``dtoss range ... | head -1``."""
    arguments = [sys.executable, "-c", START, "range", "--store", store, "--at", "0", "0", "--radius", "1e7"]
    with subprocess.Popen(arguments, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "query_id,id,distance,rank\n"
        process.stdout.close()
        assert process.wait(timeout=120) == 0
        assert process.stderr.read() == ""


@pytest.mark.parametrize(
    "where",
    [
        pytest.param((), id="local"),
        pytest.param(
            ("--master", "local[1]", "--driver-memory", "1g"),
            id="spark",
            marks=pytest.mark.deep("starts Java; in one process it is always run"),
        ),
    ],
)
def test_a_rebuild_in_a_process_of_its_own(positions, tmp_path, where):
    """As users run it: quiet on stderr, the table on stdout, nothing left in the directory."""
    (tmp_path / "here").mkdir()
    options = ["--store", str(tmp_path / "store"), "--partitions", "2", *where]
    done = subprocess.run(
        [sys.executable, "-c", START, "rebuild", str(positions), *options], cwd=tmp_path / "here",
        env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert "500 on 500 sites" in done.stdout
    assert not list((tmp_path / "here").iterdir())
