"""Damaged files under commands and joins: checksums are compared where an index serves others, and where one asks."""

from __future__ import annotations

import subprocess
import sys

import pytest

from dtoss.errors import StoreError
from dtoss.opening import open_index
from pipelines.join import knn_join, range_join
from tests.long.damages import another_id, made_world


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    return made_world(tmp_path_factory.mktemp("damage"), None, False, 1)


@pytest.fixture
def inside(world):
    """A place in the partition whose file is damaged."""
    index = open_index(str(world.home))
    return index.space.positions(index.partitioning.pivots[1][None])[0].tolist()


def test_commands_compare_checksums_where_asked(world, inside, command, tmp_path):
    """Of what they read, or of all files; an export of what it reads in any case."""
    place = ["--store", world.home, "--at", *inside]
    with another_id(world) as path:
        for ask in (["knn", *place], ["range", *place, "--radius", 1000], ["knn", *place, "--verify", "no"]):
            ran = command(*ask)
            assert (ran.code, ran.err) == (0, "")
        for ask in (
            ["knn", *place, "--verify", "touch"],
            ["range", *place, "--radius", 1000, "--verify", "touch"],
            ["within", "--store", world.home, "--box", -180, -90, 180, 90, "--verify", "touch"],
            ["knn", "--store", world.home, "--at", -170, -50, "--verify", "all"],
            ["export", "--store", world.home, "--what", "objects", "--out", tmp_path / "out.parquet"],
            ["info", "--store", world.home, "--verify"],
        ):
            assert f"{path.name} does not have the checksum" in command.fails(*ask)
        assert not (tmp_path / "out.parquet").exists()


def test_the_workers_of_a_join_compare_checksums(spark, world, inside):
    """By default; asked not to, they answer from what is there."""
    frame = spark.createDataFrame([(1, *inside)], "query_id long, lon double, lat double")
    wanted = int(open_index(str(world.home)).count(inside, 30_000.0)[0])
    assert wanted > 10
    with another_id(world) as path:
        for joined in (knn_join(frame, str(world.home), 3), range_join(frame, str(world.home), 30_000.0, how="left")):
            with pytest.raises(Exception, match=rf"StoreError: .*{path.name} does not have the checksum"):
                joined.collect()
        with pytest.raises(StoreError, match=path.name):
            knn_join(frame, str(world.home), 3, where="speed > 1", verify=True)
        assert len(range_join(frame, str(world.home), 30_000.0, verify=False).collect()) == wanted
    assert len(range_join(frame, str(world.home), 30_000.0).collect()) == wanted


def test_a_question_needs_no_pandas(world, inside):
    """Whose import takes longer than the answer; Arrow imports it to make arrays of numbers."""
    code = (
        "import sys, dtoss; index = dtoss.open(sys.argv[1], verify='touch'); "
        "assert len(index.knn([float(x) for x in sys.argv[2:]], 3)) == 3; assert 'pandas' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code, str(world.home), *map(str, inside)], check=True)
