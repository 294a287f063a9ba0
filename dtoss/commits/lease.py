"""The right to write to a store, which one process has at a time: the lock file ``WRITER``.

It says who holds it, and is touched every 20 seconds. It is taken over when its process is gone, which only the same
machine can know, or when it was not touched for two minutes by the clock of the store's own file system.

Two that take over at once: whoever changes a lock of token T first makes the file ``WRITER.T``, which only one can, and
then looks whether the lock still has T. Tokens never come again, so a late one finds another. If the maker of
``WRITER.T`` is gone too, its own token is what the next one goes on from.
"""

from __future__ import annotations

import errno
import json
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from types import TracebackType

from dtoss.commits.folder import Folder
from dtoss.errors import StoreError

LOCK = "WRITER"
TOUCH_SECONDS = 20.0
ABANDONED_SECONDS = 120.0
"""A lock of another machine that was not touched for so long is nobody's."""
_TRIES = 20


@dataclass(frozen=True)
class Holder:
    """A process that writes: where it runs, and what tells it from a later one of the same number."""

    host: str
    pid: int
    boot: str = ""
    start: str = ""
    began: float = 0.0
    token: str = ""

    @classmethod
    def me(cls) -> Holder:
        """Return this process, with a new token."""
        pid = os.getpid()
        return cls(socket.gethostname(), pid, _boot(), _start(pid), time.time(), uuid.uuid4().hex)

    @classmethod
    def read(cls, data: bytes) -> Holder | None:
        """Return what a lock or mark says; None where it cannot be read."""
        try:
            said = json.loads(data)
            return cls(
                str(said["host"]), int(said["pid"]), str(said.get("boot", "")), str(said.get("start", "")),
                float(said.get("began", 0.0)), str(said.get("token", "")),
            )  # fmt: skip
        except (ValueError, KeyError, TypeError, AttributeError):
            return None

    @property
    def data(self) -> bytes:
        """What a lock or mark of this process holds."""
        return json.dumps(asdict(self)).encode()

    @property
    def here(self) -> bool:
        """Whether the process runs, or ran, on this machine, since it was started."""
        return self.host == socket.gethostname() and self.boot in ("", _boot())

    @property
    def runs(self) -> bool:
        """Whether the process still runs, for one that is :attr:`here`."""
        try:
            os.kill(self.pid, 0)
        except (ProcessLookupError, OverflowError):
            return False
        except PermissionError:
            pass
        start = _start(self.pid)
        return start != "ended" and (not self.start or not start or self.start == start)

    def __str__(self) -> str:
        """Return the holder's name for a message."""
        since = ""
        if self.began > 0.0:
            since = f" since {datetime.fromtimestamp(self.began, UTC).isoformat(timespec='seconds')}"
        return f"process {self.pid} on {self.host}{since}"


@dataclass
class Writer:
    """A lock that is held, until :meth:`release` or the end of the ``with`` block; it is touched by a thread.

    ``made`` says that the folder was made for it, and goes again if nothing came of it.
    """

    folder: Folder
    name: str
    holder: Holder
    made: bool = False
    _ended: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> Writer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def check(self) -> None:
        """Do nothing while the lock is this process's own.

        Raises
        ------
        StoreError
            If it was taken over, because this process was stopped for minutes; not on object stores.
        """
        now = _read(self.folder, LOCK)
        if self.folder.exclusive and (now is None or now.token != self.holder.token):
            by = "is gone" if now is None else f"was taken over by {now}"
            raise StoreError(f"the lock {LOCK} of {self.name} {by}: nothing was changed; start again")

    def release(self) -> None:
        """Give the right back. A second time does nothing, nor does a child process.

        Where the file cannot be removed it stays, and is nobody's as soon as this process has ended.
        """
        if self._ended.is_set() or os.getpid() != self.holder.pid:
            return
        self._ended.set()
        with suppress(OSError):
            self._remove()

    def _remove(self) -> None:
        claim = f"{LOCK}.{self.holder.token}"
        try:
            # exclusive against those who take over; where there is no room for it, the look alone must do
            claimed = not self.folder.exclusive or self.folder.create(Holder.me().data, claim)
        except OSError:
            claimed = True
        if not claimed:
            return
        try:
            now = _read(self.folder, LOCK)
            if now is not None and now.token == self.holder.token:
                self.folder.remove(LOCK)
        finally:
            self.folder.remove(claim)
        if self.made:
            self.folder.remove_if_empty()

    def _touch(self) -> None:
        while not self._ended.wait(TOUCH_SECONDS):
            try:
                now = _read(self.folder, LOCK)
                if now is not None and now.token == self.holder.token:
                    self.folder.touch(LOCK)
            except OSError:
                continue


