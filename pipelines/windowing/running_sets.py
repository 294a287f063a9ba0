"""Windows of a name that are being run: their set, the one that is to take over, and how long results are kept."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dtoss.commits.offsets import Ledger, Source
from dtoss.errors import InputError
from dtoss.watch.watch_settings import Settings
from dtoss.windows.durations import duration_of, duration_text, time_text
from dtoss.windows.migration.begin_set import begin_next, same_watermark
from dtoss.windows.migration.migration_text import under_way
from dtoss.windows.migration.take_over import count_batch, first_of, follow, give_up, read_by_all, settle_sets
from dtoss.windows.spec import Spec
from dtoss.windows.storage.sets import Sets, coming_of, current_of, sets_of
from dtoss.windows.storage.spec_file import read_spec
from dtoss.windows.storage.window_document import Home
from dtoss.windows.storage.window_plan import Options
from pipelines.loop.batch_report import Ran, Turns
from pipelines.rows.position_frame import Positions
from pipelines.windowing.begin_windows import Stands, fixed_for
from pipelines.windowing.window_batches import Moving, Windowing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class How:
    """How windows are run; what may differ from run to run."""

    # Share of bad rows above which a batch fails. The set that is to take over bears all: it holds nothing up
    max_bad: float = 0.1
    new_source: bool = False
    retain: str | None = None
    wrap: bool = False
    unit: str | None = None
    say: Callable[[Ran], None] = lambda ran: None
    warn: Callable[[str], None] = lambda line: None  # Is told when a set begins, and when it takes over
    moving: Moving | None = None
    clock: Callable[[], int] | None = None


@dataclass
class Running:
    """The sets of a name that run, one batch at a time. :func:`running_of` makes it."""

    home: Home  # Of any set of the name
    how: How
    _known: dict[tuple[int, bool], Windowing] = field(default_factory=dict)
    _turns: Turns = field(init=False)

    def __post_init__(self) -> None:
        self._turns = Turns(f"windows {self.home.name}")

    def settings(self) -> Settings | None:
        """Return the types of ids and times, as rows are fitted to them; None before the first batch."""
        return self._current(sets_of(self.home)).settings()

    def ledger(self) -> Ledger:
        """Return what all sets that run have read."""
        return read_by_all(self.home)

    def first(self, files: Mapping[str, int]) -> dict[str, int] | None:
        """Return which of the files that not all have come first, in one batch; None where any will do."""
        return first_of(self.home, files)

    def batch(
        self,
        session: SparkSession | None,
        positions: Positions,
        source: Source,
        check: Callable[[], None] = lambda: None,
    ) -> Ran | None:
        """Count a batch of rows in each set, a commit each; None where the current one has it."""
        return self._in_each(source, lambda one: one.batch(session, positions, source, check))

    def check(self, session: SparkSession | None, positions: Positions) -> None:
        """Raise InputError where rows cannot be taken: reads all of them, and commits nothing."""
        self._current(sets_of(self.home)).check(session, positions)

    def note(self, source: Source) -> Ran | None:
        """Commit that files count as read in each set, though none of their rows does; None before the first batch."""
        return self._in_each(source, lambda one: one.note(source))

    def beat(self) -> Ran | None:
        """Let the watermark follow the clock where there are no rows, in each set; None where no end becomes due."""
        with self._turns.turn():
            if self._turns.over:
                return None
            before = sets_of(self.home)
            ran = self._current(before).beat()
            if before.coming is not None:
                coming = coming_of(self.home, before)
                if same_watermark(read_spec(current_of(self.home, before)).spec, read_spec(coming).spec):
                    follow(self.home, before)
                else:
                    self._of(coming, True).beat()
                settle_sets(self.home)
                self._tell(before)
            return ran

    def end(self) -> None:
        """Let the batch in hand end, and have no other: whoever runs them next may begin."""
        self._turns.end()

    def _in_each(self, source: Source, do: Callable[[Windowing], Ran | None]) -> Ran | None:
        """Let each set that has not read a source do what is to be done with it."""
        with self._turns.turn():
            self._turns.check()
            before = sets_of(self.home)

            def of(one: Home) -> Ran | None:
                return do(self._of(one, before.coming is not None and one.number != before.current.number))

            ran = count_batch(self.home, source, of)
            self._tell(before)
            return ran

    def _current(self, sets: Sets) -> Windowing:
        return self._of(current_of(self.home, sets), False)

    def _of(self, home: Home, coming: bool) -> Windowing:
        """Return a set as it is run: the one to come tells nothing, and bears all rows."""
        found = self._known.get((home.number, coming))
        if found is None:
            how, fixed = self.how, read_spec(home)
            options = Options(1.0 if coming else how.max_bad, how.new_source, retained_of(how.retain, fixed.spec))
            say = _nothing if coming else how.say
            found = Windowing(home, fixed, options, how.wrap, how.unit, say, how.moving, how.clock)
            self._known[home.number, coming] = found
        return found

    def _tell(self, before: Sets) -> None:
        """Tell of a set that has taken over."""
        now = sets_of(self.home)
        if now.current.number != before.current.number and now.current.since is not None:
            self.how.warn(
                f"windows {self.home.name}: the new set has taken over; ends from {time_text(now.current.since)} on "
                "are its own"
            )


def running_of(home: Home, stands: Stands, how: How) -> Running:
    """Return windows that are ready to be run: a set that is asked for has begun.

    ``home``: of any set of the name, whose lease is held; ``stands``: what they are held to.
    """
    sets = sets_of(home)
    current = current_of(home, sets)
    retained_of(how.retain, stands.spec)
    fixed_for(current, stands.spec, stands.tables)
    if stands.given_up and sets.coming is not None:
        give_up(home, sets)
        how.warn(f"windows {home.name}: the set that was to take over is given up")
    if stands.coming is not None:
        spec, tables = stands.coming
        retained_of(how.retain, spec)
        sets = begin_next(current, sets, spec, dict(tables), time.time_ns() // 1000)
    found = Running(home, how)
    if sets_of(home).coming is not None:
        if (told := under_way(settle_sets(home))) is not None:
            how.warn(f"windows {home.name}: {told}")
        found._tell(sets)
    return found


def _nothing(ran: Ran) -> None:
    """Tell nobody."""


def retained_of(text: str | None, spec: Spec) -> int | None:
    """Return for how long results are kept, in microseconds; None where all are.

    ``text``: A duration such as ``7d``, or None.
    """
    if text is None:
        return None
    try:
        found = duration_of(text, "--retain")
    except ValueError as error:
        raise InputError(str(error)) from None
    if found < spec.late:
        raise InputError(
            f"--retain is {text.strip()} and --late {duration_text(spec.late)}: an end may change until then; keep "
            f"{duration_text(spec.late)} or more"
        )
    return found
