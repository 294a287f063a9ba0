"""What tests of the jobs share: stores made by Spark and without it, brute force for larger inputs, a store's bytes."""

from __future__ import annotations

import atexit
import hashlib
import json
import shutil
import tempfile
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import dtoss
from dtoss.geometry.distance import distance
from dtoss.history.row_blocks import latest
from dtoss.names import free_names, renames
from dtoss.rows.input_columns import Columns
from dtoss.save_index import write_snapshot
from dtoss.snapshots.column_types import stored_column
from dtoss.snapshots.store import Store
from pipelines.rebuild import rebuild
from tests.data import real_set

TIME = "the time of an object"
"""What it is called while an index is built that carries it beside its attributes."""
MADE = {}
"""Where the stores are that this process has made, by their rows and options."""


def take_regions(monkeypatch, regions):
    """Let rebuilds take these regions and their reach, whatever their sample says."""
    monkeypatch.setattr("pipelines.rebuild.choose_regions", lambda *_: regions)


def rebuilt(spark, table, store, **options):
    """The index of a store after a rebuild from an Arrow table."""
    rebuild(spark.createDataFrame(table), str(store), **options)
    return dtoss.open(str(store))


def made(table, to=None, **options):
    """The path of a store of good rows, built without Spark: its files are those of a rebuild with these options.

    ``jobs/test_in_process.py`` holds the two equal. A store of the same rows and options is made once; it is only read,
    and who writes names where a copy of it goes (``to``).
    """
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    key = hashlib.sha256(sink.getvalue()).hexdigest(), repr(sorted(options.items()))
    if key not in MADE:
        MADE[key] = str(_folder() / str(len(MADE)))
        _make(table, MADE[key], **options)
    return MADE[key] if to is None else shutil.copytree(MADE[key], str(to))


@cache
def _folder():
    folder = Path(tempfile.mkdtemp(prefix="dtoss-stores-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _make(
    table, to, *, id="id", x=None, y=None, time=None, columns="all", crs=None, metric=None, partitions=None,
    pivots="balanced", reach=None, bounds=None, seed=0,
):  # fmt: skip
    asked = Columns(id=id, x=x, y=y, time=time, attributes=columns)
    names = table.column_names
    x, y = asked.coordinates(names)
    time = time or ("t" if "t" in names else None)
    if columns == "all":
        columns = [name for name in names if name not in (id, x, y) and name[0] != "_"]
    elif isinstance(columns, str):
        columns = [] if columns == "none" else [name.strip() for name in columns.split(",")]
    attributes = {f"a:{name}": table[name] for name in columns}
    when = {"t": table[time]} if time else {}
    rows = pa.table({"id": table[id], "x": table[x], "y": table[y], **when, **attributes})
    rows = latest(rows, ["x", "y", *attributes]) if time else rows
    index = dtoss.build(
        rows["id"].combine_chunks(), positions_of(rows), crs=crs, metric=metric, partitions=partitions,
        pivots=pivots, reach=reach, bounds=bounds, seed=seed,
        columns={name: rows[f"a:{name}"] for name in columns} | ({TIME: rows["t"]} if time else {}),
    )  # fmt: skip
    taken = set(free_names(columns).values())
    partitions = [
        replace(
            one,
            attributes={name: stored_column(held) for name, held in one.attributes.items() if name in taken},
            times=stored_column(one.attributes[TIME]) if time else None,
        )
        for one in index.parts.all()
    ]
    record = replace(index._record, source=replace(asked, time=time), renamed=renames(columns))
    counts = {"read": len(table), "duplicates": len(table) - len(rows)}
    store = Store(str(to))
    snapshot = store.begin()
    store.finish(snapshot, write_snapshot(store, snapshot, index, record, partitions, time, counts))


def rows(hits):
    return list(hits)


def positions_of(table):
    """(n, 2) of whichever coordinates a table has."""
    x, y = ("lon", "lat") if "lon" in table.column_names else ("x", "y")
    return np.stack([table[x].to_numpy(), table[y].to_numpy()], axis=1).astype(float)


def brute(space, ids, positions, queries, ks, radii):
    """{("k", k): rows, ("radius", r): rows}: every distance of every query, sorted by (distance, id)."""
    vectors = space.vectors(np.ascontiguousarray(positions, dtype=float))
    ids = np.asarray(ids)
    found = {("k", k): [] for k in ks} | {("radius", r): [] for r in radii}
    for q, place in enumerate(space.vectors(np.ascontiguousarray(queries, dtype=float))):
        far = distance(vectors, place)
        order = np.lexsort((ids, far))
        rows = [(q, *row) for row in zip(ids[order].tolist(), far[order].tolist(), strict=True)]
        for k in ks:
            found["k", k] += rows[:k]
        for r in radii:
            found["radius", r] += rows[: np.searchsorted(far[order], r, side="right")]
    return found


def assert_answers(index, expected, queries):
    """Every answer of an index equals what brute force found, ids, distances and order included."""
    for (kind, value), wanted in expected.items():
        got = index.knn(queries, value) if kind == "k" else index.range(queries, value)
        assert rows(got) == wanted, f"{kind} {value}"


def snapshot_bytes(store, snapshot=None):
    """{file: bytes} of a snapshot; its manifest without the name and the times."""
    name = snapshot or Store(str(store)).current()
    home = Path(store) / "snapshots" / name
    files = {str(file.relative_to(home)): file.read_bytes() for file in sorted(home.rglob("*")) if file.is_file()}
    manifest = json.loads(files["manifest.json"])
    for of_this_run in ("snapshot", "created", "timings", "parent"):
        del manifest[of_this_run]
    files["manifest.json"] = json.dumps(manifest, sort_keys=True).encode()
    return files


def listing(store):
    """Every file of a store with its content."""
    return {str(file): file.read_bytes() for file in sorted(Path(store).rglob("*")) if file.is_file()}


def real(name, count, seed=0):
    """Columns id, lon, lat of so many rows of a real set, drawn at random; skips where it is missing."""
    table = pq.read_table(real_set(name), columns=["id", "lon", "lat"])
    chosen = np.random.default_rng(seed).permutation(len(table))[:count]
    return table.take(pa.array(chosen))


def table(n, seed=0):
    rng = np.random.default_rng(seed)
    return pa.table({"id": np.arange(n), "lon": rng.uniform(-9, 9, n), "lat": rng.uniform(-9, 9, n)})


def rejected(store, manifest):
    """Rows of the quarantine: (reason, the row as it was read)."""
    home = store / "snapshots" / manifest["snapshot"]
    tables = [pq.read_table(home / entry["file"]) for entry in manifest["quarantine"]]
    assert [len(table) for table in tables] == [entry["rows"] for entry in manifest["quarantine"]]
    return [(row["reason"], json.loads(row["row"])) for table in tables for row in table.to_pylist()]


def objects_of(store):
    """{id: (x, y, t)} of the objects of the current snapshot, from its files; t is None where there are no times."""
    from dtoss.snapshots.partition_file import decode
    from dtoss.snapshots.store import Store

    home, found = Store(str(store)), {}
    manifest = home.manifest()
    for entry in manifest["partitions"]:
        source = home.source(manifest["snapshot"], entry["file"])
        partition = decode(source.data, source.path)
        owned = partition.owned_objects
        times = [None] * owned if partition.times is None else partition.times.slice(0, owned).to_pylist()
        for name, place, t in zip(
            list(partition.ids[:owned]), partition.positions[:owned].tolist(), times, strict=True
        ):
            name = name.as_py() if isinstance(name, pa.Scalar) else int(name)
            assert name not in found
            found[name] = (*place, t)
    return found
