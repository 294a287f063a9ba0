"""Times of objects: the scale in which a store counts them, what now is, and how long before now something was."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dtoss.errors import InputError, StoreError
from dtoss.plain_numbers import number_in

_UNITS = {"s": 1, "ms": 1_000, "us": 1_000_000}
_DAY = 86_400
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Scale:
    """How a store counts time, since 1970: timestamps in microseconds, dates in days, numbers in their unit."""

    kind: str  # Spark's name of the type: ``timestamp``, ``timestamp_ntz``, ``date``, or one of numbers
    unit: str | None = None  # Of numbers: "s", "ms" or "us"; None of others

    @classmethod
    def of(cls, manifest: dict[str, Any]) -> Scale:
        """Return the scale of a snapshot's times."""
        said = manifest.get("time")
        if said is None:
            raise StoreError(
                f"snapshot {manifest['snapshot']!r} has no times, which say what of an object is the latest: rebuild "
                "once from all rows with --time COLUMN"
            )
        return cls(said["type"], said["unit"])

    @property
    def per_second(self) -> float:
        """How much of the scale a second is."""
        if self.kind.startswith("timestamp"):
            return 1e6
        return 1.0 / _DAY if self.kind == "date" else float(_UNITS[self.unit or "s"])

    def now(self) -> float:
        """Return the wall clock's time."""
        return self.rounded(time.time() * self.per_second)

    def before(self, moment: float, seconds: float) -> float:
        """Return the moment so many seconds before another one."""
        return moment - self.span(seconds)

    def span(self, seconds: float) -> float:
        """Return seconds as a number of the scale."""
        return self.rounded(seconds * self.per_second)

    def rounded(self, moment: float) -> float:
        """Return a moment as a number that the scale can hold."""
        return float(math.floor(moment)) if self.kind.startswith("timestamp") else float(moment)

    def read(self, text: str | float | datetime | date) -> float:
        """Return the moment that a user or a manifest means: ISO 8601 in UTC, or a number of the scale."""
        if isinstance(text, bool):
            raise InputError(f"now is {text!r}: a time is wanted")
        if isinstance(text, (int, float)):
            return float(text)
        if not isinstance(text, str):
            return self._of_datetime(text)
        try:
            if not (self.kind.startswith("timestamp") or self.kind == "date"):
                return number_in(text.strip())
        except ValueError:
            pass
        try:
            return self._of_datetime(datetime.fromisoformat(text.strip()))
        except ValueError:
            raise InputError(
                f"now is {text!r}: a time such as 2026-01-31T12:00:00 (UTC), or a number as the column's, is wanted"
            ) from None

    def _of_datetime(self, moment: datetime | date) -> float:
        if not isinstance(moment, datetime):
            moment = datetime(moment.year, moment.month, moment.day)
        moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
        return self.rounded((moment - _EPOCH) / timedelta(microseconds=1) / 1e6 * self.per_second)

    def said(self, moment: float | None) -> str | float | int | None:
        """Return a moment as a manifest says it: ISO 8601 in UTC of timestamps and dates, else a number."""
        if moment is None or not math.isfinite(moment):
            return None
        if self.kind.startswith("timestamp"):
            try:
                return (_EPOCH + timedelta(microseconds=int(moment))).isoformat()
            except OverflowError:
                return moment
        if self.kind == "date":
            try:
                return (_EPOCH + timedelta(days=moment)).isoformat()
            except OverflowError:
                return moment
        return int(moment) if moment == int(moment) else moment

    def numbers(self, times: pa.Array) -> NDArray[np.float64]:
        """Return times on the scale, float64 (n,): to a microsecond for the next two centuries."""
        kind = times.type
        if pa.types.is_timestamp(kind):
            times = times.cast(pa.timestamp("us", tz=kind.tz)).cast(pa.int64())
        elif pa.types.is_date(kind):
            times = times.cast(pa.date32()).cast(pa.int32())
        return times.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False).astype(np.float64)


@dataclass(frozen=True)
class Clock:
    """The moment at which a cycle ends, and how far back from it things count; moments are numbers of the scale."""

    scale: Scale  # Of the store's times
    now: float | None  # The moment; None where the data say it, and have not been read
    kind: str  # "wall", "given" or "data"
    expire: float | None = None  # Seconds after which an object that was not heard of goes; None for never
    deleted_for: float | None = 3600.0  # Seconds for which a deletion is remembered; None for ever
    max_ahead: float | None = 300.0  # Seconds after now from which on a row's clock is wrong; None for never

    @property
    def moment(self) -> float:
        """Now, where it is known."""
        assert self.now is not None
        return self.now

    @property
    def expired_before(self) -> float:
        """Objects older than this go; minus infinity where none does."""
        return -math.inf if self.expire is None else self.scale.before(self.moment, self.expire)

    @property
    def forgotten_before(self) -> float:
        """Deletions older than this are not remembered; minus infinity where all are."""
        return -math.inf if self.deleted_for is None else self.scale.before(self.moment, self.deleted_for)

    @property
    def ahead_after(self) -> float:
        """Rows after this have a wrong clock; infinity where none can have one, as where the data say what now is."""
        if self.max_ahead is None or self.now is None or self.kind == "data":
            return math.inf
        return self.now + self.scale.span(self.max_ahead)
