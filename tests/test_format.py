"""What `docs/format.md` says of a snapshot's files is so: each column, each field, and each invariant by its words."""

from __future__ import annotations

import hashlib
import json
import re
import zlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dtoss
from dtoss.cells.voronoi import voronoi
from dtoss.geometry.hilbert import curve_order
from dtoss.names import RESERVED
from dtoss.snapshots.manifest import regions_of_manifest, space_of_manifest, write_tombstones
from dtoss.snapshots.manifest_fields import HASHED
from dtoss.snapshots.store import FORMAT, Store
from tests.dtoss.snapshots.damaged_stores import stored
from tests.format_checks import (
    BORDER,
    LENGTHS,
    PARTITION,
    File,
    Truth,
    beside_points,
    both_ends,
    diagram_of_level,
    lists,
    moment_of,
    not_itself,
    offsets,
)

ROOT = Path(__file__).resolve().parents[1]
TEXT = (ROOT / "docs" / "format.md").read_text(encoding="utf-8")


def table(heading):
    """Rows of the first table below a heading, as lists of cells; the first cell without its marks."""
    below = TEXT.split(f"# {heading}\n", 1)[1].split("\n#", 1)[0]
    rows = [line.strip("|").split("|") for line in below.splitlines() if line.startswith("|")]
    return [[cells[0].strip().strip("`"), *(cell.strip() for cell in cells[1:])] for cells in rows[2:]]


def truth_of(ids, positions, space, bounds):
    vectors = np.ascontiguousarray(space.vectors(positions))
    distinct = np.unique(vectors, axis=0)
    distinct = np.ascontiguousarray(distinct[curve_order(distinct, np.arange(len(distinct)), bounds)])
    diagram = voronoi(distinct, bounds)
    sites = list(map(tuple, distinct.tolist()))
    on = {site: [] for site in sites}
    for one, vector in zip(ids, map(tuple, vectors.tolist()), strict=True):
        on[vector].append(one)
    beside = [
        {sites[j] for j in diagram.neighbours[a:b]} for a, b in zip(diagram.first, diagram.first[1:], strict=False)
    ]
    position = dict(zip(ids, map(tuple, positions.tolist()), strict=True))
    return Truth(position, {site: i for i, site in enumerate(sites)}, on, beside, diagram.area)


def opened(path):
    """The arrays and facts of a file, read as the document says; ids of text as lists."""
    batch = pa.ipc.open_file(pa.memory_map(str(path))).get_batch(0)
    assert batch.num_rows == 1
    assert all(isinstance(column.type, pa.LargeListType) for column in batch.columns)
    arrays = {name: batch.column(name).values for name in batch.schema.names}
    assert not [name for name, array in arrays.items() if array.null_count and not name.startswith("attribute:")]
    return arrays, json.loads(batch.schema.metadata[b"dtoss"])


def plain(array):
    """An array as numpy has it; text as objects."""
    if pa.types.is_large_string(array.type):
        return np.array(array.to_pylist(), object)
    return array.to_numpy(zero_copy_only=False)


def sphere_objects():
    """Integers as ids; some sites with many, both poles, the antimeridian, a crowd, and a heap within a millimetre."""
    rng = np.random.default_rng(1)
    crowd = np.stack([10.0 + rng.normal(0, 0.1, 34_000), 50.0 + rng.normal(0, 0.1, 34_000)], axis=1)
    globe = np.stack([rng.uniform(-180, 180, 3_000), np.degrees(np.arcsin(rng.uniform(-1, 1, 3_000)))], axis=1)
    edges = np.array([[0.0, 90.0], [50.0, 90.0], [180.0, 10.0], [-180.0, 10.0], [7.0, -90.0]])
    heap = np.array([1.0, 2.0]) + rng.uniform(0.0, 5e-9, (6, 2))
    positions = np.concatenate([crowd, globe, edges, globe[:300], heap])
    return rng.permutation(len(positions)) - 100, positions, {"partitions": 2}


