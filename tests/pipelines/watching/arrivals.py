"""Files of made rows that arrive, and what a watch tells of them, for tests with Spark."""

from __future__ import annotations

import csv
import json
import os
from collections import Counter

import pyarrow as pa
import pyarrow.parquet as pq

from dtoss.watch.watch_folder import Home
from pipelines.watch import watch_files
from tests.dtoss.watch.streams import ATTRIBUTES, SECOND, told

OLD = 1_600_000_000
"""When files were written: text that is young waits."""


def plain(row):
    """A made row as a file has it."""
    return {"id": row["id"], "lon": row["x"], "lat": row["y"], "t": row["t"] // SECOND, **row["attributes"]}


def arrive(folder, name, rows, kind="csv"):
    """Write rows as a file that has been there for long."""
    folder.mkdir(exist_ok=True)
    path = folder / f"{name}.{kind}"
    plains = [plain(row) for row in rows]
    if kind == "csv":
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, ["id", "lon", "lat", "t", *ATTRIBUTES])
            writer.writeheader()
            writer.writerows({key: "" if value is None else value for key, value in one.items()} for one in plains)
    elif kind == "jsonl":
        path.write_text("".join(json.dumps(one) + "\n" for one in plains))
    else:
        schema = pa.schema([("id", pa.int64()), ("lon", pa.float64()), ("lat", pa.float64()), ("t", pa.int64())])
        for column, of in ATTRIBUTES.items():
            schema = schema.append(pa.field(column, of))
        pq.write_table(pa.Table.from_pylist(plains, schema=schema), path)
    os.utime(path, (OLD, OLD))
    return path


def once(spark, folder, store, **options):
    """Watch what there is, once."""
    return watch_files(str(folder), str(store), lambda: spark, once=True, **options)


def all_told(store, name="default"):
    """All events of a watch as (kind, subscription, version, object, t, reason), batch after batch."""
    home = Home(str(store), name)
    head = home.batches.head()
    return [told(home, number) for number in range(1, (0 if head is None else head.number) + 1)]


def counted(batches):
    """How often each event is told."""
    return Counter(event for batch in batches for event in batch)
