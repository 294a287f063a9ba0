"""The file of tombstones: the same ones give the same bytes, and a file that is damaged is named."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest

import dtoss
from dtoss.errors import StoreError
from dtoss.snapshots.manifest import write_tombstones
from dtoss.snapshots.manifest_fields import check_manifest
from dtoss.snapshots.partition_file import checksum, decode_tombstones, encode_tombstones, to_bytes
from dtoss.snapshots.store import Store
from dtoss.snapshots.xxh64 import xxh64
from tests.dtoss.snapshots.damaged_stores import stored

IDS = {
    "numbers": np.array([40, -7, 2**63 - 1, 0, -(2**63)]),
    "texts": pa.array(["b", "", "é", "a", "aé"], pa.large_string()),
    "one": np.array([3]),
    "none": np.empty(0, np.int64),
    "no texts": pa.array([], pa.large_string()),
}
TIMES = {
    "timestamp": pa.array([5, 4, 3, 2, 1], pa.timestamp("us", "UTC")),
    "number": pa.array([5.5, 4.0, 3.0, -2.0, 1.0]),
}


@pytest.mark.parametrize("times", TIMES.values(), ids=TIMES)
@pytest.mark.parametrize("ids", IDS.values(), ids=IDS)
def test_tombstones_come_back_in_the_order_of_ids(ids, times):
    times = times[: len(ids)]
    wanted = sorted(zip(ids.tolist(), times.to_pylist(), strict=True), key=lambda one: one[0])
    data = encode_tombstones(ids, times)
    batch = decode_tombstones(data, "a file")
    assert batch.schema.names == ["id", "t"]
    assert batch.column("t").type == times.type
    assert list(zip(batch.column("id").to_pylist(), batch.column("t").to_pylist(), strict=True)) == wanted
    back = pa.array(np.arange(len(ids))[::-1])
    turned = ids.take(back) if isinstance(ids, pa.Array) else np.ascontiguousarray(ids[::-1])
    assert encode_tombstones(turned, times.take(back)) == data


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"id": pa.array([1, 1]), "t": pa.array([1, 2])}, "ids do not ascend"),
        ({"id": pa.array(["b", "a"], pa.large_string()), "t": pa.array([1, 2])}, "ids do not ascend"),
        ({"id": pa.array([1, None]), "t": pa.array([1, 2])}, "1 ids and 0 times are missing"),
        ({"id": pa.array([1, 2]), "t": pa.array([1, None])}, "0 ids and 1 times are missing"),
        ({"id": pa.array([1.0]), "t": pa.array([1])}, "ids are double"),
        ({"id": pa.array([1]), "time": pa.array([1])}, "its columns are id, time"),
    ],
)
def test_what_is_wrong_is_said(columns, said):
    data = to_bytes(pa.record_batch(list(columns.values()), names=list(columns)))
    with pytest.raises(StoreError, match=rf"a file is no file of tombstones or is damaged \(.*{said}.*\); roll back"):
        decode_tombstones(data, "a file")
    with pytest.raises(StoreError, match="a file is no file of tombstones"):
        decode_tombstones(pa.py_buffer(b"no arrow"), "a file")


def test_a_store_knows_its_tombstones(tmp_path):
    """The entry has all that checks need; a file of another size is missed by a rollback."""
    index = dtoss.build(np.arange(9), np.random.default_rng(0).uniform(0, 9, (9, 2)))
    store = Store(stored(index, tmp_path / "store"))
    manifest = store.manifest()
    entry = write_tombstones(store, manifest["snapshot"], IDS["numbers"], TIMES["number"])
    path = tmp_path / "store" / "snapshots" / manifest["snapshot"] / entry["file"]
    data = path.read_bytes()
    assert entry == {
        "rows": 5, "since": None, "file": f"tombstones-{checksum(data)[:16]}.arrow", "bytes": len(data),
        "sha256": checksum(data), "xxh64": xxh64(data),
    }  # fmt: skip
    named = json.loads(json.dumps(manifest)) | {"tombstones": entry}
    check_manifest(named, manifest["snapshot"], "manifest.json")
    assert store.misses(manifest["snapshot"], named) is None
    path.write_bytes(data[:-1])
    assert f"{entry['file']} has {len(data) - 1} bytes, not {len(data)}" in store.misses(manifest["snapshot"], named)
