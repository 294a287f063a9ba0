"""Looking at all rows once, before anything is built: how many, where, a sample; ids that repeat without a time."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dtoss.buckets import hashes_of, seeded_hashes
from dtoss.errors import InputError, StoreError, Unreadable
from dtoss.geometry.land_squares import look_swapped
from dtoss.geometry.space import Space
from dtoss.history.row_blocks import latest
from dtoss.partition import numbers as arrow_of
from dtoss.partition import values_of
from dtoss.partitioning.pivots import sampled_one_in
from dtoss.rows.input_columns import NO_NUMBER, NOT_WHOLE, REASONS, TOO_LARGE
from dtoss.snapshots.store import Store
from pipelines.engines.rows import Batches, one_value
from pipelines.rows.position_frame import Positions
from pipelines.spark.session import cores

MANY_AT_ZERO = 0.001
MANY_FROM_360 = 0.1
LOOKED_AT = 1_000
"""Positions of which it is asked whether they are on land."""


@dataclass(frozen=True)
class Profile:
    """What one look at all rows says: how many, which are bad and why, where they are, and a sample."""

    read: int
    bad: dict[str, int]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    at_zero: int
    from_360: int
    sample: pa.Table
    modulus: int
    first: Any = None
    last: Any = None

    @property
    def good(self) -> int:
        """Rows that can be used."""
        return self.read - sum(self.bad.values())

    @property
    def extent(self) -> dict[str, Any]:
        """The box (low x, low y, high x, high y) and the first and last time of the good rows, None where unknown."""
        return {
            "box": [*self.low.tolist(), *self.high.tolist()] if self.good and not np.isnan(self.low).any() else None,
            "times": None if self.first is None else [self.first, self.last],
        }


def survey(positions: Positions, space: Space, partitions: int | None, per_partition: int, seed: int) -> Profile:
    """Look at every row: count, find the box, and take the rows whose hashed id falls into the sample."""
    frame = positions.frame
    tally = frame.tally
    at_least = partitions or max(-(-tally.read // per_partition), cores(positions.session))
    modulus = sampled_one_in(tally.read, at_least)
    names = ["id", "x", "y", *(["t"] if positions.timed else [])]

    def some(batches: Batches) -> Batches:
        for batch in batches:
            if modulus > 1:
                sampled = seeded_hashes(hashes_of(batch.column("id")), seed) % modulus == 0
                batch = batch.filter(arrow_of(sampled))
            yield batch

    kinds = pa.schema([frame.schema.field(name) for name in names])
    known = tally.low[0] <= tally.high[0]
    return Profile(
        read=tally.read,
        bad={reason: tally.bad[reason] for reason in REASONS},
        low=tally.low if known else np.full(2, np.nan),
        high=tally.high if known else np.full(2, np.nan),
        at_zero=tally.at_zero,
        from_360=tally.from_360,
        sample=frame.rows(names).map(some, kinds).table(kinds),
        modulus=modulus,
        first=None if tally.times is None else _said_time(tally.times[0]),
        last=None if tally.times is None else _said_time(tally.times[1]),
    )


def _said_time(time: pa.Scalar) -> Any:
    """Return a time as a manifest has it: a number, or Spark's text of a moment, a day or a decimal."""
    if not pa.types.is_timestamp(time.type):
        return time.as_py() if pa.types.is_integer(time.type) or pa.types.is_floating(time.type) else str(time.as_py())
    text = str(pc.strftime(time.cast(pa.timestamp("us")), "%Y-%m-%d %H:%M:%S").as_py())
    return text.rstrip("0").rstrip(".") if "." in text else text


