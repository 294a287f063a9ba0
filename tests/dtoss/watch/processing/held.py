"""Random streams in random batches, held to the loop: what is told, in which order, and which rows before are kept."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa

from dtoss.buckets import bucket_of, buckets_in
from dtoss.watch.watch_folder import Home, Limits
from tests.dtoss.watch.oracle import Watched
from tests.dtoss.watch.streams import SECOND, SPHERE, change, random_asked, random_rows, run, settings_of, stands, told


def held_equal(folder, seed, tasks, batches=6, expire=None, ids="int64", limits=None, witnesses="1%", rows=None):
    """Run a random stream in random batches, and hold each batch's events to the loop's; return all that was told."""
    rng = np.random.default_rng(seed)
    home, settings = Home(str(folder), "w", limits or Limits()), settings_of(ids=ids)
    expire = None if expire is None else expire * SECOND
    loop = Watched(SPHERE, settings.schema, expire, witnesses=witnesses)
    if rows is None:
        rows = random_rows(rng, int(rng.integers(5, 60)), seconds=int(rng.integers(2, 120)))
        if rng.random() < 0.7:
            rows.sort(key=lambda row: row["t"])
    if ids == "string":
        rows = [row | {"id": str(row["id"])} for row in rows]
    names = [f"s{number}" for number in range(8)]
    total = []
    for part in np.array_split(np.arange(len(rows)), batches):
        if rng.random() < 0.7:
            add = [random_asked(rng, name) for name in rng.choice(names, rng.integers(1, 4), replace=False)]
            change(home, add, rng.choice(names, rng.integers(0, 2)).tolist())
        number, table = stands(home)
        some = [rows[row] for row in part]
        commit = run(home, settings, some, tasks, ids=ids, expire=expire, witnesses=witnesses)
        wanted = loop.batch(some, number, table)
        found = told(home, commit.number)
        assert Counter(found) == Counter(wanted), (seed, commit.number)
        assert by_object(found) == by_object(wanted), (seed, commit.number)
        assert commit.document["clock"] == loop.clock
        kept = {id: (row["t"], row["x"], row["y"], row["changes"]) for id, row in loop.before.items()}
        assert rows_before(home, commit) == kept, (seed, commit.number)
        total += found
    return total


def by_object(events):
    """The events of each object in their order."""
    found = {}
    for event in events:
        found.setdefault(event[3], []).append(event)
    return found


def rows_before(home, commit):
    """The newest row of each object that is there, read from the files of the state one after another."""
    found = {}
    for run_ in commit.document["state"]:
        data = home.folder.read("state", run_["name"])
        table = pa.ipc.open_file(pa.BufferReader(data)).read_all()
        live = set(buckets_in(run_["buckets"]).tolist())
        of = bucket_of(table.column("id").combine_chunks()) if len(table) else []
        for row, bucket in zip(table.to_pylist(), of, strict=True):
            if int(bucket) in live:
                found[row["id"]] = None if row["gone"] else (row["t"], row["x"], row["y"], row["changes"])
    return {id: row for id, row in found.items() if row is not None}
