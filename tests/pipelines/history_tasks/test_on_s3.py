"""A history on an object store, read by Spark's workers: the same rows, joins and past moments as on a disk."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import dtoss
from pipelines.as_of import as_of
from pipelines.history_frame import history_frame
from pipelines.history_joins import history_knn_join, history_range_join
from tests.dtoss.history.test_together import put_place_order
from tests.dtoss.history.worlds import SPHERE, new_home, put_batch, schema_of, table_of
from tests.object_store import object_store
from tests.pipelines.stores import objects_of


@pytest.fixture(scope="module")
def homes(tmp_path_factory):
    """The same history on an object store and on a disk: two batches, one with an order by place."""
    rng, schema = np.random.default_rng(2), schema_of(SPHERE, busy=pa.int8())
    with object_store() as bucket:
        made = [new_home(bucket.uri(keys=True)), new_home(tmp_path_factory.mktemp("s3") / "h")]
        n = 400
        for i in range(2):
            deleted, where = (rng.random(n) < 0.1).tolist(), rng.uniform(-1, 1, (n, 2))
            rows = table_of(
                schema, rng.integers(0, 30, n), rng.integers(0, 900, n), where, deleted, busy=rng.integers(0, 2, n)
            )
            for home in made:
                put_batch(home, rows, schema, str(i))
                if i:
                    put_place_order(home, rows, schema, 1, 0.0)
        yield [home.path for home in made]


def moments(*seconds):
    return [np.datetime64("2020-01-01", "us") + np.timedelta64(s, "s") for s in seconds]


def told(frame):
    return sorted(map(repr, frame.toArrow().to_pylist()))


def test_the_same_as_on_a_disk(spark, homes, tmp_path):
    queries = spark.createDataFrame(
        pa.table({"query_id": [1, 2], "lon": [0.0, 0.5], "lat": [0.0, 0.5], "t": moments(300, 600)})
    )
    frames = [told(history_frame(spark, home, between=["2020-01-01T00:05", "-"], where="busy = 1")) for home in homes]
    assert frames[0] == frames[1]
    ranges = [told(history_range_join(queries, home, 2e4, before=200, after=200, columns=["busy"])) for home in homes]
    assert ranges[0] == ranges[1]
    nearest = [told(history_knn_join(queries, home, 5, before=200, after=200)) for home in homes]
    assert nearest[0] == nearest[1]
    assert len(frames[0]) > 50
    assert len(ranges[0]) > 5
    assert len(nearest[0]) == 10
    for home, store in zip(homes, "ab", strict=True):
        as_of(None, home, "2020-01-01T00:10", str(tmp_path / store), partitions=2)
    assert objects_of(tmp_path / "a") == objects_of(tmp_path / "b")
    assert len(dtoss.open(str(tmp_path / "a"))) > 20
