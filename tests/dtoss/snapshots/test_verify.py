"""What `dtoss verify` finds: nothing in stores that are whole, and each thing that is wrong, by its file."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import dtoss
from dtoss.errors import StoreError
from dtoss.partition import Graph
from dtoss.snapshots.manifest_fields import hash_of
from dtoss.snapshots.snapshots_table import verify_store
from dtoss.snapshots.store import Store
from tests.dtoss.snapshots.damaged_stores import stored
from tests.dtoss.snapshots.flips import made_store, silent_flips
from tests.dtoss.snapshots.test_format_2 import as_format_2, sample  # noqa: F401
from tests.pipelines.stores import listing

COUNT = 160


def index_of(texts=False, partitions=3, count=COUNT, **options):
    """Several objects on some sites, replicas, attributes with nulls and NaN; ids that are negative or empty."""
    rng = np.random.default_rng(5)
    positions = rng.normal([10.0, 50.0], 0.3, (count, 2)).round(2)
    numbers = rng.permutation(count) - count // 2
    ids = np.array([f"é{i}"[: 0 if i == 0 else None] for i in numbers], object) if texts else numbers
    speed = pa.array([None if i % 5 == 0 else np.nan if i % 7 == 0 else i / 3 for i in range(count)])
    tags = pa.array([[i, None] if i % 3 else None for i in range(count)])
    return dtoss.build(ids, positions, columns={"speed": speed, "tags": tags}, partitions=partitions, **options)


def times_of(ids):
    return pa.array([len(str(one)) for one in ids.tolist()], pa.int64())


@pytest.mark.parametrize("partitions", [1, 2, 7, 64])
@pytest.mark.parametrize("texts", [False, True])
@pytest.mark.parametrize("plane", [False, True])
def test_nothing_is_wrong_with_a_whole_store(tmp_path, partitions, texts, plane):
    """With empty partitions, of one object, and of none; format 2 too."""
    gone = pa.array(["gone"], pa.large_string()) if texts else np.array([10**9])
    options = {"metric": "plane", "crs": "none"} if plane else {}
    for count in (COUNT, 1, 0) if partitions == 7 else (COUNT,):
        path = tmp_path / str(count)
        index = index_of(texts and count > 0, partitions, count, **options)
        stored(index, path, times=times_of, tombstones=(gone, pa.array([3])) if count else None)
        found = verify_store(Store(str(path)))
        assert found.damaged == []
        files = len(index.parts) + (2 if count else 1)
        assert (len(found.held["snapshots"]), found.commits, found.files, found.held["objects"]) == (1, 1, files, count)
        assert found.bytes == sum(file.stat().st_size for file in path.rglob("*.arrow"))
    shutil.rmtree(path)
    assert verify_store(Store(str(as_format_2(stored(index_of(texts, partitions), path))))).damaged == []


def test_a_store_of_the_version_before(sample):  # noqa: F811
    """It has no commits; a file that was changed is found."""
    store = Store(str(sample))
    assert verify_store(store).as_json() == {
        "snapshots": [store.current()], "commits": 0, "files": 3, "bytes": 24374, "objects": 60, "damaged": [],
        "unread": [],
    }  # fmt: skip
    path = next(sample.glob("snapshots/*/partitions/00001*"))
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    assert [path.name in line for line in verify_store(store).damaged] == [True]


def changed(one, **arrays):
    return lambda partition: replace(partition, **{k: v(partition) for k, v in arrays.items()}) if (
        partition.number == one
    ) else partition  # fmt: skip


def put(array, at, value):
    """A copy of an array with another value."""
    fresh = array.copy()
    fresh[at] = value
    return fresh


def without_an_end(partition):
    """The graph of a partition in which the first site's first neighbour is another site."""
    near = partition.graph.neighbours
    last = partition.graph.first[1]
    other = next(i for i in range(1, len(partition.sites)) if i not in near[:last])
    return Graph(partition.graph.first, put(near, 0, other))


