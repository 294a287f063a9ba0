"""The index of past moments: `python -m tests.long.as_of`, and in `make check-data`.

Cabspotting (``--data`` or DTOSS_DATA says where) is a history of many batches. At seeded times a snapshot is built of
it. What stands in it is compared with what a dictionary held after all updates and deletions up to then, one after the
other; and its files, byte for byte, with those of a rebuild of the rows up to then with the same pivots. Ends with code
1 where one differs.
"""

from __future__ import annotations

import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import typer

import dtoss
from bench.history.kept import cab_rows, kept
from bench.measuring.points import DATA
from datasets.tables.command import run, say
from dtoss.history.versions import Home
from dtoss.partitioning.regions import Regions
from dtoss.snapshots.manifest import reach_of, regions_of_manifest
from dtoss.snapshots.store import Store

MOST_AGE = 900.0
"""Seconds after which a cab is not asked for any more."""


def states(rows: pa.Table, moments: list[int]) -> list[dict[int, tuple[int, float, float]]]:
    """Return what a dictionary held at each of some ascending moments: (t, x, y) by id."""
    t = rows["t"].cast(pa.int64()).to_numpy()
    deleted = rows["deleted"].to_numpy(zero_copy_only=False)
    order = np.lexsort((rows["occupied"].to_numpy(), rows["y"].to_numpy(), rows["x"].to_numpy(), deleted, t))
    columns = [rows["id"].to_numpy()[order].tolist(), t[order].tolist(), deleted[order].tolist()]
    columns += [rows[name].to_numpy()[order].tolist() for name in ("x", "y")]
    held: dict[int, tuple[int, float, float]] = {}
    found, waiting = [], list(moments)
    for id, heard, gone, x, y in zip(*columns, strict=True):
        while waiting and heard > waiting[0]:
            found.append(dict(held))
            waiting.pop(0)
        if gone:
            held.pop(id, None)
        else:
            held[id] = (heard, x, y)
    return found + [dict(held) for _ in waiting]


def stands(store: str) -> dict[int, tuple[float, float]]:
    """Return where each object of a store's current snapshot is."""
    found: dict[int, tuple[float, float]] = {}
    for partition in dtoss.open(store).parts.all():
        owned = slice(0, partition.owned_objects)
        places = map(tuple, partition.positions[owned].tolist())
        found |= dict(zip(np.asarray(partition.ids[owned]).tolist(), places, strict=True))
    return found


def files(store: str) -> dict[str, bytes]:
    """Return the files of a store's current snapshot but for the manifest, which counts the rows that were read."""
    home = Path(store) / "snapshots" / Store(store).current()
    found = {str(path.relative_to(home)): path.read_bytes() for path in home.rglob("*") if path.is_file()}
    return {name: data for name, data in found.items() if name != "manifest.json"}


def main(
    data: Annotated[Path, typer.Option(help="Folder of the data sets.")] = DATA,
    times: Annotated[int, typer.Option(help="Moments.")] = 20,
    deletions: Annotated[float, typer.Option(help="Share of rows that are made deletions.")] = 0.01,
    partitions: Annotated[int, typer.Option(help="Of each snapshot.")] = 4,
    seed: Annotated[int, typer.Option(help="Of the moments and the deletions.")] = 0,
    master: Annotated[str, typer.Option(help="Spark master.")] = "local[2]",
) -> None:
    """Build the index of moments of Cabspotting, and compare each."""
    from pipelines.spark.session import spark_session

    rows, schema = cab_rows(data, deletions, seed)
    t = rows["t"].cast(pa.int64()).to_numpy()
    moments = np.sort(np.random.default_rng(seed).integers(t.min(), t.max(), times)).tolist()
    with tempfile.TemporaryDirectory() as folder:
        home = Home(f"{folder}/history")
        kept(home, rows, schema, batches=18, placed=True)
        session = spark_session(master)
        began = time.perf_counter()
        wanted = states(rows, moments)
        say(f"{len(rows):,} rows, {times} moments; the dictionary took {time.perf_counter() - began:.0f} s")
        wrong, seconds, alive = 0, [], []
        for moment, state in zip(moments, wanted, strict=True):
            told = _compared(session, home, rows, moment, state, folder, partitions)
            wrong += told["wrong"]
            seconds.append(told["seconds"])
            alive.append(told["objects"])
            say(
                f"{datetime.fromtimestamp(moment / 1e6, UTC):%F %T}: {told['objects']} objects, "
                f"{told['seconds']:.1f} s, a rebuild {told['rebuild']:.1f} s{', WRONG' if told['wrong'] else ''}"
            )
    say(f"{times - wrong} of {times} as the dictionary says, and byte for byte a rebuild")
    say(f"seconds: median {np.median(seconds):.1f}, worst {max(seconds):.1f}; objects {min(alive)} to {max(alive)}")
    if wrong:
        sys.exit(1)


def _compared(
    session: Any, home: Home, rows: pa.Table, moment: int, state: dict[int, Any], folder: str, partitions: int
) -> dict[str, Any]:
    import pipelines.rebuild
    from pipelines.as_of import as_of
    from pipelines.rebuild import rebuild

    when = datetime.fromtimestamp(moment // 1_000_000, UTC).replace(microsecond=moment % 1_000_000)
    began = time.perf_counter()
    manifest = as_of(session, home.path, when, f"{folder}/past", partitions=partitions)
    spent = time.perf_counter() - began
    whole = {id: at[1:] for id, at in state.items()}
    wrong = stands(f"{folder}/past") != whole
    past = files(f"{folder}/past")
    young = as_of(session, home.path, when, f"{folder}/young", max_age=MOST_AGE, partitions=1)
    recent = {id: at[1:] for id, at in state.items() if at[0] >= moment - MOST_AGE * 1e6}
    wrong |= (stands(f"{folder}/young") if young["objects"] else {}) != recent
    # the rows up to then, without those of objects that were deleted
    until = rows.filter(pc.and_(pc.less_equal(rows["t"].cast(pa.int64()), moment), pc.invert(rows["deleted"])))
    until = until.filter(pc.is_in(until["id"], pa.array(list(state), pa.int64()))).drop_columns(["deleted"])
    regions: tuple[Regions, Any] = regions_of_manifest(manifest), reach_of(manifest)
    frame = session.createDataFrame(until)
    began = time.perf_counter()
    with mock.patch.object(pipelines.rebuild, "choose_regions", return_value=regions):
        rebuild(frame, f"{folder}/rebuilt", x="x", y="y", columns=["t", "occupied"])
    again = time.perf_counter() - began
    wrong |= files(f"{folder}/rebuilt") != past
    return {"wrong": wrong, "seconds": spent, "rebuild": again, "objects": len(state)}


if __name__ == "__main__":
    run(main)
