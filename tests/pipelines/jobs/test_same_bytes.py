"""The same rows and options give the same snapshot, byte for byte, apart from its name and times."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from dtoss.rows.input_columns import Columns
from dtoss.snapshots.snapshots_table import verify_store
from dtoss.snapshots.store import Store
from pipelines.rebuild import rebuild
from pipelines.rows.read_files import read_positions
from tests.pipelines.jobs.cases import CASES, N, plain
from tests.pipelines.stores import made, snapshot_bytes

ROOT = Path(__file__).parents[3]


DEEP = pytest.mark.deep("both splits of each case; each in eleven pieces is in test_in_process.py")


@pytest.mark.parametrize("case", [pytest.param(case, marks=[] if case == "updates" else DEEP) for case in CASES])
def test_order_and_splits_of_the_input_change_nothing(spark, tmp_path, case):
    """Shuffled in one piece, and shuffled over eleven: files and manifest."""
    make, options = CASES[case]
    table = make()
    shuffled = table.take(pa.array(np.random.default_rng(9).permutation(len(table))))
    bytes_of = []
    for name, frame in (
        ("a", spark.createDataFrame(table).coalesce(1)),
        ("b", spark.createDataFrame(shuffled).repartition(11)),
    ):
        rebuild(frame, str(tmp_path / name), **options)
        bytes_of.append(snapshot_bytes(tmp_path / name))
    assert bytes_of[0] == bytes_of[1]
    assert len([file for file in bytes_of[0] if file.startswith("partitions/")]) == options["partitions"]
    assert verify_store(Store(str(tmp_path / "a"))).damaged == []


def test_one_file_or_many(spark, tmp_path):
    """Rows in a folder of nine files are those of one table."""
    table = plain()
    for i in range(9):
        pq.write_table(table.take(pa.array(np.arange(i, N, 9))), tmp_path / f"{i}.parquet")
    rebuild(read_positions(spark, [str(tmp_path)], Columns()), str(tmp_path / "_store"), partitions=5)
    good = table.filter(pc.is_finite(table["lon"]))
    found, wanted = snapshot_bytes(tmp_path / "_store"), snapshot_bytes(made(good, partitions=5))
    assert [found[file] for file in wanted if file != "manifest.json"] == [
        data for file, data in wanted.items() if file != "manifest.json"
    ]


ELSEWHERE = """
import sys
from pipelines.rebuild import rebuild
from pipelines.spark.session import spark_session
from tests.pipelines.jobs.cases import CASES

spark = spark_session("local[1]", driver_memory="1g")
for case in sys.argv[2:]:
    make, options = CASES[case]
    rebuild(spark.createDataFrame(make()), f"{sys.argv[1]}/{case}", **options)
"""


@pytest.mark.deep("a Java of its own; that tasks write what this process writes is in test_in_process.py")
def test_another_process_with_one_core_writes_the_same(engine, tmp_path):
    """One core there, two here; hashes of Python strings, which differ between processes, play no part."""
    cases = ["plain", "string ids", "updates"]
    subprocess.run(
        [sys.executable, "-c", ELSEWHERE, str(tmp_path / "there"), *cases], cwd=ROOT, check=True, timeout=600
    )
    for case in cases:
        make, options = CASES[case]
        rebuild(engine.createDataFrame(make()), str(tmp_path / "here" / case), **options)
        assert snapshot_bytes(tmp_path / "there" / case) == snapshot_bytes(tmp_path / "here" / case)