def plane_objects():
    """Objects with texts as ids in a plane, some on one site."""
    rng = np.random.default_rng(2)
    positions = rng.uniform(-50.0, 50.0, (6_000, 2))
    positions[:200] = positions[200:400]
    ids = np.array([f"é{n}" for n in rng.permutation(len(positions))])
    return ids, positions, {"metric": "plane", "crs": "none", "partitions": 5}


def times_of(ids):
    """Whole numbers for ids that are numbers, else fractions, and each id has its own."""
    return pa.array([moment_of(one) for one in ids.tolist()])


@pytest.fixture(scope="module", params=[sphere_objects, plane_objects], ids=["sphere", "plane"])
def snapshot(request, tmp_path_factory):
    """A snapshot's manifest, its folder, and its files: those of partitions and that of the borders."""
    ids, positions, options = request.param()
    values = pa.array([None if i % 7 == 0 else i / 3 for i in range(len(ids))])
    index = dtoss.build(ids, positions, columns={"speed": values, "lon": ids}, **options)
    store = Store(stored(index, tmp_path_factory.mktemp("format") / "store", times=times_of))
    manifest = store.manifest()
    home = Path(store.path) / "snapshots" / manifest["snapshot"]
    space, regions = space_of_manifest(manifest), regions_of_manifest(manifest)
    bounds = None if manifest["bounds"] is None else np.array(manifest["bounds"])
    truth = truth_of(ids.tolist(), positions, space, bounds)
    read = [(entry, *opened(home / entry["file"])) for entry in [*manifest["partitions"], manifest["borders"]]]
    open_sites = set()
    for _, arrays, facts in read[:-1]:
        sites = plain(arrays["sites"]).reshape(-1, facts["dimension"])
        open_sites |= set(map(tuple, sites[plain(arrays["uncertified"])].tolist()))
    files = [
        File({name: plain(a) for name, a in arrays.items()}, facts, entry, space, regions, bounds, truth, open_sites)
        for entry, arrays, facts in read
    ]
    return manifest, home, files, [arrays for _, arrays, _ in read]


def sentences(row):
    """Order and invariants of a row of the document."""
    return [part for part in [row[3], *row[4].split("; ")] if part != "any"]


def spelled(row, levels):
    """The names of the arrays that a row is about."""
    return [row[0].replace("_k", f"_{k}") for k in range(1, levels + 1)] if row[0].endswith("_k") else [row[0]]


@pytest.mark.parametrize(
    ("heading", "checks"), [("Arrays of a partition", PARTITION), ("Arrays of the border file", BORDER)]
)
def test_each_stated_invariant_is_checked(heading, checks):
    """The document's sentences are those that are checked below, word by word; none is left over on either side."""
    rows = [row for row in table(heading) if not row[0].startswith("attribute:")]
    assert {row[0]: sentences(row) for row in rows} == {name: list(held) for name, held in checks.items()}


