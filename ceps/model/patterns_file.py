"""Patterns in a Parquet file: one row for each partition and slot, the rest in the file's metadata."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ceps.model.number_text import how_many
from ceps.model.patterns import DAY, Patterns
from ceps.model.reads import Reads
from ceps.model.variation import variation_from_lists

FORMAT = 1
"""Version of the file's layout; a reader refuses a later one."""

_KEY = b"ceps.patterns"
_READS = b"ceps.reads"
_COLUMNS = ("partition", "weekday", "slot", "requests_per_second")


def write_patterns(path: str | Path, patterns: Patterns | Sequence[Patterns]) -> None:
    """Write patterns of all days, of one weekday, of several weekdays, or of a whole week.

    Columns: `partition` int64, `weekday` int8 (0 Monday to 6; null = all days), `slot` int32 (in its day),
    `requests_per_second` float64. Rows of 0 requests/s are left out. The metadata entry `ceps.patterns` is JSON:
    format, slot_seconds, time_zone, days_observed (of the first pattern; `days_of_each` of all), requests_per_event,
    pivots_hash, weekdays, partitions, bytes (one number a partition), and positions (lon, lat) or null. Where the
    first pattern has `reads`, the entry `ceps.reads` holds them: a zstd-compressed Arrow stream in base64 with the
    columns `partitions` (list of numbers) and `requests_per_day`, and `total` and `sampled` in its metadata.

    Raises
    ------
    ValueError
        Nothing to write, two of the patterns are of the same day, they differ in partitions or slots, or slots
        of a week do not divide its days.
    """
    given = [patterns] if isinstance(patterns, Patterns) else list(patterns)
    if not given:
        raise ValueError("no patterns to write; give at least one")
    days = [day for item in given for day in _days(item)]
    first = days[0]
    weekdays = [day.weekday for day in days]
    if len(set(weekdays)) < len(weekdays):
        raise ValueError(f"weekdays {weekdays}: each day may be written once")
    for day in days[1:]:
        if day.slots != first.slots or not np.array_equal(day.partitions, first.partitions):
            raise ValueError(f"weekday {day.weekday} has other partitions or slots than weekday {first.weekday}")
    _write(Path(path), days)


