"""Damaged files: what is checked in any case, what checksums find, and that neither crashes nor hangs."""

from __future__ import annotations

import copy
import hashlib
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dtoss
from dtoss.errors import StoreError
from dtoss.opening import open_index
from dtoss.snapshots import structure
from dtoss.snapshots.manifest import space_of_manifest
from dtoss.snapshots.manifest_fields import check_manifest, hash_of
from dtoss.snapshots.partition_file import decode
from dtoss.snapshots.store import Store
from dtoss.snapshots.structure import Claims, check_border, check_partition
from dtoss.snapshots.xxh64 import xxh64
from tests.long.damages import another_id, made_world, questions

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    return made_world(tmp_path_factory.mktemp("damage"), None, False, 1)


def entry_of(world, number=1):
    return json.loads((world.snapshot / "manifest.json").read_text())["partitions"][number]


# -- the list ---------------------------------------------------------------------------------------------------------


@pytest.mark.timeout(600)
def test_damage_ends_in_an_error_or_an_answer():
    """A part of the list of tests/long/damages.py: with checksums a file is named or an answer right; no signal."""
    run = subprocess.run(
        [sys.executable, "-m", "tests.long.damages", "--few"], cwd=ROOT, capture_output=True, text=True, timeout=580
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert "verify=touch: error" in run.stdout
    assert "verify=False: error" in run.stdout


def test_degrees_that_are_said_to_be_projected(tmp_path):
    """A polygon ended in a ValueError that named the user's places, with whatever was verified."""
    made = made_world(tmp_path, None, False, 1)
    manifest = json.loads((made.snapshot / "manifest.json").read_text()) | {"to_lonlat": True}
    with pytest.raises(StoreError, match=r"manifest.json of snapshot .* is damaged: crs is 'EPSG:4326'"):
        space_of_manifest(manifest)


# -- the checksum -----------------------------------------------------------------------------------------------------


def rot(word, left):
    return (word << left | word >> (64 - left)) & (2**64 - 1)


def slow_xxh64(data):
    """The specification of XXH64, in Python's integers."""
    p1, p2, p3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
    p4, p5, mask = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5, 2**64 - 1

    def step(lane, word):
        return rot((lane + word * p2) & mask, 31) * p1 & mask

    value, at = p5, 0
    if len(data) >= 32:
        lanes = [(p1 + p2) & mask, p2, 0, -p1 & mask]
        while at + 32 <= len(data):
            for i in range(4):
                lanes[i] = step(lanes[i], int.from_bytes(data[at : at + 8], "little"))
                at += 8
        value = sum(rot(lane, left) for lane, left in zip(lanes, (1, 7, 12, 18), strict=True)) & mask
        for lane in lanes:
            value = ((value ^ step(0, lane)) * p1 + p4) & mask
    value = (value + len(data)) & mask
    while at + 8 <= len(data):
        value = (rot(value ^ step(0, int.from_bytes(data[at : at + 8], "little")), 27) * p1 + p4) & mask
        at += 8
    if at + 4 <= len(data):
        value = (rot(value ^ int.from_bytes(data[at : at + 4], "little") * p1 & mask, 23) * p2 + p3) & mask
        at += 4
    for byte in data[at:]:
        value = rot(value ^ byte * p5 & mask, 11) * p1 & mask
    value = (value ^ value >> 33) * p2 & mask
    value = (value ^ value >> 29) * p3 & mask
    return f"{value ^ value >> 32:016x}"


def test_the_fast_checksum_is_xxh64():
    """The specification's own values, and each length against the slow one, wherever the bytes begin."""
    assert xxh64(b"") == slow_xxh64(b"") == "ef46db3751d8e999"
    assert xxh64(b"a") == slow_xxh64(b"a") == "d24ec4f1a98c6e5b"
    assert xxh64(b"abc") == slow_xxh64(b"abc") == "44bc2cf5ad770999"
    data = np.random.default_rng(0).integers(0, 256, 300, dtype=np.uint8).tobytes()
    whole = pa.py_buffer(data)
    for size in range(200):
        for begin in (0, 1, 7):
            assert xxh64(whole.slice(begin, size)) == slow_xxh64(data[begin : begin + size]), (begin, size)


def test_negated_numbers_do_not_cancel():
    """A hash that only multiplies loses the signs of two numbers in one lane."""
    data = np.random.default_rng(1).normal(size=64)
    assert len({xxh64(values.tobytes()) for values in (data, -data, np.abs(data))}) == 3


# -- checksums at first touch -----------------------------------------------------------------------------------------


@pytest.fixture
def damaged(world):
    """A snapshot with an id changed in one file, which no check of the structure can see; put right afterwards."""
    with another_id(world) as path:
        yield path


def test_a_checksum_is_compared_at_first_touch(world, damaged):
    """Only where a question reads the file; without it the structure holds and an answer is wrong."""
    index = open_index(str(world.home), verify="touch")
    other = index.partitioning.pivots[0]
    lonlat = index.space.positions(other[None])
    assert len(index.knn(lonlat, 1)) == 1
    with pytest.raises(StoreError, match=rf"{damaged.name} does not have the checksum .* roll back or rebuild"):
        index.knn(index.space.positions(index.partitioning.pivots[1][None]), 1)
    with pytest.raises(StoreError, match=damaged.name):
        list(index.parts.all())
    assert len(open_index(str(world.home)).parts.all()) == 3
    with pytest.raises(StoreError, match=damaged.name):
        open_index(str(world.home), verify=True)


def test_older_manifests_have_no_fast_checksum(world, damaged):
    """The SHA-256 of the file is compared instead; nor have they a hash of their own."""
    path = world.snapshot / "manifest.json"
    text = path.read_text()
    manifest = json.loads(text)
    for entry in [*manifest["partitions"], manifest["borders"]]:
        del entry["xxh64"]
    del manifest["sha256"]
    path.write_text(json.dumps(manifest))
    try:
        index = open_index(str(world.home), verify="touch")
        assert index.parts[0].owned_objects > 0
        with pytest.raises(StoreError, match=rf"{damaged.name} does not have the checksum"):
            index.parts[1].owned_objects  # noqa: B018
    finally:
        path.write_text(text)


def test_a_file_cut_short_after_it_was_opened_is_an_error(world):
    """Before its first touch; reading a mapping past the end of its file would be a signal."""
    path = world.snapshot / entry_of(world)["file"]
    data = path.read_bytes()
    index = open_index(str(world.home))
    with path.open("r+b") as stream:
        stream.truncate(4096)
    try:
        with pytest.raises(StoreError, match=rf"{path.name} has 4096 bytes, it had {len(data)} when it was opened"):
            index.knn(index.space.positions(index.partitioning.pivots), 1)
    finally:
        path.write_bytes(data)
    assert [ask() for ask in questions(world, open_index(str(world.home)))] == world.answers


def test_verify_is_one_of_three(world):
    with pytest.raises(ValueError, match="verify is 'always': False, 'touch' or True is wanted"):
        open_index(str(world.home), verify="always")


# -- structure --------------------------------------------------------------------------------------------------------


def claims_of(world, partition):
    entry = entry_of(world, partition.number)
    return Claims(
        **{name: entry[name] for name in ("number", "objects", "sites", "replicas", "uncertified", "furthest")},
        dimension=3,
        partitions=3,
        box=(-180.0, -90.0, 180.0, 90.0),
        string_ids=False,
        columns=frozenset(["speed", "kind"]),
        time="double",
    )


ARRAYS = [
    "positions", "sites", "first_object", "replica_home", "graph.first", "graph.neighbours", "uncertified",
    "levels.0.first", "levels.0.neighbours", "keys", "blocks.balls", "blocks.first", "blocks.neighbours", "id_order",
]  # fmt: skip


def with_array(whole, path, array):
    head, _, rest = path.partition(".")
    if head.isdigit():
        return tuple(with_array(one, rest, array) if i == int(head) else one for i, one in enumerate(whole))
    old = getattr(whole, head)
    return replace(whole, **{head: with_array(old, rest, array) if rest else array})


def array_of(whole, path):
    for step in path.split("."):
        whole = whole[int(step)] if step.isdigit() else getattr(whole, step)
    return whole


@pytest.mark.parametrize("path", ARRAYS)
def test_each_array_is_checked(world, path):
    """Its first, a middle and its last value out of range, and its length; the partition itself passes."""
    path_of_file = world.snapshot / entry_of(world)["file"]
    partition = decode(pa.py_buffer(path_of_file.read_bytes()), "a file")
    claims = claims_of(world, partition)
    check_partition(partition, claims, "a file")
    values = array_of(partition, path)
    assert len(values) > 2
    floats = values.dtype.kind == "f"
    for at in (0, len(values) // 2, len(values) - 1):
        for value in (np.nan, np.inf, -np.inf, 1e9) if floats else (-(2**30), 2**30):
            if path == "keys" and (at, np.sign(value)) in ((0, -1), (len(values) - 1, 1)):
                continue  # still ascending: where a batch starts, and any place will do
            if path == "blocks.balls" and value == 1e9:
                continue
            wrong = values.copy()
            wrong.reshape(-1)[at * (wrong.size // len(wrong))] = value if path != "keys" else value * 2.0**32
            with pytest.raises(StoreError, match=r"a file is damaged \(.*\); roll back or rebuild"):
                check_partition(with_array(partition, path, wrong), claims, "a file")
    with pytest.raises(StoreError, match="a file is damaged"):
        check_partition(with_array(partition, path, np.ascontiguousarray(values[:-1])), claims, "a file")


def test_times_and_the_order_of_ids_are_checked(world):
    """A time that is none, too few, of another type or not said; ids that do not ascend; a filter that is too short."""
    data = (world.snapshot / entry_of(world)["file"]).read_bytes()
    partition = decode(pa.py_buffer(data), "a file")
    claims = claims_of(world, partition)
    times, order = partition.times.to_numpy(), partition.id_order
    nan = times.copy()
    nan[7] = np.nan
    exchanged, twice = order.copy(), order.copy()
    exchanged[[3, 4]] = order[[4, 3]]
    twice[3] = order[4]
    same = partition.ids.copy()
    same[order[3]] = same[order[4]]
    for wrong, said in (
        ({"times": None}, "type of times: None where double is wanted"),
        ({"times": pa.array(nan)}, "a time is NaN"),
        ({"times": partition.times[1:]}, "times: "),
        ({"times": partition.times.cast(pa.float32())}, "type of times: float where double is wanted"),
        ({"id_order": exchanged}, "ids out of order"),
        ({"id_order": twice}, "ids out of order, or one stands twice"),
        ({"ids": same}, "ids out of order, or one stands twice"),
        ({"id_filter": partition.id_filter[1:]}, "words of the filter of ids"),
    ):
        with pytest.raises(StoreError, match=rf"a file is damaged \(.*{said}.*\); roll back or rebuild"):
            check_partition(replace(partition, **wrong), claims, "a file")
    with pytest.raises(StoreError, match="type of times: double where None is wanted"):
        check_partition(partition, replace(claims, time=None), "a file")


@pytest.mark.parametrize("lazy", [False, True])
def test_sizes_are_looked_at_when_a_store_is_opened(world, lazy):
    """Also where files are read later."""
    path = world.snapshot / entry_of(world)["file"]
    data = path.read_bytes()
    try:
        path.write_bytes(data[:-1])
        with pytest.raises(StoreError, match=rf"{path.name} has {len(data) - 1} bytes, .*{len(data)}.*roll back"):
            open_index(str(world.home), lazy=lazy)
        path.unlink()
        with pytest.raises(StoreError, match=rf"{path.name} is missing.*roll back"):
            open_index(str(world.home), lazy=lazy)
    finally:
        path.write_bytes(data)


@pytest.mark.parametrize("name", ["number", "objects", "sites", "replicas", "uncertified", "furthest", "dimension"])
def test_a_file_is_what_the_manifest_says(world, name):
    """A number that differs is named with both values."""
    data = (world.snapshot / entry_of(world)["file"]).read_bytes()
    partition = decode(pa.py_buffer(data), "a file")
    claims = claims_of(world, partition)
    with pytest.raises(StoreError, match=r"a file is damaged \(.*: .* where .* is wanted\)"):
        check_partition(partition, replace(claims, **{name: getattr(claims, name) + 1}), "a file")
    with pytest.raises(StoreError, match="columns"):
        check_partition(partition, replace(claims, columns=frozenset(["speed"])), "a file")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("sites", np.nan),
        ("sites", 1e300),
        ("home", 3),
        ("home", -1),
        ("open", None),
        ("first", 2**30),
        ("neighbours", -1),
        ("neighbours", 2**30),
        ("area", np.nan),
    ],
)
def test_each_array_of_the_borders_is_checked(world, name, value):
    """One value out of range, or one too few; the table itself passes."""
    table = open_index(str(world.home)).border
    points, fixed = len(table.sites), int(table.open.sum())
    check_border(table, points, fixed, 3, 3, "a file")
    values = getattr(table, name)
    short = replace(table, **{name: values[:-1]})
    with pytest.raises(StoreError, match=r"a file is damaged \(.*\); roll back or rebuild"):
        check_border(short, points, fixed, 3, 3, "a file")
    wrong = values.copy()
    wrong.reshape(-1)[wrong.size // 2] = value if value is not None else not wrong[wrong.size // 2]
    with pytest.raises(StoreError, match=r"a file is damaged \(.*\); roll back or rebuild"):
        check_border(replace(table, **{name: wrong}), points, fixed, 3, 3, "a file")


@given(st.data())
def test_vectors_ascend_where_they_are_sorted(data):
    """By their first numbers, then by their second ones, and so on; as a sort of them says."""
    width = data.draw(st.sampled_from([2, 3]))
    sites = np.array(data.draw(st.lists(st.tuples(*[st.integers(0, 2)] * width), max_size=6)), np.float64)
    sites = sites.reshape(-1, width)
    assert structure.ascend(sites) == (sites.tolist() == sorted(sites.tolist()))
    if len(sites) > 1:
        sites[data.draw(st.integers(0, len(sites) - 1)), 0] = np.nan
        assert not structure.ascend(sites)


def test_equal_ids_at_one_distance_do_not_hang():
    """Ids that were all overwritten, of objects as near as each other: in any order, but each once."""
    corners = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0]])
    index = dtoss.build(np.arange(40), np.concatenate([corners * r for r in range(1, 11)]), crs="none")
    index.parts[0].ids[:] = 7
    for hits in (index.knn([0.0, 0.0], 40), index.knn([0.0, 0.0], 30, max_distance=8.0), index.range([0.0, 0.0], 9.0)):
        assert set(hits.id.tolist()) == {7}
        assert hits.distance.tolist() == [r for r in range(1, 11) for _ in range(4)][: len(hits)]
    assert len(index.range([0.0, 0.0], 9.0)) == 36