def test_files_have_the_columns_of_the_document(snapshot):
    """Names in their order, types and lengths; of levels and attributes as many as there are."""
    manifest, _, files, arrays = snapshot
    text = manifest["id_type"] == "string"
    assert manifest["columns"].keys() == {"speed", "lon_"}
    assert max(file.facts["levels"] for file in files[:-1]) == (2 if manifest["metric"] == "sphere" else 1)
    headings = ["Arrays of a partition"] * (len(files) - 1) + ["Arrays of the border file"]
    for file, held, heading in zip(files, arrays, headings, strict=True):
        levels = file.facts.get("levels", 0)
        rows = table(heading)
        plain_rows = [row for row in rows if not row[0].startswith("attribute:")]
        pairs = [row for row in plain_rows if row[0].endswith("_k")]
        names = [row[0] for row in plain_rows if not row[0].endswith("_k")]
        names += [row[0].replace("_k", f"_{k}") for k in range(1, levels + 1) for row in pairs]
        attributes = [] if heading == headings[-1] else [f"attribute:{name}" for name in ("speed", "lon_")]
        assert list(held) == names + attributes
        for row in plain_rows:
            for name in spelled(row, levels):
                kinds = row[1].split(" or ")
                kind = kinds[-1] if text else kinds[0]
                if name == "t":
                    assert kind == "any"
                    kind = "double" if text else "int64"
                    assert manifest["time"] == {"column": "t", "type": "double" if text else "bigint", "unit": "s"}
                assert str(held[name].type) == kind, name
                if row[0] == "first_k":
                    assert row[2] == "w / 16^k rounded up + 1"
                    wanted = -(-file.owned // 16 ** int(name.removeprefix("first_"))) + 1
                else:
                    wanted = LENGTHS[row[2]](file)
                assert wanted is None or len(held[name]) == wanted, name
        for name in attributes:
            assert len(held[name]) == len(held["ids"])
            assert name.removeprefix("attribute:").lower() not in RESERVED
    assert files[0].arrays["attribute:speed"].shape == files[0]["ids"].shape


def test_files_keep_the_stated_invariants(snapshot):
    """In every partition, at every level, and in the border file."""
    _, _, files, _ = snapshot
    *partitions, border = files
    assert sum(len(file["uncertified"]) for file in partitions) > 0
    for number, file in enumerate(partitions):
        for name, checks in PARTITION.items():
            for sentence, check in checks.items():
                for level in range(1, file.facts["levels"] + 1) if name.endswith("_k") else [None]:
                    assert at_level(check, name, sentence, level)(file), (number, name, sentence, level)
    for name, checks in BORDER.items():
        for sentence, check in checks.items():
            assert check(border), (name, sentence)


def at_level(check, name, sentence, level):
    """The check of a sentence about levels, for one of them."""
    if level in (None, 1):
        return check
    first, neighbours = f"first_{level}", f"neighbours_{level}"
    return {
        "as `sites`": diagram_of_level(level),
        "from 0 ascending to the length of `neighbours_k`": offsets(first, neighbours),
        "site by site": diagram_of_level(level),
        "the Voronoi neighbours among the sites of the level": diagram_of_level(level),
        "no site is its own neighbour": not_itself(first, neighbours),
        "listed from both ends": both_ends(first, neighbours),
    }[sentence]


def test_true_neighbours_are_those_of_certified_sites(snapshot):
    """And a point of the border file that is not open lists its neighbours that are open or of another partition."""
    _, _, files, _ = snapshot
    *partitions, border = files
    for file in partitions:
        named = list(map(tuple, file.sites.tolist()))
        open_sites = set(file["uncertified"].tolist())
        for i, others in enumerate(lists(file["first"], file["neighbours"])[: file.owned]):
            true = file.truth.neighbours[file.truth.sites[named[i]]]
            assert i in open_sites or {named[j] for j in others} == true
    named, found = beside_points(border)
    home = dict(zip(named, border["home"].tolist(), strict=True))
    is_open = dict(zip(named, border["open"].tolist(), strict=True))
    for site, beside in zip(named, found, strict=True):
        if not is_open[site]:
            true = border.truth.neighbours[border.truth.sites[site]]
            assert beside == {one for one in true if one in home and (is_open[one] or home[one] != home[site])}


def mutations(array):
    """An array with one thing wrong, in several ways."""
    yield array[::-1]
    yield array[:-1]
    if len(array) % 3 == 0:
        yield array.reshape(-1, 3)[::-1].ravel()
    if len(array) > 3:
        for i, value in ((0, array[1]), (len(array) // 2, array[0]), (2, array[-1])):
            yield np.concatenate([array[:i], [value], array[i + 1 :]])
        if array.dtype != object:
            yield array + array.dtype.type(1)
            yield -array
            other = 1 - array[:1] if array.max() <= 1 else array[-1:] + array.dtype.type(16)
            yield np.concatenate([other, array[1:]]).astype(array.dtype)
            yield np.concatenate([array[:-1], other]).astype(array.dtype)
        if array.dtype.kind == "f":
            yield np.full_like(array, np.nan)
    if len(array) == 0:
        yield np.ones(2, array.dtype)


ON_SPHERE = (
    "of length 1 within 1e-9 on the sphere",
    "empty on the sphere",
    "those of one curve key ascend by coordinates",  # the heap has some
)


def holds(check, file):
    try:
        return check(file)
    except (ValueError, LookupError, AssertionError, OverflowError):
        return False


def test_each_check_finds_what_it_looks_for(snapshot):
    """Of the arrays changed in some ways, every check fails for one at least."""
    _, _, files, _ = snapshot
    sphere = files[0].space.dimension == 3
    partition = min((file for file in files[:-1] if "first_1" in file.arrays), key=lambda file: len(file.sites))
    for file, checks_of in ((partition, PARTITION), (files[-1], BORDER)):
        for name, checks in checks_of.items():
            for sentence, check in checks.items():
                if sphere != (sentence in ON_SPHERE):
                    continue  # those of both spaces are looked at in the plane
                column = name.replace("_k", "_1")
                changed = (replace(file, arrays=file.arrays | {column: one}) for one in mutations(file[column]))
                assert any(not holds(check, one) for one in changed), (name, sentence)


def test_facts_are_those_of_the_document(snapshot):
    """Names, and what they say."""
    manifest, _, files, _ = snapshot
    *partitions, border = files
    assert list(border.facts) == [row[0] for row in table("Facts of the border file")] == ["dimension"]
    for entry, file in zip(manifest["partitions"], partitions, strict=True):
        facts = file.facts
        assert set(facts) == {row[0] for row in table("Facts of a partition")}
        assert facts["number"] == entry["number"]
        assert facts["dimension"] == border.facts["dimension"] == (3 if manifest["metric"] == "sphere" else 2)
        assert facts["owned_sites"] == entry["sites"]
        level = facts["levels"]
        assert -(-file.owned // 16 ** (level + 1)) <= 64
        assert level == 0 or -(-file.owned // 16**level) > 64
        far = np.sqrt(((file.sites[: file.owned] - file.regions.pivots[file.number]) ** 2).sum(axis=1))
        assert facts["furthest"] == entry["furthest"] == pytest.approx(far.max(initial=-1.0), rel=1e-15)


KINDS = {
    "number or null": lambda v: v is None or KINDS["number"](v),
    "number": lambda v: isinstance(v, (int, float)) and not isinstance(v, bool),
    "text": lambda v: isinstance(v, str),
    "text or null": lambda v: v is None or isinstance(v, str),
    "boolean": lambda v: isinstance(v, bool),
    "list": lambda v: isinstance(v, list),
    "list or null": lambda v: v is None or isinstance(v, list),
    "object": lambda v: isinstance(v, dict),
    "object or null": lambda v: v is None or isinstance(v, dict),
}


def assert_fields(found, heading):
    rows = table(heading)
    assert sorted(found) == sorted(row[0] for row in rows)
    for name, kind, _ in rows:
        assert KINDS[kind](found[name]), (name, kind, found[name])


def test_the_manifest_has_the_fields_of_the_document(tmp_path):
    """As a rebuild writes it, with a bad row, an attribute of a reserved name, and a snapshot before."""
    from pipelines.rebuild import rebuild

    rng = np.random.default_rng(0)
    held = {
        "id": np.arange(500),
        "lon": rng.uniform(-3, 3, 500),
        "lat": rng.uniform(40, 43, 500),
        "rank": np.arange(500),
    }
    held["lat"][7] = 99.0
    path = tmp_path / "in.parquet"
    pq.write_table(pa.table(held), path)
    for _ in range(2):
        manifest = rebuild(pq.read_table(path), str(tmp_path / "store"), partitions=2, max_bad=0.1)
    read = Store(str(tmp_path / "store")).manifest()
    assert read["format"] == FORMAT == int(table("The manifest")[0][2])
    assert read["snapshot"] == manifest["snapshot"]
    assert_fields(read, "The manifest")
    for entry in read["partitions"]:
        assert_fields(entry, "The entry of a partition")
        assert re.fullmatch(rf"partitions/{entry['number']:05d}-{entry['sha256'][:16]}\.arrow", entry["file"])
    assert_fields(read["borders"], "The entry of the border file")
    assert read["borders"]["file"] == f"borders-{read['borders']['sha256'][:16]}.arrow"
    assert read["parent"] in Store(str(tmp_path / "store")).snapshots()
    assert read["renamed"] == {"rank": "rank_"}
    assert [sorted(entry) for entry in read["quarantine"]] == [["bytes", "file", "rows", "sha256"]]
    assert sorted(read["counts"]) == ["duplicates", "kept", "quarantined", "read"]
    assert sorted(read["input"]) == ["box", "taken", "times"]
    assert read["input"]["taken"] == {"id": "id, whole numbers", "position": "lon, lat"}
    assert read["area"] == pytest.approx(4 * np.pi)


def test_tombstones_are_those_of_the_document(tmp_path):
    """Their columns, their order and their entry."""
    store = Store(stored(dtoss.build([1], [[0.0, 0.0]]), tmp_path / "store"))
    entry = write_tombstones(store, store.current(), np.array([5, -3]), pa.array([1.0, 2.0]))
    assert_fields(entry, "The entry of the file of tombstones")
    assert entry["file"] == f"tombstones-{entry['sha256'][:16]}.arrow"
    path = Path(store.path) / "snapshots" / store.current() / entry["file"]
    read = pa.ipc.open_file(pa.memory_map(str(path))).read_all()
    assert read.to_pydict() == {"id": [-3, 5], "t": [2.0, 1.0]}
    rows = table("Columns of the tombstones")
    assert [row[0] for row in rows] == read.column_names
    assert str(read.schema.field("id").type) == rows[0][1].split(" or ")[0]


def test_commits_are_those_of_the_document(tmp_path):
    """A rebuild's and a rollback's: fields, hashes, bytes, and the hint."""
    for _ in range(2):
        store = Store(stored(dtoss.build([1], [[0.0, 0.0]]), tmp_path / "store"))
    store.rollback()
    before = None
    for number, kind in enumerate(("rebuild", "rebuild", "rollback"), 1):
        data = (tmp_path / "store" / "commits" / f"{number:020}.json").read_bytes()
        commit = json.loads(data)
        assert_fields(commit, "A commit")
        assert_fields(commit["document"], "The document of a store's commit")
        assert (commit["number"], commit["parent"], commit["document"]["kind"]) == (number, before, kind)
        before = hashlib.sha256(data).hexdigest()
        rest = {name: value for name, value in commit.items() if name != "sha256"}
        assert commit["sha256"] == hashlib.sha256(line_of(rest)).hexdigest()
        assert data == line_of(commit) + b"\n"
        home = tmp_path / "store" / "snapshots" / commit["document"]["snapshot"]
        assert commit["document"]["sha256"] == hashlib.sha256((home / "manifest.json").read_bytes()).hexdigest()
    hint = (tmp_path / "store" / "CURRENT").read_text()
    assert hint == f"{3:020} {zlib.crc32(b'0' * 19 + b'3'):08x}\n"


def line_of(value):
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode("ascii")


def test_the_fields_in_the_hash_are_those_of_the_document():
    """In the order of the code."""
    paragraph = re.search(r"((?:`\w+`,?\s+(?:and )?)+)are the fields in `sha256`", TEXT)[1]
    assert re.findall(r"`(\w+)`", paragraph) == list(HASHED)
