"""Which snapshots stay when a store is cleared, what is none, and the removal of both: nothing still written goes.

The folder of a snapshot in the making: it has a mark from the first, and in the end only what is listed.
"""

from __future__ import annotations

import errno
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta

from dtoss.commits.chain import Chain, Commit
from dtoss.commits.folder import Folder
from dtoss.commits.lease import Holder, leftovers
from dtoss.commits.log_compaction import clear_passing
from dtoss.commits.process import STALE_SECONDS, is_left, is_passing, passing_name
from dtoss.errors import StoreError, reason

KEPT_FOR_SECONDS = 600.0
"""On object stores a reader opens files late: what was current within this time stays."""


def kept(
    current: str, finished: Sequence[str], line: Iterable[str], keep: int | None, lately: frozenset[str]
) -> set[str]:
    """Return the snapshots that stay.

    The current one stays in any case, then those that rolling back leads to, then the latest of the others, ``keep`` in
    all; and beside these what was current lately.

    ``finished``: all that are finished, oldest first; ``keep``: at least 1; all stay when None.
    """
    if keep is None:
        return set(finished) | {current}
    staying: list[str] = [current]
    for name in line:
        if len(staying) >= keep:
            break
        if name not in staying:
            staying.append(name)
    others = [name for name in reversed(finished) if name not in staying]
    staying += others[: max(keep - len(staying), 0)]
    return {*staying, *lately}


def current_within(commits: Iterator[Commit], seconds: float, now: datetime | None = None) -> frozenset[str]:
    """Return the snapshots that were current less than so many seconds ago, and the current one.

    ``now``: this moment when None.
    """
    since = (now or datetime.now(UTC)) - timedelta(seconds=seconds)
    found = set()
    for commit in commits:
        if (name := snapshot_of(commit)) is not None:
            found.add(name)
        # what stands before it was current until then
        if commit.at <= since or seconds <= 0:
            break
    return frozenset(found)


def snapshot_of(commit: Commit) -> str | None:
    """Return the snapshot that a commit made current; None if it names none."""
    said = commit.document.get("snapshot")
    return name_in(said.encode(errors="replace")) if isinstance(said, str) else None


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


MARK = "WRITING"
"""The file that says who is making a snapshot; gone once it has become current."""


def is_debris(folder: Folder, snapshot: str) -> bool:
    """Return whether nobody goes on with a snapshot that is not finished.

    Of another machine's that is so after a day.
    """
    data = folder.read("snapshots", snapshot, MARK)
    if data is None:
        return not folder.is_file("snapshots", snapshot, "manifest.json")
    holder = Holder.read(data)
    if holder is None:
        return True
    if holder.here:
        return not holder.runs
    return time.time() - holder.began > STALE_SECONDS


def why_unfinished(folder: Folder, name: str) -> str:
    """Return why a folder is there that is no finished snapshot."""
    if name.startswith(REMOVED):
        return "could not be removed, or is just going"
    if name.startswith(FRESH) and not is_left_over(name):
        return "just being made"
    try:
        if name.startswith(FRESH) or is_debris(folder, name):
            return "debris, which the next rebuild removes"
        return f"made by {Holder.read(folder.read('snapshots', name, MARK) or b'')}; kept, for that may still run"
    except OSError as error:
        return f"it cannot be read: {reason(error)}"


def remove_snapshot(folder: Folder, name: str, points_to: Callable[[], str | None]) -> bool:
    """Remove a snapshot so that it is none at once, and its files after that; return whether it went.

    ``points_to``: tells the current snapshot. It is asked when this one is none any more, and before a file of it is
    gone: one that somebody has rolled back to meanwhile, without a lease, is put back. Whoever rolls back looks for it
    after the commit. So either this one sees the commit, or that one sees that the snapshot has gone.
    """
    manifest = ("snapshots", name, "manifest.json")
    if not folder.renames:
        data = folder.read(*manifest)
        folder.remove(*manifest)
        if data is not None and points_to() == name:
            folder.replace(data, *manifest)
            return False
        folder.remove_folder("snapshots", name)
        return True
    aside = removed_name(name)
    try:
        folder.move(("snapshots", name), ("snapshots", aside))
    except FileNotFoundError:
        return False
    if points_to() == name:
        folder.move(("snapshots", aside), ("snapshots", name))
        return False
    folder.remove_folder("snapshots", aside)
    return True


