"""What is asked of the windows of a store: one end, one key over many ends, flows, counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dtoss.buckets import BUCKETS
from dtoss.errors import InputError
from dtoss.watch.asked.moments import instant_of
from dtoss.windows.answer import answer_of
from dtoss.windows.durations import duration_of, duration_text
from dtoss.windows.sliding.columns import Columns
from dtoss.windows.sliding.ending_now import check_length, flow_between, window_now
from dtoss.windows.sliding.pane_state import PaneState
from dtoss.windows.spec import Spec
from dtoss.windows.stored.document import Document, begun
from dtoss.windows.stored.files import PARTS, read_objects, read_panes
from dtoss.windows.stored.home import Home
from dtoss.windows.stored.result_files import results_between, with_final
from dtoss.windows.stored.spec_file import known
from dtoss.windows.tracks.visitors import visitors_of
from dtoss.windows.watermark import horizon_of

MOST_ENDS = 1_000_000
"""Ends of a series."""


def open_windows(store: str, name: str) -> Windows:
    """Return the windows of a store by their name, as the newest commit has them.

    Parameters
    ----------
    store
        Path or URI.
    name
        Of the windows.

    Raises
    ------
    StoreError
        If there are none of this name (the message says which there are), or they have not begun, or are damaged.
    InputError
        If it cannot be a name.
    OSError
        If something cannot be read.
    """
    home = Home(store, name)
    return Windows(home, known(home).spec, begun(home))


@dataclass(frozen=True)
class Windows:
    """Windows of a store at one commit. :func:`open_windows` opens them; who wants what came since opens them again.

    Parameters
    ----------
    home
        Where they are.
    spec
        What they were asked for.
    head
        The commit.
    """

    home: Home
    spec: Spec
    head: Document

    @property
    def watermark(self) -> int | None:
        """The time behind which ends are due, in microseconds since 1970; None before the first row."""
        return self.head.watermark

    @property
    def counts(self) -> Mapping[str, int]:
        """What all batches have counted.

        Of all ``rows`` that were read: ``counted``, ``losers`` (another row of the same object and time counts) and
        ``quarantined``, which are all of them together; pairs of rows that are ``jumps``; ``results`` and how many of
        these were ``revised``.
        """
        return self.head.totals

    @property
    def reasons(self) -> Mapping[str, int]:
        """Rows that were set aside, by reason."""
        reasons: Mapping[str, int] = self.head.commit.document["reasons_total"]
        return reasons

    def at(self, end: Any = None, window: str = "15min") -> pa.Table:
        """Return one window: a row for each key with any value, by key.

        Parameters
        ----------
        end
            A time, or seconds since 1970: a multiple of the slide. None takes the last end that is due; a length that
            was not declared ends at the watermark.
        window
            A length of the spec; of windows that end at the watermark any multiple of the pane up to the longest.

        Returns
        -------
        pyarrow.Table
            Of key, end in microseconds since 1970, revision (0 for the first word) and final, and what
            :func:`dtoss.windows.answer.answer_of` says of the measures.

        Raises
        ------
        InputError
            If the end is no time, not due or no multiple of the slide, or the length is none that is kept; the message
            names the nearest two.
        StoreError
            If a file is missing or damaged.
        OSError
            If one cannot be read.
        """
        length = self._length(window)
        due = self._due()
        if length not in self.spec.lengths:
            return self._now(length, end)
        at = due // self.spec.slide * self.spec.slide if end is None else self._end(end)
        name = self.spec.names[self.spec.lengths.index(length)]
        rows = results_between(self.home, self.spec, self.head, at, at, self._columns(name))
        return self._answer(rows, name)

    def series(self, key: int, window: str, since: Any, until: Any = None) -> pa.Table:
        """Return one key over all ends of a time, also those at which it has no value.

        Parameters
        ----------
        key
            The key.
        window
            A length of the spec.
        since, until
            Times, or seconds since 1970: ends from the first on, and up to the other one, which is the watermark when
            None.

        Returns
        -------
        pyarrow.Table
            As :meth:`at`, a row for each end.

        Raises
        ------
        InputError
            If a time is none, the length is not one of the spec, or there are more than a million ends.
        StoreError
            If a file is missing or damaged.
        OSError
            If one cannot be read.
        """
        length = self._length(window)
        if length not in self.spec.lengths:
            raise InputError(
                f"a window of {window} is not kept over time: those of {', '.join(self.spec.names)} are (--lengths)"
            )
        slide, due = self.spec.slide, self._due()
        begin = -(-self._time(since, "since") // slide) * slide
        last = min(due, due if until is None else self._time(until, "until")) // slide * slide
        count = max(0, (last - begin) // slide + 1)
        if count > MOST_ENDS:
            raise InputError(f"there are {count:,} ends, and at most {MOST_ENDS:,} are returned: ask for less time")
        name = self.spec.names[self.spec.lengths.index(length)]
        rows = results_between(self.home, self.spec, self.head, begin, last, self._columns(name), key)
        ends = begin + slide * np.arange(count)
        return self._answer(_dense(rows, ends, key), name, empty=True)

    def flow(self, end: Any = None, window: str = "15min") -> pa.Table:
        """Return how many moves there were between keys in a window.

        Parameters
        ----------
        end
            A time, or seconds since 1970: a multiple of the pane; the watermark when None.
        window
            Any multiple of the pane up to the longest length.

        Returns
        -------
        pyarrow.Table
            Of from, to and moves, by these; -1 is in none.

        Raises
        ------
        InputError
            If the measures have no flow, the end is not due, or the window is not kept any more.
        StoreError
            If a file is missing or damaged.
        OSError
            If one cannot be read.
        """
        if "flow" not in self.spec.measures:
            raise InputError(
                f"windows {self.home.name} have no flow: their measures are {', '.join(self.spec.measures)}"
            )
        length, due = self._length(window), self._due()
        at = due if end is None else self._time(end, "end")
        self._check_multiple(at, self.spec.pane, "the pane")
        self._check_due(at)
        try:
            return flow_between(self.spec, self._panes(), at, length)
        except ValueError as error:
            raise InputError(str(error)) from None

    # -- parts --------------------------------------------------------------------------------------------------------

    def _length(self, window: str) -> int:
        try:
            length = duration_of(window, "--window")
            if length not in self.spec.lengths:
                check_length(self.spec, length)
        except ValueError as error:
            raise InputError(str(error)) from None
        return length

    def _due(self) -> int:
        if self.watermark is None:
            raise InputError(f"windows {self.home.name} have read no row yet, and no end is due")
        return self.watermark

    def _time(self, value: Any, name: str) -> int:
        found = instant_of(value)
        if found is None:
            raise InputError(f"{name} is {value!r}: a time such as 2026-01-31T12:00:00 (UTC) or seconds since 1970 is "
                             "wanted")  # fmt: skip
        return found

    def _end(self, end: Any) -> int:
        at = self._time(end, "end")
        self._check_multiple(at, self.spec.slide, "the slide")
        self._check_due(at)
        return at

    def _check_multiple(self, at: int, step: int, which: str) -> None:
        if at % step:
            below = at // step * step
            raise InputError(
                f"no window ends at {time_text(at)}: ends are multiples of {which} of {duration_text(step)}; the "
                f"nearest are {time_text(below)} and {time_text(below + step)}"
            )

    def _check_due(self, at: int) -> None:
        if at > self._due():
            raise InputError(f"{time_text(at)} is not due: the watermark is {time_text(self._due())}")

    def _columns(self, name: str) -> list[str]:
        found = Columns(self.spec).results.names
        return [column for column in found if column == "here" or column.endswith(f"_{name}")]

    def _answer(self, rows: pa.Table, name: str, *, empty: bool = False) -> pa.Table:
        rows = with_final(self.spec, rows, self.watermark)
        return answer_of(self.spec, rows, name, ("key", "end", "revision", "final"), empty=empty)

    def _panes(self) -> PaneState:
        parts = self.head.files["panes"]
        return PaneState.joined(self.spec, [read_panes(self.home, self.spec, parts, part) for part in range(PARTS)])

    def _now(self, length: int, end: Any) -> pa.Table:
        due = self._due()
        if end is not None and self._time(end, "end") != due:
            raise InputError(
                f"a window of {duration_text(length)} was not declared, and is known where it ends at the watermark, "
                f"{time_text(due)}: leave the end out, or ask for one of {', '.join(self.spec.names)}"
            )
        visitors: tuple[NDArray[np.int64], NDArray[np.int64]] = (np.zeros(0, np.int64), np.zeros(0, np.int64))
        if "objects" in self.spec.measures:
            said = self.head.commit.document
            state = read_objects(self.home, self.head.files["objects"], np.arange(BUCKETS), said["id"], None)
            visitors = visitors_of(self.spec, state, due, length)
        rows = window_now(self.spec, self._panes(), due, length, "now", visitors)
        count = len(rows)
        rows = rows.append_column("end", pa.array(np.full(count, due)))
        rows = rows.append_column("revision", pa.array(np.zeros(count, np.int64)))
        rows = rows.append_column("final", pa.array(np.full(count, due <= (horizon_of(self.spec, due) or 0))))
        return answer_of(self.spec, rows, "now", ("key", "end", "revision", "final"))


def time_text(microseconds: int) -> str:
    """Return a time in ISO 8601, UTC.

    Examples
    --------
    >>> time_text(0), time_text(1_500_000)
    ('1970-01-01T00:00:00Z', '1970-01-01T00:00:01.5Z')
    """
    text = str(np.datetime64(microseconds, "us")).rstrip("0") if microseconds % 1_000_000 else ""
    return f"{text or np.datetime64(microseconds // 1_000_000, 's')}Z"


def _dense(rows: pa.Table, ends: NDArray[np.int64], key: int) -> pa.Table:
    """Return a row for each end; what has none is 0, and a speed null."""
    at = pc.index_in(pa.array(ends), value_set=rows["end"].combine_chunks())
    taken = rows.take(at)
    made = {}
    for field in taken.schema:
        column = taken[field.name]
        if field.name not in ("end", "key") and not Columns.is_speed(field.name):
            column = pc.fill_null(column, False if pa.types.is_boolean(field.type) else 0)
        made[field.name] = column
    made["end"], made["key"] = pa.array(ends), pa.array(np.full(len(ends), key))
    return pa.table(made)
