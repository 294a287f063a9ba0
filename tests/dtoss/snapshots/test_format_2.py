"""Stores of format 2 are still read: one that the version before left, and all kinds, written as it wrote them."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import dtoss
from dtoss.errors import StoreError
from dtoss.opening import open_index
from dtoss.snapshots.manifest_fields import hash_of
from dtoss.snapshots.partition_file import checksum, to_bytes
from dtoss.snapshots.store import FORMAT, Store
from dtoss.snapshots.xxh64 import xxh64
from tests.dtoss.snapshots.damaged_stores import stored
from tests.dtoss.snapshots.small_stores import as_before_commits

SAMPLE = Path(__file__).parents[2] / "samples" / "format-2.tar.gz"
SINCE_3 = ("time", "tombstones", "ledger", "clock", "policy", "cycle", "source")


@pytest.fixture
def sample(tmp_path):
    with tarfile.open(SAMPLE) as packed:
        packed.extractall(tmp_path, filter="data")
    return tmp_path


def as_format_2(path):
    """Write the current snapshot of a store as the version before did; return its path."""
    store = Store(str(path))
    manifest = store.manifest()
    home = Path(store.path) / "snapshots" / manifest["snapshot"]
    for entry in manifest["partitions"]:
        batch = pa.ipc.open_file((home / entry["file"]).read_bytes()).get_batch(0)
        data = to_bytes(
            batch.drop_columns([name for name in ("id_order", "id_filter", "t") if name in batch.schema.names])
        )
        (home / entry["file"]).unlink()
        entry |= {"bytes": data.size, "sha256": checksum(data), "xxh64": xxh64(data)}
        entry["file"] = f"partitions/{entry['number']:05d}-{entry['sha256'][:16]}.arrow"
        (home / entry["file"]).write_bytes(data)
    for name in SINCE_3:
        del manifest[name]
    manifest["bytes"] = sum(entry["bytes"] for entry in [*manifest["partitions"], manifest["borders"]])
    manifest["format"] = 2
    manifest["sha256"] = hash_of(manifest)
    (home / "manifest.json").write_text(json.dumps(manifest))
    as_before_commits(store)
    return path


def test_a_store_of_the_version_before(sample):
    """Its 60 rows, as they were made: ids, places, times among the attributes; all its files and its own hash hold."""
    index = open_index(str(sample), verify=True)
    assert Store(str(sample)).manifest()["format"] == 2 != FORMAT
    ids = [i * 37 % 101 - 20 for i in range(60)]
    assert sorted(index) == sorted(ids)
    for i, one in enumerate(ids):
        found = index[one]
        assert (found["rank_"], found["kind"]) == (i, ["cab", "bus", ""][i % 3] or None), found
        assert f"{found['t']:%Y-%m-%d %H:%M:%S}" == f"2026-01-0{1 + i % 9} 00:00:{i:02d}"
        assert index.knn([found["lon"], found["lat"]], 1).distance.tolist() == [0.0]
        assert len(index.neighbours(one)) >= 3
    assert all(one not in index for one in set(range(-30, 90)) - set(ids))
    assert index.parts[0].times is None
    total = sum(index.area(one) for one in ids if index.neighbours(one) is not None)
    assert total > 4 * np.pi * 0.99


@pytest.mark.parametrize("texts", [False, True])
def test_every_kind_is_read(tmp_path, texts):
    """Ids of numbers and of text, with empty partitions: the order of ids is made when a file is opened."""
    rng = np.random.default_rng(3)
    positions = rng.normal([10.0, 50.0], 0.3, (90, 2)).round(1)
    ids = np.array([f"n{i}" for i in range(90)], object) if texts else rng.permutation(90) * 10 - 400
    index = dtoss.build(ids, positions, partitions=7, reach=0.01)
    again = open_index(str(as_format_2(stored(index, tmp_path))), verify=True)
    for mine, other in zip(index.parts.all(), again.parts.all(), strict=True):
        assert mine.id_order.tolist() == other.id_order.tolist()
        assert mine.id_filter.tolist() == other.id_filter.tolist()
    for i, one in enumerate(ids):
        assert [again[one]["lon"], again[one]["lat"]] == positions[i].tolist()
    assert ("x" if texts else 7) not in again


def test_another_format_is_not(sample):
    """Neither an older nor a later one."""
    path = next(sample.glob("snapshots/*/manifest.json"))
    manifest = json.loads(path.read_text())
    for version in (1, 4, "2", True, None):
        path.write_text(json.dumps(manifest | {"format": version}))
        way = "install a newer one" if version == 4 else "rebuild it with this one"
        with pytest.raises(StoreError, match=rf"has format {version!r}, this dtoss reads 2 and 3: {way}"):
            open_index(str(sample))