def clear_debris(
    folder: Folder,
    current: str | None,
    finished: Collection[str],
    points_to: Callable[[], str | None],
    warn: Callable[[str], None],
) -> list[str]:
    """Remove unfinished snapshots that nobody writes, and files under passing names; return the snapshots.

    ``points_to`` tells what is current by the time when one goes.
    """
    removed = []
    if current is not None:
        with warning(warn, folder.path("snapshots", current, MARK)):
            settle(folder, current)
    for name in folder.folders("snapshots"):
        with warning(warn, folder.path("snapshots", name)):
            if is_left_over(name):
                folder.remove_folder("snapshots", name)
                continue
            unfinished = name not in finished and name != current and not name.startswith(".")
            if unfinished and is_debris(folder, name) and remove_snapshot(folder, name, points_to):
                removed.append(name)
    with warning(warn, folder.path()):
        # of earlier versions, whose passing names told nothing
        passing = [name for name in folder.files() if name.startswith("CURRENT.") and not is_passing(name)]
        for name in [*passing, *leftovers(folder)]:
            folder.remove(name)
        clear_passing(Chain(folder))
    return removed


def settle(folder: Folder, current: str) -> None:
    """Remove the mark that a process left which was killed when its snapshot had become current."""
    if folder.is_file("snapshots", current, MARK):
        folder.remove("snapshots", current, MARK)


@contextmanager
def warning(warn: Callable[[str], None], path: str) -> Iterator[None]:
    """Turn what a file system refuses, or a lost lease, into a warning that a path was not removed."""
    try:
        yield
    except (OSError, StoreError) as error:
        why = reason(error) if isinstance(error, OSError) else str(error)
        name = getattr(error, "filename", None) or path
        warn(f"{name} could not be removed ({why}): the next rebuild tries again")


def make_folder(folder: Folder, name: str) -> bool:
    """Make a snapshot's folder with the mark of this process; return whether no other process was faster."""
    mark = Holder.me().data
    if not folder.renames:
        # where folders are only names the mark is the first that has this one: without it, it would be debris
        if not folder.exclusive:
            folder.make("snapshots", name, "partitions")
        created = folder.create(mark, "snapshots", name, MARK)
        if created and folder.exclusive:
            folder.make("snapshots", name, "partitions")
        return created
    fresh = fresh_name()
    try:
        folder.make("snapshots", fresh, "partitions")
        folder.replace(mark, "snapshots", fresh, MARK)
        folder.move(("snapshots", fresh), ("snapshots", name))
    except BaseException as error:
        with suppress(OSError):
            folder.remove_folder("snapshots", fresh)
        if isinstance(error, OSError) and error.errno in (errno.EEXIST, errno.ENOTEMPTY):
            return False
        raise
    return True


def strip(folder: Folder, snapshot: str, listed: Collection[str]) -> None:
    """Remove the files of a snapshot that its manifest does not list: of tasks that were killed, or ran twice."""
    # Spark's own files beside rejected rows tell that these are whole
    folders = {file.rpartition("/")[0] for file in listed} - {"quarantine"} | {""}
    for inner in folders:
        parts = tuple(filter(None, inner.split("/")))
        for name in folder.files("snapshots", snapshot, *parts):
            if "/".join([*parts, name]) not in {*listed, MARK, "manifest.json"}:
                folder.remove("snapshots", snapshot, *parts, name)
