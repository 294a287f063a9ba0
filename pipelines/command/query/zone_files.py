"""A file of zones: the objects in each, or how many, on stdout or in a file."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterator
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from dtoss.names import unused_name
from pipelines.command.query.many_places import target_of
from pipelines.command.query.one_place import Asked
from pipelines.command.query.query_options import Filter, Form, Zones
from pipelines.command.terminal.notes import note
from pipelines.local_joins.zone_readers import NamedZones, check_zones, read_zones
from pipelines.rows.write_file import open_writer

HITS_AT_A_TIME = 1 << 20
"""Hits that are printed or written together."""
ZONE = "zone"
"""The column of what zones are called."""


def print_zones(index: Asked, zones: Zones, objects: Filter, form: Form, hits_at_a_time: int = HITS_AT_A_TIME) -> None:
    """Print or write the objects of each zone of a file, in its order, or how many these are, none included."""
    target = None if zones.out is None else target_of("--polygons", zones.out)
    if zones.count and objects.columns:
        raise ValueError("--count has no objects whose --columns could be returned: leave one of them out")
    if target is not None and form.as_json:
        raise ValueError("--json is for stdout: --out FILE is written as its name ends")
    assert zones.polygons is not None
    found = read_zones(zones.polygons, zones.by)
    check_zones(found, index.space, zones.polygons)
    if zones.count:
        counts = index.count_within(found.zones, where=objects.where, edges=zones.edges)[: form.limit]
        batches = iter([{ZONE: _texts(found.names)[: form.limit], "count": counts}])
        if form.limit is not None and form.limit < len(found.zones):
            note(f"the first {form.limit:,} of {len(found.zones):,} zones: --limit {form.limit}")
    else:
        batches = _hits(index, found, zones, objects, form.limit, hits_at_a_time)
    if target is not None:
        rows = _write(batches, found, target, index)
        note(f"{rows:,} rows in {target}")
    elif form.as_json:
        _print_json(batches, "counts" if zones.count else "hits", index)
    else:
        _print_csv(batches)
    if missing := found.zones.missing:
        verbs = ("has", "holds") if missing == 1 else ("have", "hold")
        whole = f"warning: {missing:,} of {len(found.zones):,} zones"
        print(f"{whole} {verbs[0]} no geometry and {verbs[1]} nothing", file=sys.stderr)


def _hits(
    index: Asked,
    found: NamedZones,
    zones: Zones,
    objects: Filter,
    limit: int | None,
    size: int,
) -> Iterator[dict[str, Any]]:
    """Yield zone, id and columns of the first hits, some zones at a time: one batch at least, perhaps without rows."""
    columns, where, edges = list(objects.columns), objects.where, zones.edges
    names = np.array([*_texts(found.names), None], dtype=object)[:-1]
    # an attribute that is called as ours has another name here
    carried = {name: unused_name(name, [ZONE]) for name in dict.fromkeys(columns)}
    left, total = limit, 0
    if limit is not None:
        total = int(index.count_within(found.zones, where=where, edges=edges).sum())
    empty = index.within(found.zones.between(0, 0), columns=columns)
    batches = index.within_batches(found.zones, batch_size=size, columns=columns, where=where, edges=edges)
    for hits in chain([empty], batches):
        kept = hits if left is None else hits[:left]
        taken = {carried[name]: values for name, values in kept.columns.items()}
        yield {ZONE: names[kept.query], "id": kept.id, **taken}
        if left is not None:
            left -= len(kept)
            if not left:
                break
    if limit is not None and limit < total:
        note(f"the first {limit:,} of {total:,} hits: --limit {limit}")


def _texts(names: list[Any]) -> list[Any]:
    """Return names of zones as values of a table: lists and objects as JSON."""
    return [json.dumps(name) if isinstance(name, (list, dict)) else name for name in names]


def _values(column: Any) -> list[Any]:
    values: list[Any] = column.to_pylist() if isinstance(column, pa.Array) else list(column)
    return [value.item() if isinstance(value, np.generic) else value for value in values]


def _print_csv(batches: Iterator[dict[str, Any]]) -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    for number, batch in enumerate(batches):
        if number == 0:
            writer.writerow(batch)
        writer.writerows(zip(*map(_values, batch.values()), strict=True))


def _print_json(batches: Iterator[dict[str, Any]], what: str, index: Asked) -> None:
    rows = [
        dict(zip(batch, row, strict=True))
        for batch in batches
        for row in zip(*map(_values, batch.values()), strict=True)
    ]
    print(json.dumps({"snapshot": index.snapshot, what: rows}, default=str))


def _write(batches: Iterator[dict[str, Any]], found: NamedZones, target: str, index: Asked) -> int:
    kind = _kind_of(_texts(found.names))
    first = _arrow(next(batches), kind, index)
    rows = len(first)
    with open_writer(target, first.schema) as write:
        write(first)
        for batch in batches:
            made = _arrow(batch, kind, index)
            write(made)
            rows += len(made)
    return rows


def _kind_of(names: list[Any]) -> pa.DataType:
    """Return the type of a column of names: text where they are of several kinds."""
    try:
        kind = pa.array(names).type
    except (pa.ArrowException, OverflowError):
        return pa.large_string()
    return pa.large_string() if pa.types.is_null(kind) else kind


def _arrow(batch: dict[str, Any], kind: pa.DataType, index: Asked) -> pa.RecordBatch:
    zone = [
        str(name) if pa.types.is_large_string(kind) and name is not None and not isinstance(name, str) else name
        for name in _values(batch[ZONE])
    ]
    columns: dict[str, Any] = {ZONE: pa.array(zone, kind)}
    for name, values in batch.items():
        if name == "id":
            columns[name] = pa.array(values, pa.large_string() if index.string_ids else pa.int64())
        elif name != ZONE:
            columns[name] = values if isinstance(values, pa.Array) else pa.array(values)
    return pa.record_batch(columns)