def exchanged_ids(partition):
    """Ids of two owned objects of neighbouring sites exchanged, as the order has them."""
    return put(partition.ids, [0, 1], partition.ids[[1, 0]])


CHANGES = {
    "the filter is not that of the ids": changed(1, id_filter=lambda p: put(p.id_filter, 3, 0)),
    "sites are not the vectors of the positions": changed(1, positions=lambda p: put(p.positions, (0, 0), 9.87)),
    "neighbours of site 0 do not have it as a neighbour": changed(1, graph=without_an_end),
    "replicas are said to be of partitions in whose regions they do not lie": changed(
        0, replica_home=lambda p: np.where(p.replica_home == 1, 2, 1).astype(np.int32)
    ),
    "a replica is said to be of the partition itself": changed(0, replica_home=lambda p: put(p.replica_home, 0, 0)),
    "replicas of partition 1: their times are others": changed(
        0, times=lambda p: pa.array(put(p.times.to_numpy(), slice(p.owned_objects, None), 99))
    ),
    "replicas of partition 1: their column 'speed' are others": changed(
        0, attributes=lambda p: p.attributes | {"speed": pa.array([1.0] * len(p.positions))}
    ),
    "replicas of partition 1: their ids are others": changed(
        0, ids=lambda p: np.concatenate([p.ids[: p.owned_objects], p.ids[p.owned_objects :] + 10_000])
    ),
}


@pytest.mark.parametrize("said", CHANGES)
def test_what_checksums_cannot_tell(tmp_path, said):
    """A file that was written wrong, whose checksum is right; the structure of a file is another test's."""
    number = 0 if "replica" in said else 1
    store = Store(stored(index_of(), tmp_path / "store", times=times_of, change=CHANGES[said]))
    file = store.manifest()["partitions"][number]["file"]
    found = verify_store(store).damaged
    assert any(file in line and said in line for line in found), found


def test_an_id_in_two_partitions(tmp_path):
    """Both are named: the file of one, and the number of the other."""
    index = index_of()
    parts = index.parts.all()
    least = [int(part.id_order[0]) for part in parts]
    taken = int(parts[0].ids[least[0]])
    change = changed(1, ids=lambda p: put(p.ids, least[1], taken))
    if parts[1].ids[least[1]] < taken:
        change = changed(0, ids=lambda p: put(p.ids, least[0], int(parts[1].ids[least[1]])))
    store = Store(stored(index, tmp_path / "store", times=times_of, change=change))
    found = verify_store(store).damaged
    files = [entry["file"] for entry in store.manifest()["partitions"]]
    assert any(files[1] in line and "1 ids stand twice" in line and "in partition 0 too" in line for line in found)


def with_manifest(store, change):
    """Change the manifest of a store without commits."""
    path = Path(store.path) / "snapshots" / store.current() / "manifest.json"
    manifest = json.loads(path.read_text())
    change(manifest)
    path.write_text(json.dumps(manifest | {"sha256": hash_of(manifest)}))
    for commit in [*Path(store.path).glob("commits/*"), Path(store.path) / "CURRENT"]:
        commit.unlink()
    (Path(store.path) / "CURRENT").write_text(path.parent.name)
    return Store(store.path)


def test_objects_that_a_partition_does_not_know(tmp_path):
    """The manifest says a greater lambda than the partitions were made with."""
    store = Store(stored(index_of(reach=1e-4), tmp_path / "store"))
    assert verify_store(store).damaged == []
    store = with_manifest(store, lambda m: m.update(reach=[2e-3] * 3))
    found = verify_store(store).damaged
    files = [entry["file"] for entry in store.manifest()["partitions"]]
    assert all(any(file in line and "objects where" in line for line in found) for file in files), found


