"""Replanning as a command does it: live patterns are read, a forecast is made, and the plan in force repaired."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from ceps.model.patterns import Patterns
from ceps.plan.plans import Plan
from ceps.plan.replan import Decision, Forecast, Past, Replanning, decide, forecast
from dtoss.commits.process import passing_name
from dtoss.errors import InputError
from pipelines.load_patterns.live_patterns import LivePatterns
from pipelines.loop.stopping import Stopping
from pipelines.plan_files import load_plan, with_bytes

FAILURES_IN_A_ROW = 3
"""Looks that may fail in a row; the last of them ends the command."""
LATE_SECONDS = 90.0
"""That the access log may be behind: a file a minute, and the look that counts it."""
WINDOW_SECONDS = 900.0
"""Today's level is that of so much time before now."""


@dataclass(frozen=True)
class Replanner:
    """What replans a store's servers."""

    live: LivePatterns  # Live patterns, which another process keeps (``dtoss patterns --live``); they are read only
    store: str  # Path or URI of the store, for the bytes of partitions
    plan: str  # File of the plan in force, which is replaced
    rules: Replanning  # When it is changed
    dry_run: bool  # Whether it is only said what would be done
    say: Callable[[Decision, dict[str, Any]], None]  # Is told of each decision, and what its line says as values

    def once(self, now: datetime | None = None) -> Decision:
        """Decide once, and write the plan if it changes.

        ``now``: the clock's time when None.
        """
        now = now or datetime.now(UTC)
        in_force, past = load_plan(self.plan), read_past(self.plan)
        expected = self.expected(now, in_force)
        found = decide(self.rules, in_force, expected, now.timestamp(), past)
        if not self.dry_run:
            if found.made is not None:
                _write(self.plan, lambda aside: found.made.save(aside, in_force))  # type: ignore[union-attr]
            _write(past_path(self.plan), lambda aside: Path(aside).write_text(json.dumps(asdict(found.past))))
        self.say(found, facts(found, expected, now, self.dry_run))
        return found

    def on_and_on(self, every: float, stopping: Stopping | None = None) -> None:
        """Decide each so many seconds, until somebody asks to end."""
        if not every > 0.0:
            raise InputError(f"--every is {every:g} s: more than 0 is wanted")
        stopping, failed = stopping or Stopping(), 0
        with stopping.listening():
            while not stopping.asked:
                try:
                    with stopping.cycle():
                        self.once()
                    failed = 0
                except (OSError, InputError) as error:
                    failed += 1
                    if failed >= FAILURES_IN_A_ROW:
                        raise
                    self.live.warn(f"{error}; the next look is in {every:g} s")
                stopping.wait(every)

    def expected(self, now: datetime, in_force: Plan) -> Forecast:
        """Return what is expected of the coming 24 hours."""
        asks = self.live.asks
        zone = UTC if asks.time_zone == "UTC" else ZoneInfo(asks.time_zone)
        local = now.astimezone(zone)
        day = local.date()
        done = self.live.last()
        usual = self.live.counted(done, 1.0, now).patterns[0]
        if in_force.pivots_hash != usual.pivots_hash:
            raise InputError(
                f"the plan is for pivots {in_force.pivots_hash}, live patterns are of {usual.pivots_hash}: make a plan "
                "of them (dtoss plan)"
            )
        usual = with_bytes(usual, self.store)
        today = self._today(done, day, now)
        seconds = (local - local.replace(hour=0, minute=0, second=0, microsecond=0)).total_seconds()
        # files of the log come a minute late: the slot that has just ended may not be whole
        seen = max(int((seconds - LATE_SECONDS) // usual.slot_seconds), 0)
        window = max(int(WINDOW_SECONDS // usual.slot_seconds), 1)
        return forecast(usual, _rows_of(today, usual), seen, window)

    def _today(self, done: Any, day: date, now: datetime) -> Patterns | None:
        asks = replace(self.live.asks, since=day, until=day + timedelta(days=1))
        try:
            return replace(self.live, asks=asks).counted(done, 1.0, now).patterns[0]
        except InputError:  # nothing was asked yet today
            return None


def _rows_of(today: Patterns | None, usual: Patterns) -> NDArray[np.float64]:
    """Return today's requests/s by partition and slot in the order of the usual ones."""
    found = np.zeros(usual.loads.shape)
    if today is not None:
        row = {number: at for at, number in enumerate(today.partitions.tolist())}
        for at, number in enumerate(usual.partitions.tolist()):
            if number in row:
                found[at] = today.loads[row[number]]
    return found


def facts(found: Decision, expected: Forecast, now: datetime, dry_run: bool) -> dict[str, Any]:
    """Return what is told of a decision, by name."""
    return {
        "time": now.isoformat(timespec="seconds"),
        "changed": found.made is not None and not dry_run,
        "would_change": found.made is not None,
        "why": found.why,
        "bytes_moved": found.moved,
        "dollars_per_day_before": found.before,
        "dollars_per_day": found.after,
        "level": round(expected.level, 4),
        "fullest": round(found.fullest, 4),
        "fullest_then": round(found.expected, 4),
        "servers": None if found.made is None else len(found.made),
    }


def line_of(found: Decision, said: dict[str, Any]) -> str:
    """Return a decision as one line: why, what moves, and the cost before and after."""
    level = f"level {said['level']:.2f}"
    if found.made is None:
        return f"{said['time']} the plan stays ({level}): {found.why}"
    verb = "the plan changes" if said["changed"] else "the plan would change"
    return (
        f"{said['time']} {verb} ({level}): {found.why}; {found.moved / 1e6:,.1f} MB move, {found.before:.2f} to "
        f"{found.after:.2f} dollars a day, {100 * found.expected:.0f} % full at the most then"
    )


def past_path(plan: str) -> str:
    """Return where it is kept what was decided of a plan."""
    return f"{plan}.replanned"


def read_past(plan: str) -> Past:
    """Return what was decided of a plan before; nothing where nothing was."""
    path = Path(past_path(plan))
    if not path.exists():
        return Past()
    try:
        said = json.loads(path.read_text())
        changes = tuple((float(at), float(size)) for at, size in said["changes"])
        since = said["saving_since"]
        return Past(changes, None if since is None else float(since))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path} is damaged ({error}): remove it, and what moved today is forgotten") from None


def _write(path: str, write: Callable[[str], Any]) -> None:
    """Write a file that is never seen half written."""
    target = Path(path)
    aside = target.with_name(f".{target.name}.{passing_name()}")
    try:
        write(str(aside))
        aside.replace(target)
    finally:
        aside.unlink(missing_ok=True)
