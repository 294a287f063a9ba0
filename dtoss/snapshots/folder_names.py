"""Names of snapshots and of the folders that are none yet, or no longer."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from dtoss.commits.process import is_left, is_passing, passing_name

FRESH, REMOVED = ".new.", ".removed."
"""How the names of folders begin that are no snapshots yet, or no longer."""
_NAME = "%Y%m%dT%H%M%S.%fZ"
_LENGTH = len("20260101T000000.000000Z")


def name_in(data: bytes) -> str | None:
    """Return the name of a snapshot that bytes hold; None if it cannot be one."""
    try:
        name = data.decode("ascii").strip()
    except UnicodeDecodeError:
        return None
    legal = 0 < len(name) <= 100 and not name.startswith(".") and name.isprintable() and not set(name) & set("/\\")
    return name if legal else None


def later_than(names: list[str]) -> str:
    """Return the name of a snapshot made now: later than all others, whatever the clock says."""
    now = datetime.now(UTC)
    for name in names:
        try:
            then = datetime.strptime(name.removeprefix(REMOVED)[:_LENGTH], _NAME).replace(tzinfo=UTC)
        except ValueError:
            continue
        now = max(now, then + timedelta(microseconds=1))
    return now.strftime(_NAME)


def fresh_name() -> str:
    """Return the name of a folder that is to become a snapshot's."""
    return f"{FRESH}{passing_name()}"


def removed_name(snapshot: str) -> str:
    """Return another name for a snapshot's folder from which all is just being removed."""
    return f"{REMOVED}{snapshot}.{passing_name()}"


def is_left_over(name: str) -> bool:
    """Return whether a folder is one under a passing name that nobody fills any more, or one that is to go."""
    return name.startswith(REMOVED) or (name.startswith(FRESH) and (is_left(name) or not is_passing(name)))
