"""From parsed fields to rows in the standard columns, kept or dropped for a reason, and on to Parquet."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from datasets.tables.command import BadInput, say
from datasets.tables.legal_positions import Bools, Numbers, judge
from datasets.tables.seeded_batches import write_parquet
from datasets.tables.time_notations import TIMESTAMP, Times


@dataclass(frozen=True)
class Counts:
    """Rows read, kept and dropped; ``a + b`` adds two files or two parts of one.

    Examples
    --------
    >>> a = Counts(read=2, kept=1, dropped={"no position": 1})
    >>> (a + a).read, (a + a).dropped["no position"]
    (4, 2)
    """

    read: int = 0  # Rows in the source, header lines left out
    kept: int = 0  # Rows with a legal position, passed on
    dropped: Mapping[str, int] = field(default_factory=dict)  # Rows left out, by reason; together they are read - kept
    # Rows kept although something in them could not be used (a time that is null now), by reason; a row may have
    # several
    flawed: Mapping[str, int] = field(default_factory=dict)
    examples: Mapping[str, str] = field(default_factory=dict)  # For each reason, the first row it happened to
    notes: tuple[str, ...] = ()  # What to check about a whole file

    def __post_init__(self) -> None:
        if self.read != self.kept + sum(self.dropped.values()):
            raise ValueError(f"{self.read} rows read, but {self.kept} kept and {dict(self.dropped)} dropped")
        for name in ("dropped", "flawed", "examples"):
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            read=self.read + other.read,
            kept=self.kept + other.kept,
            dropped=_sum(self.dropped, other.dropped),
            flawed=_sum(self.flawed, other.flawed),
            examples={**other.examples, **self.examples},
            notes=tuple(dict.fromkeys(self.notes + other.notes)),
        )

    def report(self) -> str:
        """Return the lines for stderr: totals, then one line for each reason, most frequent first."""
        dropped = sum(self.dropped.values())
        lines = [f"{self.read:,} rows read, {self.kept:,} kept, {dropped:,} dropped"]
        for what, reasons in (("dropped", self.dropped), ("kept with a flaw", self.flawed)):
            for reason, rows in sorted(reasons.items(), key=lambda item: (-item[1], item[0])):
                example = self.examples.get(reason)
                lines.append(f"  {what} {rows:,}: {reason}" + (f" (first: {example})" if example else ""))
        return "\n".join(lines + [f"  note: {note}" for note in self.notes])


def add_up(counts: Iterable[Counts]) -> Counts:
    """Return the sum."""
    return reduce(Counts.__add__, counts, Counts())


def _sum(a: Mapping[str, int], b: Mapping[str, int]) -> dict[str, int]:
    return {reason: a.get(reason, 0) + b.get(reason, 0) for reason in {**a, **b}}


Part = tuple[pa.RecordBatch, Counts]
"""Kept rows, and the counts of those and of the rows that were left out with them."""

ZERO = "position (0, 0): legal, often a default"


def standard_schema(
    id_type: pa.DataType | None = None,
    uid_type: pa.DataType | None = None,
    timed: bool = True,
    columns: Mapping[str, pa.DataType] | None = None,
) -> pa.Schema:
    """Return the standard columns: id, uid where there is one, t where there is one, lon, lat, then others.

    ``id_type``: none: int64, the number of the kept row; ``uid_type``: none: no uid; ``timed``: whether there is a
    ``t``, timestamp[us, UTC].
    """
    fields = [("id", id_type or pa.int64())]
    fields += [("uid", uid_type)] if uid_type is not None else []
    fields += [("t", TIMESTAMP)] if timed else []
    fields += [("lon", pa.float64()), ("lat", pa.float64())]
    return pa.schema(fields + list((columns or {}).items()))


def assemble(
    schema: pa.Schema,
    path: Path,
    raw: pa.RecordBatch,
    lon: Numbers,
    lat: Numbers,
    times: Times | None,
    columns: Mapping[str, pa.Array],
    rejected: Mapping[str, Bools],
    flawed: Mapping[str, Bools],
) -> Part:
    """Return the legal rows of a batch, and what became of all of them.

    ``schema``: the columns to return, ``id`` only if ``columns`` has it; ``lon``, ``lat``: degrees; ``times``: none
    when the source has none.
    """
    n = len(lon.value)
    dropped: dict[str, Bools] = {}
    keep = np.ones(n, dtype=np.bool_)
    for reason, bad in {**judge(lon, lat), **rejected}.items():
        dropped[reason] = bad & keep
        keep = keep & ~bad
    flaws = {**flawed, **(times.flaws if times else {}), ZERO: (lon.value == 0) & (lat.value == 0)}
    flaws = {reason: rows & keep for reason, rows in flaws.items()}
    everything = {"lon": pa.array(lon.value), "lat": pa.array(lat.value), **columns}
    if times:
        everything["t"] = times.t
    names = [name for name in schema.names if name != "id" or name in columns]
    table = pa.record_batch([everything[name] for name in names], names=names)
    counts = Counts(
        read=n,
        kept=int(keep.sum()),
        dropped={reason: int(rows.sum()) for reason, rows in dropped.items() if rows.any()},
        flawed={reason: int(rows.sum()) for reason, rows in flaws.items() if rows.any()},
        examples={
            reason: _example(raw, int(rows.argmax()), path)
            for reason, rows in {**dropped, **flaws}.items()
            if rows.any()
        },
    )
    return table if keep.all() else table.filter(pa.array(keep)), counts


def _example(raw: pa.RecordBatch, row: int, path: Path) -> str:
    values = ((name, raw.column(i)[row].as_py()) for i, name in enumerate(raw.schema.names))
    fields = ", ".join(f"{name}={value}" for name, value in values if value not in (None, ""))
    return f"{fields[:120]} in {path.name}"


def number_rows(parts: Iterable[Part], schema: pa.Schema) -> Iterator[Part]:
    """Put the running number of the kept row in front as ``id`` where the source has no ids of its own."""
    start = 0
    for batch, counts in parts:
        if "id" not in batch.schema.names:
            ids = pa.array(np.arange(start, start + batch.num_rows))
            batch = pa.record_batch([ids, *batch.columns], names=["id", *batch.schema.names])
        start += batch.num_rows
        yield batch.cast(schema), counts


def collect(parts: Iterable[Part], schema: pa.Schema) -> tuple[pa.Table, Counts]:
    """Return all rows as a table, and their counts; for files that fit into memory."""
    found = list(parts)
    return pa.Table.from_batches([batch for batch, _ in found], schema), add_up(counts for _, counts in found)


def save(parts: Iterable[Part], schema: pa.Schema, out: Path, name: str) -> Counts:
    """Write the rows to a Parquet file, report on stderr, return the counts."""
    total = Counts()

    def batches() -> Iterator[pa.RecordBatch]:
        nonlocal total
        for batch, counts in parts:
            total = total + counts
            yield batch
        if total.read and not total.kept:
            say(f"{name}: {total.report()}")
            raise BadInput(f"none of {total.read:,} rows could be kept, {out} is not written: is this the format?")

    write_parquet(batches(), schema, out)
    say(f"{name}: {total.report()}\n{name}: -> {out}")
    return total


def or_null(values: pa.Array, bad: Bools) -> pa.Array:
    """Return the values with null where ``bad``."""
    return pc.if_else(pa.array(bad), pa.scalar(None, values.type), values)