# -- the manifest -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda m: m.pop("reach"), "reach is missing"),
        (lambda m: m.update(metric="globe"), "metric is 'globe', sphere or plane is wanted"),
        (lambda m: m["reach"].__setitem__(1, -1.0), r"reach is \[.*numbers that are not negative, or null is wanted"),
        (lambda m: m["partitions"][2].pop("bytes"), r"partitions\[2\]\.bytes is missing"),
        (lambda m: m["partitions"][0].update(objects="many"), r"partitions\[0\]\.objects is 'many', a whole number"),
        (lambda m: m["partitions"][0].update(file="../CURRENT"), r"partitions\[0\]\.file is '\.\./CURRENT'"),
        (lambda m: m["borders"].update(points=True), r"borders\.points is True"),
        (lambda m: m.update(objects=m["objects"] + 1), r"objects is 4001, 4000, as its entries say, is wanted"),
        (lambda m: m.pop("time"), "time is missing"),
        (lambda m: m.update(time=7), "time is 7, what is known of times, or null, is wanted"),
        (lambda m: m["time"].update(column=None), r"time\.column is None, a text is wanted"),
        (lambda m: m["time"].update(type="interval"), r"time\.type is 'interval', a type of times is wanted"),
        (lambda m: m["time"].update(type=["double"]), r"time\.type is \['double'\], a type of times is wanted"),
        (lambda m: m["time"].update(unit=None), r"time\.unit is None, s, ms or us is wanted"),
        (lambda m: m["time"].update(type="date"), r"time\.unit is 's', null is wanted"),
        (lambda m: m["time"].update(type="decimal(9,2)"), "sha256 is"),
        (lambda m: m.update(tombstones={"rows": -1}), r"tombstones\.rows is -1, a whole number is wanted"),
        (
            lambda m: m.update(tombstones={"rows": 1, "file": "../tombstones-0123456789abcdef.arrow"}),
            r"tombstones\.file is '\.\./tombstones",
        ),
        (lambda m: m["ledger"]["files"].update(a=-1), r"ledger\.files is \{'a': -1\}, the sizes of files is wanted"),
        (lambda m: m["ledger"].pop("batches"), r"ledger\.batches is missing"),
        (lambda m: m.update(clock={"kind": "sand"}), r"clock\.kind is 'sand', wall, given or data is wanted"),
        (lambda m: m.update(policy=None), "policy is None, an object is wanted"),
        (lambda m: m.update(cycle=[]), r"cycle is \[\], an object, or null, is wanted"),
        (lambda m: m.pop("source"), "source is missing"),
        (lambda m: m["weights"].__setitem__(0, 1e-9), r"sha256 is '[0-9a-f]+\.\.\., [0-9a-f]{64} of its other fields"),
    ],
)
def test_a_wrong_field_is_named(world, change, said):
    """With the file, the field and its value."""
    manifest = Store(str(world.home)).manifest()
    wrong = copy.deepcopy(manifest)
    change(wrong)
    path = world.snapshot / "manifest.json"
    text = path.read_text()
    path.write_text(json.dumps(wrong))
    try:
        with pytest.raises(StoreError, match=rf"{path} is damaged: {said}.*; roll back or rebuild"):
            dtoss.open(str(world.home))
    finally:
        path.write_text(text)