def take(folder: Folder, name: str, warn: Callable[[str], None], make_room: Callable[[], object]) -> Writer:
    """Return the right to write to a store's folder, which must be there.

    Parameters
    ----------
    folder
        Of the store.
    name
        Of the store, for messages.
    warn
        Is told who else seems to write, where the file system has no exclusive files.
    make_room
        Is called once the lock is held on a disk that has no room for its text.

    Raises
    ------
    StoreError
        If another process has it; the message names it.
    OSError
        If the folder cannot be written.
    """
    me = Holder.me()
    if not folder.exclusive:
        other = _read(folder, LOCK)
        if other is not None and not _nobodys(folder, LOCK, other):
            warn(f"{name} is being written by {other}, and this file system cannot keep the two apart")
        folder.replace(me.data, LOCK)
        return _held(folder, name, me)
    for _ in range(_TRIES):
        if _create(folder, me, make_room):
            return _held(folder, name, me)
        data = folder.read(LOCK)
        if data is None:
            continue
        other = Holder.read(data)
        if not _nobodys(folder, LOCK, other):
            raise StoreError(_refusal(name, other))
        if _take_over(folder, name, other, me):
            return _held(folder, name, me)
    raise StoreError(f"the lock {LOCK} of {name} changes hands without end: try again")


def leftovers(folder: Folder) -> list[str]:
    """Return the names of files beside the lock that processes left which are gone, for one who holds it."""
    names = [name for name in folder.files() if name.startswith(f"{LOCK}.")]
    return [name for name in names if _nobodys(folder, name, _read(folder, name))]


def held_by(folder: Folder) -> Holder | None:
    """Return who holds the lock, as far as can be seen without writing; None where nobody does."""
    holder = _read(folder, LOCK)
    return None if holder is None or (holder.here and not holder.runs) else holder


def _held(folder: Folder, name: str, me: Holder) -> Writer:
    writer = Writer(folder, name, me)
    threading.Thread(target=writer._touch, name="dtoss-writer", daemon=True).start()
    return writer


def _create(folder: Folder, me: Holder, make_room: Callable[[], object]) -> bool:
    try:
        return folder.create(me.data, LOCK)
    except FileNotFoundError:
        return False  # another one has cleared what was to become the lock
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
    if not folder.reserve(LOCK):
        return False
    try:
        make_room()
        folder.replace(me.data, LOCK)
    except BaseException:
        folder.remove(LOCK)
        raise
    return True


def _take_over(folder: Folder, name: str, old: Holder | None, me: Holder) -> bool:
    """Put this process in the place of a holder that is gone; return False if another one was faster."""
    passed: list[str] = []
    token = _token(old)
    while True:
        claim = f"{LOCK}.{token}"
        if folder.create(Holder.me().data, claim):
            break
        data = folder.read(claim)
        if data is None:
            return False
        rival = Holder.read(data)
        if not _nobodys(folder, claim, rival):
            raise StoreError(_refusal(name, rival))
        if rival is None:
            folder.remove(claim)
            return False
        passed.append(claim)
        token = _token(rival)
    try:
        data = folder.read(LOCK)
        if data is None or _token(Holder.read(data)) != _token(old) or not _nobodys(folder, LOCK, Holder.read(data)):
            return False
        folder.replace(me.data, LOCK)
        return True
    finally:
        for file in [claim, *passed]:
            folder.remove(file)


def _token(holder: Holder | None) -> str:
    return holder.token if holder is not None and holder.token.isalnum() else "unreadable"


def _nobodys(folder: Folder, file: str, holder: Holder | None) -> bool:
    """Return whether a lock's process is gone, or seems to be, from another machine."""
    if holder is not None and holder.here:
        return not holder.runs
    return folder.idle(file) >= ABANDONED_SECONDS


def _refusal(name: str, holder: Holder | None) -> str:
    who = "another process" if holder is None else str(holder)
    return f"{name} is being written by {who}: one writer at a time; wait until it has ended (dtoss info says)"


def _read(folder: Folder, file: str) -> Holder | None:
    data = folder.read(file)
    return None if data is None else Holder.read(data)


@cache
def _boot() -> str:
    """Return what tells this start of the machine, and this container on it, from others of the same name."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}/{os.readlink('/proc/self/ns/pid')}"  # noqa: PTH115
    except OSError:
        return ""


def _start(pid: int) -> str:
    """Return when a process began, in the machine's own words; "ended" if it waits to be reaped, "" if unknown."""
    if Path("/proc/self/stat").exists():
        try:
            # the name in parentheses may hold anything
            fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
        except OSError:
            return ""
        return "ended" if fields[0] in (b"Z", b"X") else fields[19].decode()
    import subprocess

    try:
        said = subprocess.run(["ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return said.stdout.strip()
