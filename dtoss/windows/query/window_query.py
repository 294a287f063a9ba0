"""What is asked of the windows of a store: one end, one key over many ends, flows, counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dtoss.commits.file_entry import Missing
from dtoss.errors import InputError
from dtoss.watch.subscriptions.forms import instant_of, instant_said
from dtoss.windows.aggregation.pane_state import Columns
from dtoss.windows.aggregation.windows_at_watermark import check_length, flow_between, window_now
from dtoss.windows.durations import duration_of, duration_text, time_text
from dtoss.windows.query.open_files import (
    ALL_PANES,
    ALL_SUMS,
    LAST_VISITS,
    Reader,
    StateAsked,
    hours_read,
    results_between,
    with_final,
)
from dtoss.windows.query.wide import BEFORE_MEASURES, Names, answer_of, changed_between, dense, wide_of
from dtoss.windows.spec import Spec
from dtoss.windows.storage.keys_file import keys_in
from dtoss.windows.storage.sets import Sets, current_of, sets_of
from dtoss.windows.storage.spec_file import read_spec
from dtoss.windows.storage.window_document import Document, Home, begun_windows, document_of
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
    sets = sets_of(home)
    return _opened(current_of(home, sets), sets)


def _opened(home: Home, sets: Sets) -> Windows:
    fixed = read_spec(home)
    return Windows(home, fixed.spec, begun_windows(home), Reader(home, fixed.keys), sets)


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
    reader
        What was read of them: files stay open, verified once, also for :meth:`newest`.
    sets
        Which sets of windows the name has: these may have replaced others, and others may be about to replace them.
    """

    home: Home
    spec: Spec
    head: Document
    reader: Reader = field(repr=False, compare=False)
    sets: Sets = field(default=Sets(), repr=False)

    def newest(self) -> Windows:
        """Return the windows at the newest commit; what was read stays open for both.

        Raises
        ------
        StoreError
            As :func:`open_windows`.
        OSError
            If it cannot be read.
        """
        sets = self.sets
        if sets.commit is not None or self.home.sets.hint() is not None:
            sets = sets_of(self.home)
        if sets.current.number == self.home.number:
            head, before = begun_windows(self.home), self.head.commit
            if head.commit.sha256 == before.sha256:
                return self if sets == self.sets else replace(self, sets=sets)
            if head.number > before.number and self.home.batches.read(before.number).sha256 == before.sha256:
                return replace(self, head=head, sets=sets)
        return open_windows(self.home.store, self.home.name)  # others took over, or they were begun anew

    @property
    def since(self) -> int | None:
        """The first end of these windows, in microseconds; None where no others of this name were before them."""
        return next((one.since for one in self.sets.answering if one.number == self.home.number), None)

    def of_end(self, end: Any) -> Windows:
        """Return the windows of this name that answer an end: these, or those that they have replaced.

        Parameters
        ----------
        end
            As :meth:`at`.

        Raises
        ------
        InputError
            If it is no time, or those of before are kept no longer.
        StoreError, OSError
            As :func:`open_windows`.
        """
        if self.since is None or end is None:
            return self
        at = self._time(end, "end")
        return self if at >= self.since else self._before(at).of_end(end)

    def of_ends(self, since: Any, until: Any = None) -> Windows:
        """Return the windows of this name that answer all ends of a time: these, or those that they have replaced.

        Parameters
        ----------
        since, until
            The first end and the last; the watermark when None.

        Raises
        ------
        InputError
            If there are ends of both, a time is none, or those of before are kept no longer.
        StoreError, OSError
            As :func:`open_windows`.
        """
        if self.since is None or self._time(since, "since") >= self.since:
            return self
        if until is None or self._time(until, "until") >= self.since:
            raise InputError(
                f"windows {self.home.name} were replaced by others from the end {time_text(self.since)} on: ask for "
                "ends from then on, or for those before"
            )
        return self._before(self._time(since, "since")).of_ends(since, until)

    def _before(self, at: int) -> Windows:
        """Return the windows that these have replaced."""
        numbers = [one.number for one in self.sets.answering]
        place = numbers.index(self.home.number)
        if place == 0:
            assert self.since is not None
            raise InputError(
                f"{time_text(at)} is the end of a window no longer kept (--retain): those from {time_text(self.since)} "
                "on are"
            )
        home = Home(self.home.store, self.home.name, numbers[place - 1])
        return self.reader.made("before", str(home.number), lambda: _opened(home, self.sets))

    @cached_property
    def names(self) -> Names:
        """What the keys are called."""
        return Names(self.spec, *keys_in(self.reader.material))

    @cached_property
    def _results(self) -> list[str]:
        names: list[str] = Columns(self.spec).results.names
        return names

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
            Of key, name (of sites and polygons that have one, and cells of H3), end in microseconds since 1970,
            revision (0 for the first word) and final, and what :func:`dtoss.windows.query.wide.answer_of` says of the
            measures.

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
        if (found := self.of_end(end)) is not self:
            return found.at(end, window)
        length = self._length(window)
        if length not in self.spec.lengths:
            return self.names.beside(self._now(length, end))
        at = self._last() if end is None else self._end(end)
        name = self.spec.names[self.spec.lengths.index(length)]

        def made() -> tuple[pa.Table, int]:
            rows = results_between(self.reader, self.spec, self.head, at, at, self._columns(name))
            table = self.names.beside(self._answer(rows, name))
            return table, table.nbytes

        return self.reader.answers.of((self.head.commit.sha256, at, name), made)

    def wide(self, end: Any = None) -> pa.Table:
        """Return all declared lengths of an end side by side: a row for each key with any value, by key.

        Parameters
        ----------
        end
            As :meth:`at`.

        Returns
        -------
        pyarrow.Table
            As :meth:`at`, with the length behind each measure but ``here``: ``objects_5min``, ``objects_1h``.

        Raises
        ------
        InputError, StoreError, OSError
            As :meth:`at`.
        """
        if (found := self.of_end(end)) is not self:
            return found.wide(end)
        return self.names.beside(self._wide_or_one(self._last() if end is None else self._end(end), None))

    def wide_between(self, since: Any, until: Any = None) -> pa.Table:
        """Return all declared lengths of all ends of a time: a row for each end and key with any value, by both.

        Parameters
        ----------
        since, until
            Times, or seconds since 1970: ends from the first on, and up to the other one, which is the watermark when
            None.

        Returns
        -------
        pyarrow.Table
            As :meth:`wide`.

        Raises
        ------
        InputError
            If a time is none, or the first end is no longer kept.
        StoreError, OSError
            As :meth:`at`.
        """
        if (found := self.of_ends(since, until)) is not self:
            return found.wide_between(since, until)
        begin = self._time(since, "since")
        self._check_kept(begin)
        last = min(self._due(), self._due() if until is None else self._time(until, "until"))
        return self.names.beside(self._wide_rows(begin, last))

    def changed(
        self, end: Any = None, window: str | None = None, *, since: Any = None, commit: int | None = None
    ) -> pa.Table:
        """Return only the keys whose measures are others than before; one that has none any more is there with 0.

        Parameters
        ----------
        end
            As :meth:`at`.
        window
            A length of the spec, whose measures count; None for all of them, in wide rows.
        since
            An end of before, which is compared; None takes the one just before.
        commit
            The number of a commit, of a batch that somebody has seen: the last end that was due with it is compared, as
            it was known then.

        Returns
        -------
        pyarrow.Table
            As :meth:`wide`, or as :meth:`at` of a window.

        Raises
        ------
        InputError
            As :meth:`at`; or the length is not one of the spec, both ``since`` and ``commit`` are given, there is no
            such commit, or what it knew was merged with what came later, an hour after that at the least.
        StoreError, OSError
            As :meth:`at`.
        """
        if since is not None and commit is not None:
            raise InputError("an end and a commit are given to compare with: one of them is wanted")
        if window is not None and self._length(window) not in self.spec.lengths:
            raise InputError(
                f"what has changed of a window of {window} is not known: it is of {', '.join(self.spec.names)}"
            )
        if (found := self.of_end(end)) is not self:
            return found.changed(end, window, since=since, commit=commit)
        now = self._last() if end is None else self._end(end)
        then = self if commit is None else self._of_commit(commit)
        if commit is not None:
            before = then._last()
        else:
            before = now - self.spec.slide if since is None else self._end(since, "since")
        self._check_comparable(before, now)
        final = self.watermark is not None and now <= self.watermark - self.spec.late
        are = self._wide_or_one(now, window)
        try:
            were = then._wide_or_one(before, window)
        except Missing:
            if commit is None:
                raise
            raise InputError(
                f"what commit {commit} knew is no longer kept: results of past hours are merged; name an end, such as "
                f"{time_text(before)}"
            ) from None
        return self.names.beside(changed_between(were, are, now, final))

    def series(self, key: int | str, window: str, since: Any, until: Any = None) -> pa.Table:
        """Return one key over all ends of a time, also those at which it has no value.

        Parameters
        ----------
        key
            The key, or what it is called.
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
            If there is no such key, a time is none, the length is not one of the spec, or there are more than a million
            ends.
        StoreError
            If a file is missing or damaged.
        OSError
            If one cannot be read.
        """
        if (found := self.of_ends(since, until)) is not self:
            return found.series(key, window, since, until)
        number = self.names.key_of(key)
        length = self._length(window)
        if length not in self.spec.lengths:
            raise InputError(
                f"a window of {window} is not kept over time: those of {', '.join(self.spec.names)} are (--lengths)"
            )
        slide, due = self.spec.slide, self._due()
        begin = -(-self._time(since, "since") // slide) * slide
        last = min(due, due if until is None else self._time(until, "until")) // slide * slide
        count = max(0, (last - begin) // slide + 1)
        if count:
            self._check_kept(begin)
        if count > MOST_ENDS:
            raise InputError(f"there are {count:,} ends, and at most {MOST_ENDS:,} are returned: ask for less time")
        name = self.spec.names[self.spec.lengths.index(length)]
        rows = results_between(self.reader, self.spec, self.head, begin, last, self._columns(name), number)
        ends = begin + slide * np.arange(count)
        return self.names.beside(self._answer(dense(rows, ends, number), name, empty=True))

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
            Of from, to and moves, by these; -1 is in none. Keys that have names are called by from_name and to_name.

        Raises
        ------
        InputError
            If the measures have no flow, the end is not due, or the window is not kept any more.
        StoreError
            If a file is missing or damaged.
        OSError
            If one cannot be read.
        """
        if (found := self.of_end(end)) is not self:
            return found.flow(end, window)
        if "flow" not in self.spec.measures:
            raise InputError(
                f"windows {self.home.name} have no flow: their measures are {', '.join(self.spec.measures)}"
            )
        length, due = self._length(window), self._due()
        at = due if end is None else self._time(end, "end")
        self._check_multiple(at, self.spec.pane, "the pane")
        self._check_due(at)
        panes = self.state.asked(ALL_PANES).panes()
        kept = -(1 << 62) if panes.base is None else (panes.base - self.spec.longest) * self.spec.pane
        if at - length < kept:
            raise InputError(
                f"moves of a window of {window} that ends at {time_text(at)} are no longer kept: those that end from "
                f"{time_text(kept + length)} on are"
            )
        return self.names.beside(flow_between(self.spec, panes, at, length))

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
        found = instant_said(value) if isinstance(value, str) else instant_of(value)
        if found is None:
            raise InputError(f"{name} is {value!r}: a time such as 2026-01-31T12:00:00 (UTC) or seconds since 1970 is "
                             "wanted")  # fmt: skip
        return found

    def _last(self) -> int:
        """Return the last end that is due."""
        return self._due() // self.spec.slide * self.spec.slide

    def _wide_or_one(self, at: int, window: str | None) -> pa.Table:
        """Return all lengths of an end, or one that was declared, without names."""
        if window is None:
            return self._wide_rows(at, at)
        name = self.spec.names[self.spec.lengths.index(self._length(window))]
        return self._answer(results_between(self.reader, self.spec, self.head, at, at, self._columns(name)), name)

    def _wide_rows(self, first: int, last: int) -> pa.Table:
        rows = results_between(self.reader, self.spec, self.head, first, last, self._results[len(BEFORE_MEASURES) :])
        return wide_of(self.spec, with_final(self.spec, rows, self.watermark))

    def _of_commit(self, number: int) -> Windows:
        """Return these windows as a commit left them."""
        if not 0 < number <= self.head.number:
            raise InputError(f"there is no commit {number}: there are 1 to {self.head.number}")
        return replace(self, head=document_of(self.home, self.home.batches.read(number)))

    def _end(self, end: Any, name: str = "end") -> int:
        at = self._time(end, name)
        self._check_multiple(at, self.spec.slide, "the slide")
        self._check_due(at)
        self._check_kept(at)
        return at

    def _check_kept(self, at: int) -> None:
        kept_from = hours_read(self.reader, self.head).kept_from
        if at < kept_from:
            raise InputError(
                f"{time_text(at)} is the end of a window no longer kept (--retain): those from {time_text(kept_from)} "
                "on are"
            )

    def _check_comparable(self, before: int, now: int) -> None:
        if self.since is not None and before < self.since:
            raise InputError(
                f"{time_text(before)} is an end of the windows that these have replaced, and {time_text(now)} is not: "
                f"compare with ends from {time_text(self.since)} on"
            )

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
        return [column for column in self._results if column == "here" or column.endswith(f"_{name}")]

    def _answer(self, rows: pa.Table, name: str, *, empty: bool = False) -> pa.Table:
        rows = with_final(self.spec, rows, self.watermark)
        return answer_of(self.spec, rows, name, ("key", "end", "revision", "final"), empty=empty)

    @property
    def state(self) -> StateAsked:
        """What undeclared lengths and flows are answered from."""
        return StateAsked(self.reader, self.spec, self.head)

    def _now(self, length: int, end: Any) -> pa.Table:
        due = self._due()
        if end is not None and self._time(end, "end") != due:
            raise InputError(
                f"a window of {duration_text(length)} was not declared, and is known where it ends at the watermark, "
                f"{time_text(due)}: leave the end out, or ask for one of {', '.join(self.spec.names)}"
            )
        state = self.state.asked(ALL_PANES, ALL_SUMS)
        visitors: tuple[NDArray[np.int64], NDArray[np.int64]] = (np.zeros(0, np.int64), np.zeros(0, np.int64))
        if "objects" in self.spec.measures:
            found = state.asked(LAST_VISITS).visits()
            visitors = found.slots.keys, found.within(length // self.spec.pane)[0]
        rows = window_now(self.spec, state.panes(), due, length, "now", visitors, state.sums())
        count = len(rows)
        rows = rows.append_column("end", pa.array(np.full(count, due)))
        rows = rows.append_column("revision", pa.array(np.zeros(count, np.int64)))
        rows = rows.append_column("final", pa.array(np.full(count, due <= (horizon_of(self.spec, due) or 0))))
        return answer_of(self.spec, rows, "now", ("key", "end", "revision", "final"))