@pytest.mark.parametrize("text", ["[" * 100_000, "{}", "[1]", "\xff", "", '{"format": [2]}'])
def test_what_is_no_manifest_is_an_error(world, text):
    """Whatever is in the file."""
    path = world.snapshot / "manifest.json"
    kept = path.read_text()
    path.write_text(text, encoding="latin-1")
    try:
        with pytest.raises(StoreError, match=world.snapshot.name):
            dtoss.open(str(world.home))
    finally:
        path.write_text(kept)


def test_a_manifest_of_other_pivots_is_found_without_its_hash(world):
    """Older manifests have none, but the pivots have theirs."""
    path = world.snapshot / "manifest.json"
    text = path.read_text()
    manifest = json.loads(text)
    manifest["pivots"][1][0] += 1e-9
    del manifest["sha256"]
    path.write_text(json.dumps(manifest))
    try:
        with pytest.raises(StoreError, match=r"manifest\.json .* pivots_hash is"):
            dtoss.open(str(world.home))
    finally:
        path.write_text(text)


def test_the_hash_of_a_manifest_is_of_what_is_opened(world):
    """Not of names and times; other fields may be added later."""
    manifest = json.loads((world.snapshot / "manifest.json").read_text())
    later = manifest | {"created": "later", "timings": {}, "more": [1]}
    assert hash_of(later) == hash_of(manifest) == manifest["sha256"]
    check_manifest(later, manifest["snapshot"], "a file")
    assert hash_of(manifest | {"bytes": 1}) != manifest["sha256"]
    assert len(manifest["sha256"]) == len(hashlib.sha256().hexdigest())