def judge(profile: Profile, space: Space, max_bad: float, warn: Callable[[str], None]) -> None:
    """Raise where too many rows are bad; tell what looks wrong."""
    if large := profile.bad[TOO_LARGE]:
        raise InputError(
            f"{large:,} of {profile.read:,} ids are uint64 of 2^63 or more: ids are whole numbers of 64 bits with a "
            "sign, or text; cast the column to text"
        )
    bad = profile.read - profile.good
    reasons = "; ".join(f"{n:,} {reason}" for reason, n in profile.bad.items() if n)
    if bad > max_bad * profile.read:
        hint = ""
        if space.geographic and profile.from_360 > MANY_FROM_360 * profile.read:
            hint = "; longitudes seem to run from 0 to 360: subtract 360 where they are above 180 (--wrap)"
        elif space.geographic and profile.bad["latitude out of range"] > 0.5 * bad:
            hint = "; latitudes are out of range: are lon and lat swapped (--x, --y), or is this another CRS (--crs)?"
        elif profile.bad.get(NO_NUMBER, 0) > 0.5 * bad:
            hint = "; coordinates are no numbers: is their mark a comma (--decimal ,), or are they points (--geometry)?"
        raise InputError(
            f"{bad:,} of {profile.read:,} rows are bad ({reasons}), more than --max-bad {100 * max_bad:g}% allows; "
            f"the current snapshot stays{hint}"
        )
    if texts := profile.bad.get(NOT_WHOLE):
        warn(
            f"{texts:,} ids are text where others are whole numbers, and are set aside: --id-type text keeps all ids "
            "as text; a store of whole numbers is rebuilt with it once, from all rows"
        )
    if profile.at_zero > MANY_AT_ZERO * max(profile.good, 1):
        warn(f"{profile.at_zero:,} of {profile.good:,} rows are at (0, 0): is that where they are, or is it 'unknown'?")

    if space.geographic:
        some = profile.sample.slice(0, LOOKED_AT)
        if note := look_swapped(*(values_of(some.column(name)) for name in ("x", "y"))):
            warn(f"{note}: lon comes before lat; --x and --y name their columns")


def sampled_vectors(profile: Profile, positions: Positions, space: Space) -> tuple[NDArray[np.float64], int]:
    """Return the vectors of the sampled objects in an order of their own, and how many objects there are about."""
    table = profile.sample
    if positions.timed and len(table):
        table = latest(table.combine_chunks(), ["x", "y"])
    places = (
        np.stack([values_of(table.column(name)) for name in ("x", "y")], axis=1) if len(table) else np.zeros((0, 2))
    )
    vectors = space.vectors(places.astype(np.float64))
    objects = len(table) * profile.modulus if positions.timed else profile.good
    return vectors[np.lexsort(vectors.T[::-1])], objects


def objects_now(store: Store) -> int | None:
    """Return how many objects the current snapshot has; None where there is none, or it is damaged."""
    try:
        return int(store.manifest()["objects"])
    except Unreadable:
        raise
    except (StoreError, KeyError, TypeError, ValueError):
        return None


ROWS_PER_TASK = 1_000_000
"""Rows that one task looks through for the latest of each id."""


def task_count(rows: int, at_once: int) -> int:
    """Return how many tasks share so many rows: one for each million, at least as many as run at once."""
    return int(min(max(-(-rows // ROWS_PER_TASK), at_once), 2000))


def count_ids(positions: Positions, rows: int) -> tuple[int, int, list[str]]:
    """Return how many ids good rows have, how many stand more than once, and three of these at the most.

    Only ids are shuffled.
    """
    tasks = task_count(4 * rows, cores(positions.session))
    found = positions.good(["id"]).exchange_by_hash(tasks, "id").map(_count, "counts string").values()
    counts = [json.loads(text) for text in found]
    some = sorted(text for _, _, texts in counts for text in texts)
    return sum(ids for ids, _, _ in counts), sum(repeated for _, repeated, _ in counts), some[:3]


def _count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    columns = [batch.column(0) for batch in batches]
    if not columns:
        return
    groups = pc.value_counts(pa.chunked_array(columns))
    values = groups.field("values").filter(pc.greater(groups.field("counts"), 1))
    some = [str(value) for value in sorted(values.slice(0, 1000).to_pylist())[:3]]
    yield one_value("counts", json.dumps([len(groups), len(values), some]))