def _write(path: Path, days: list[Patterns]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    tables = []
    for day in days:
        row, slot = np.nonzero(day.loads)
        weekday = (
            pa.nulls(len(row), pa.int8()) if day.weekday is None else pa.array(np.full(len(row), day.weekday, np.int8))
        )
        arrays = [
            pa.array(day.partitions[row]),
            weekday,
            pa.array(slot.astype(np.int32)),
            pa.array(day.loads[row, slot]),
        ]
        tables.append(pa.table(dict(zip(_COLUMNS, arrays, strict=True))))
    first = days[0]
    about = {
        "format": FORMAT,
        "slot_seconds": first.slot_seconds,
        "time_zone": first.time_zone,
        "days_observed": first.days,
        "days_of_each": [day.days for day in days],
        "requests_per_event": first.requests_per_event,
        "pivots_hash": first.pivots_hash,
        "weekdays": [day.weekday for day in days],
        "partitions": first.partitions.tolist(),
        "bytes": first.sizes.tolist(),
        "positions": None if first.positions is None else first.positions.tolist(),
        "variation": None
        if first.variation is None
        else {
            "levels": first.variation.levels.tolist(),
            "own": first.variation.own.tolist(),
        },
    }
    metadata: dict[bytes, Any] = {_KEY: json.dumps(about)}
    if first.reads is not None:
        metadata[_READS] = _packed(first.reads, first.partitions)
    table = pa.concat_tables(tables).replace_schema_metadata(metadata)
    pq.write_table(table, path, compression="zstd")


def read_patterns(path: str | Path, weekday: int | None = None, *, week: bool | None = None) -> Patterns:
    """Patterns of a file: of `weekday`, or of a whole `week`, each weekday as it was; or the mean of all days.

    Without either: the week where the file holds a weekday besides other days, else the only day it has. A weekday
    that was not observed is taken as the mean of all days. With `week` False, the mean of all days. Slots without a
    row are 0 requests/s.

    Raises
    ------
    ValueError
        Not a patterns file, of a later format, without that weekday, or a row that its metadata does not cover.
    FileNotFoundError
        There is no such file.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    if not Path(path).exists():
        raise FileNotFoundError(f"{path}: no such file")
    try:
        table = pq.read_table(path)
    except pa.ArrowInvalid as error:
        raise ValueError(f"{path}: not a Parquet file: {error}") from error
    about = _about(path, table.schema.metadata or {})
    missing = [name for name in _COLUMNS if name not in table.column_names]
    if missing:
        raise ValueError(f"{path}: column {missing[0]!r} is missing; found {', '.join(table.column_names)}")
    held: list[int | None] = about["weekdays"]
    noise = about.get("variation")
    days_of: list[float] = about.get("days_of_each") or [about["days_observed"]] * len(held)
    wanted: list[int | None]
    known = [day for day in held if day is not None]
    if week is None:
        week = weekday is None and bool(known) and len(held) > 1
    if week:
        wanted = [day if day in held or None not in held else None for day in range(7)]
    elif weekday is not None:
        wanted = [weekday]
    else:
        wanted = [None if None in held or len(held) > 1 else held[0]]
    absent = [day for day in wanted if day not in held]
    if absent:
        raise ValueError(f"{path}: holds no weekday {absent[0]}; it holds {held}")
    columns = {name: table[name].to_numpy() for name in ("partition", "slot", "requests_per_second")}
    days = table["weekday"].fill_null(-1).to_numpy()
    parts = []
    for day in wanted:
        rows = days == (-1 if day is None else day)
        parts.append(_matrix(path, about, {name: column[rows] for name, column in columns.items()}))
    return Patterns(
        loads=np.concatenate(parts, axis=1),
        sizes=np.array(about["bytes"], dtype=np.float64),
        partitions=np.array(about["partitions"], dtype=np.int64),
        slot_seconds=about["slot_seconds"],
        positions=None if about["positions"] is None else np.array(about["positions"], dtype=np.float64).reshape(-1, 2),
        time_zone=about["time_zone"],
        weekday=wanted[0] if len(wanted) == 1 else None,
        days=min(days_of[held.index(day)] for day in wanted),
        requests_per_event=about["requests_per_event"],
        pivots_hash=about["pivots_hash"],
        reads=_reads(path, about, (table.schema.metadata or {}).get(_READS)),
        variation=None if noise is None else variation_from_lists(noise["levels"], noise["own"]),
    )


def _packed(reads: Reads, partitions: np.ndarray) -> bytes:
    import pyarrow as pa

    sets = pa.ListArray.from_arrays(pa.array(reads.start, pa.int32()), pa.array(partitions[reads.row]))
    batch = pa.record_batch([sets, pa.array(reads.weight)], names=["partitions", "requests_per_day"])
    batch = batch.replace_schema_metadata({"total": reads.total.hex(), "sampled": reads.sampled.hex()})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as stream:
        stream.write_batch(batch)
    return base64.b64encode(sink.getvalue())


def _reads(path: str | Path, about: dict[str, Any], packed: bytes | None) -> Reads | None:
    """Return what requests read together, None where the file does not say."""
    import pyarrow as pa

    if packed is None:
        return None
    try:
        with pa.ipc.open_stream(pa.BufferReader(base64.b64decode(packed, validate=True))) as stream:
            table = stream.read_all().combine_chunks()
        sets, weight = table["partitions"].combine_chunks(), table["requests_per_day"].to_numpy()
        facts = {name: float.fromhex(table.schema.metadata[name.encode()].decode()) for name in ("total", "sampled")}
    except (ValueError, KeyError, pa.ArrowException) as error:
        raise ValueError(f"{path}: metadata {_READS.decode()!r} is damaged: {error}; write the file anew") from error
    start, number = sets.offsets.to_numpy().astype(np.int64), sets.values.to_numpy()
    row, unknown = _rows_of(about, number)
    if unknown.any():
        raise ValueError(f"{path}: partition {number[unknown][0]} is read but has no bytes in the metadata")
    return Reads(start, row, weight, **facts)


def _days(patterns: Patterns) -> list[Patterns]:
    if patterns.period == DAY:
        return [patterns]
    if patterns.slots % 7:
        raise ValueError(
            f"a week of {how_many(patterns.slots, 'slot')} of {patterns.slot_seconds} s cannot be written by day; use "
            "a slot length that divides a day"
        )
    per_day = patterns.slots // 7
    return [
        replace(patterns, loads=patterns.loads[:, day * per_day : (day + 1) * per_day], weekday=day) for day in range(7)
    ]


def _about(path: str | Path, metadata: dict[bytes, bytes]) -> dict[str, Any]:
    if _KEY not in metadata:
        raise ValueError(
            f"{path}: not a patterns file: metadata {_KEY.decode()!r} is missing; write it with write_patterns"
        )
    about: dict[str, Any] = json.loads(metadata[_KEY])
    if about.get("format", 0) > FORMAT:
        raise ValueError(f"{path}: format {about['format']} is later than {FORMAT}, the last this version reads")
    return about


def _matrix(path: str | Path, about: dict[str, Any], rows: dict[str, np.ndarray]) -> np.ndarray:
    slots = DAY // about["slot_seconds"]
    row, unknown = _rows_of(about, rows["partition"])
    if unknown.any():
        raise ValueError(f"{path}: partition {rows['partition'][unknown][0]} has rows but no bytes in the metadata")
    outside = (rows["slot"] < 0) | (rows["slot"] >= slots)
    if outside.any():
        raise ValueError(f"{path}: slot {rows['slot'][outside][0]}; it must be 0 to {slots - 1}")
    loads = np.zeros((len(about["partitions"]), slots))
    np.add.at(loads, (row, rows["slot"]), rows["requests_per_second"])
    return loads


def _rows_of(about: dict[str, Any], numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the row of each partition that is named, and whether it is in none."""
    partitions = np.array(about["partitions"], dtype=np.int64)
    if not len(partitions):
        return np.zeros(len(numbers), np.int64), np.ones(len(numbers), bool)
    order = np.argsort(partitions)
    row = order[np.minimum(np.searchsorted(partitions, numbers, sorter=order), len(order) - 1)]
    return row, partitions[row] != numbers