def test_regions_that_are_others(tmp_path):
    """Owned sites lie in the region of another partition."""
    from dtoss.partitioning.regions import Regions

    def moved(manifest):
        manifest["weights"][0] += 1e-5
        manifest["pivots_hash"] = Regions(np.array(manifest["pivots"]), np.array(manifest["weights"])).digest

    store = with_manifest(Store(stored(index_of(), tmp_path / "store")), moved)
    assert any("owned sites lie in other regions" in line for line in verify_store(store).damaged)


@pytest.mark.parametrize("texts", [False, True])
def test_a_tombstone_of_an_object_that_stands(tmp_path, texts):
    gone = pa.array(["z", "é3"], pa.large_string()) if texts else np.array([3, 10**6])
    store = Store(stored(index_of(texts), tmp_path, times=times_of, tombstones=(gone, pa.array([1, 2]))))
    found = verify_store(store).damaged
    assert len(found) == 1
    assert "1 objects stand that are said to be deleted" in found[0]
    assert f"{'é3' if texts else 3} among them" in found[0]
    assert store.manifest()["tombstones"]["file"] in found[0]


@pytest.mark.parametrize("strings", [False, True])
def test_every_flipped_bit_is_told_of(tmp_path, capfd, strings):
    """Some bytes of each file; flips.py takes all of the manifest and the commits, and a thousand of others."""
    store = made_store(tmp_path / "store", strings)
    before = listing(tmp_path / "store")
    assert verify_store(store).damaged == []
    count, silent = silent_flips(store, few=True, seed=3)
    assert silent == []
    assert count > 100
    assert listing(tmp_path / "store") == before
    capfd.readouterr()


def test_missing_and_cut_files(tmp_path):
    """Each is named, and the others are looked at all the same."""
    store = Store(stored(index_of(), tmp_path / "store", times=times_of))
    home = tmp_path / "store" / "snapshots" / store.current()
    one, two, _ = (home / entry["file"] for entry in store.manifest()["partitions"])
    one.unlink()
    two.write_bytes(two.read_bytes()[:-8])
    found = verify_store(store).damaged
    assert [one.name in found[0], "is missing" in found[0], two.name in found[1], len(found)] == [True, True, True, 2]
    (home / "manifest.json").unlink()
    with pytest.raises(StoreError, match="there is no such snapshot"):
        verify_store(Store(store.path))


class Leaving(Store):
    """A store whose oldest snapshot goes as soon as its manifest was read."""

    def manifest(self, snapshot=None):
        found = super().manifest(snapshot)
        if snapshot == min(self.snapshots()) and len(self.snapshots()) > 1:
            shutil.rmtree(self.file("snapshots", snapshot))
        return found


def test_a_snapshot_that_goes_meanwhile_is_left_out(tmp_path):
    """It is no damage, and counts nowhere."""
    for _ in range(2):
        stored(index_of(), tmp_path / "store")
    store = Leaving(str(tmp_path / "store"))
    new = store.snapshots()[-1]
    found = verify_store(store)
    assert (found.damaged, found.broken, store.snapshots()) == ([], set(), [new])
    assert found.as_json() == verify_store(Store(store.path)).as_json()


def test_snapshots_by_name(tmp_path):
    """Only the one that is asked for; none of another name, and nothing where there is no store."""
    for _ in range(2):
        stored(index_of(), tmp_path / "store")
    store = Store(str(tmp_path / "store"))
    old, new = store.snapshots()
    path = next((tmp_path / "store" / "snapshots" / old / "partitions").iterdir())
    path.write_bytes(path.read_bytes()[:-1])
    assert verify_store(store, new).damaged == []
    assert verify_store(store, new).held["snapshots"] == [new]
    assert len(verify_store(store, old).damaged) == len(verify_store(store).damaged) == 1
    with pytest.raises(StoreError, match="has no snapshot 'x'; it has"):
        verify_store(store, "x")
    with pytest.raises(StoreError, match="is not a store, or holds no snapshot yet"):
        verify_store(Store(str(tmp_path / "nothing")))
