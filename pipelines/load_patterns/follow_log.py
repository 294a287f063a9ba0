"""Looks at a log, one after the other, and the patterns file that each leaves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import ceps
from dtoss.commits.lease import Writer
from dtoss.commits.process import passing_name
from dtoss.errors import InputError, StoreError
from dtoss.snapshots.store_location import hide_keys
from pipelines.load_patterns.live_patterns import LivePatterns, Look, leased, running_day
from pipelines.load_patterns.patterns_of_sums import CountedPatterns
from pipelines.loop.stopping import Stopping

FAILURES_IN_A_ROW = 3
"""Looks that may fail in a row; the last of them ends the following."""


@dataclass(frozen=True)
class Following:
    """What is done with live patterns after each look."""

    live: LivePatterns
    out: str  # The patterns file: local, and never seen half written
    max_bad: float = 0.10  # The share of bad rows from which on no patterns are made
    # Is told of each file that was written
    say: Callable[[Look, CountedPatterns], None] = field(default=lambda look, counted: None)

    def once(self, *, recount: bool = False) -> None:
        """Add what is new in the log, and write the file.

        ``recount``: count all anew first.
        """
        with leased(self.live.home, self.live.warn) as lease:
            done = self.live.look(lease, recount=recount)
            if done.commit == 0:
                raise InputError(
                    f"no file of a log is in {hide_keys(self.live.log_path)}: dtoss serve writes one a minute; name "
                    "its --access-log where that is elsewhere"
                )
            self._write(done)

    def on_and_on(self, every: float, *, recount: bool = False, stopping: Stopping | None = None) -> None:
        """Do so until somebody asks to end; the file is written where anything has changed, or a day has ended.

        ``every``: seconds from look to look; ``recount``: count all anew first; ``stopping``: whether somebody has
        asked to end; signals when None.
        """
        if not every > 0.0:
            raise InputError(f"--every is {every:g} s: more than 0 is wanted")
        stopping = stopping or Stopping()
        with leased(self.live.home, self.live.warn) as lease, stopping.listening():
            written: tuple[int, int] | None = None
            failed = 0
            while not stopping.asked:
                try:
                    with stopping.cycle():
                        written = self._look(lease, recount, stopping, written)
                    recount, failed = False, 0
                except (OSError, StoreError) as error:
                    failed += 1
                    if failed >= FAILURES_IN_A_ROW:
                        raise
                    self.live.warn(f"{error}; the next look is in {every:g} s")
                stopping.wait(every)

    def _look(
        self, lease: Writer, recount: bool, stopping: Stopping, written: tuple[int, int] | None
    ) -> tuple[int, int] | None:
        """Return the commit and the day that the file is of."""
        done = self.live.look(lease, recount=recount, stop=lambda: stopping.asked)
        of = done.commit, running_day(self.live.asks.time_zone)
        if of == written or done.commit == 0:
            return written
        try:
            self._write(done)
        except InputError as error:
            self.live.warn(str(error))  # no day has ended, say: it will
        return of

    def _write(self, done: Look) -> None:
        counted = self.live.counted(done, self.max_bad)
        target = Path(self.out)
        aside = target.with_name(f".{target.name}.{passing_name()}")
        try:
            ceps.write_patterns(aside, counted.patterns)
            aside.replace(target)
        finally:
            aside.unlink(missing_ok=True)
        self.say(done, counted)
