"""The right to write to a folder, which one process has at a time: the file ``LEASE``. A courtesy, not the lock.

It spares a second writer the work that it would lose; that nothing is lost rests on the chain of commits alone. It says
who holds it, for 60 seconds, and is renewed every 20. It is taken over when its process is gone, which only the same
machine can know, or when it was not renewed for 60 seconds, by the clock of the folder's own file system.

Two that take over at once: object stores replace a file only if it is still of the version that was read. On disks,
whoever changes a lease of token T first makes the file ``LEASE.T``, which only one can, and then looks whether the
lease still has T. Tokens never come again, so a late one finds another. If the maker of ``LEASE.T`` is gone too, its
own token is what the next one goes on from.

Earlier versions locked by a file ``WRITER``. One that is found counts for two minutes, and is then removed.
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
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from types import TracebackType

from dtoss.commits import process
from dtoss.commits.folder import Folder, RemoteFolder
from dtoss.errors import StoreError

LEASE = "LEASE"
RENEWED_SECONDS = 20.0
LEASE_SECONDS = 60.0
"""A lease of another machine that was not renewed for so long is nobody's."""
OLD_LOCK = "WRITER"
OLD_SECONDS = 120.0
"""And so long for the lock of an earlier version."""
_TRIES = 20


class InUse(StoreError):
    """Another process has the lease: ``holder``, None where its file cannot be read."""

    def __init__(self, name: str, holder: Holder | None) -> None:
        who = "another process" if holder is None else str(holder)
        super().__init__(
            f"{name} is being written by {who}: one writer at a time; wait until it has ended (dtoss info says)"
        )
        self.holder = holder


@dataclass(frozen=True)
class Holder:
    """A process that writes: where it runs, and what tells it from a later one of the same number."""

    host: str
    pid: int
    boot: str = ""
    start: str = ""
    began: float = 0.0
    token: str = ""
    until: float = 0.0

    @classmethod
    def me(cls) -> Holder:
        """Return this process, with a new token."""
        pid = os.getpid()
        now = time.time()
        return cls(
            socket.gethostname(), pid, process.boot(), process.start_of(pid), now, uuid.uuid4().hex, now + LEASE_SECONDS
        )

    @classmethod
    def read(cls, data: bytes) -> Holder | None:
        """Return what a lease or mark says; None where it cannot be read."""
        try:
            said = json.loads(data)
            return cls(
                str(said["host"]), int(said["pid"]), str(said.get("boot", "")), str(said.get("start", "")),
                float(said.get("began", 0.0)), str(said.get("token", "")),
                float(said.get("until", 0.0)),
            )  # fmt: skip
        except (ValueError, KeyError, TypeError, AttributeError):
            return None

    @property
    def data(self) -> bytes:
        """What a lease or mark of this process holds."""
        return json.dumps(asdict(self)).encode()

    @property
    def here(self) -> bool:
        """Whether the process runs, or ran, on this machine, since it was started."""
        return self.host == socket.gethostname() and self.boot in ("", process.boot())

    @property
    def runs(self) -> bool:
        """Whether the process still runs, for one that is :attr:`here`."""
        return process.runs(self.pid, self.start)

    def __str__(self) -> str:
        """Return the holder's name for a message."""
        since = ""
        if self.began > 0.0:
            since = f" since {datetime.fromtimestamp(self.began, UTC).isoformat(timespec='seconds')}"
        return f"process {self.pid} on {self.host}{since}"


@dataclass
class Writer:
    """A lease that is held, until :meth:`release` or the end of the ``with`` block; it is renewed by a thread.

    ``made`` says that the folder was made for it, and goes again if nothing came of it. Without ``leased`` there is no
    file: the chain of commits alone keeps writers apart.
    """

    folder: Folder
    name: str
    holder: Holder
    made: bool = False
    leased: bool = True
    _ended: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> Writer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def check(self) -> None:
        """Do nothing while the lease is this process's own."""
        if not self.leased:
            return
        now = _read(self.folder, LEASE)
        if self.folder.exclusive and (now is None or now.token != self.holder.token):
            by = "is gone" if now is None else f"was taken over by {now}"
            raise StoreError(f"the lease {LEASE} of {self.name} {by}: nothing was changed; start again")

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
        if self.leased:
            self._give_back()
        if self.made:
            self.folder.remove_if_empty()

    def _give_back(self) -> None:
        if _swapped(self.folder):
            # between this look and the removal another one could take over only if it has expired
            now = _read(self.folder, LEASE)
            if now is not None and now.token == self.holder.token:
                self.folder.remove(LEASE)
            return
        claim = f"{LEASE}.{self.holder.token}"
        try:
            # exclusive against those who take over; where there is no room for it, the look alone must do
            claimed = not self.folder.exclusive or self.folder.create(Holder.me().data, claim)
        except OSError:
            claimed = True
        if not claimed:
            return
        try:
            now = _read(self.folder, LEASE)
            if now is not None and now.token == self.holder.token:
                self.folder.remove(LEASE)
        finally:
            self.folder.remove(claim)

    def _keep(self) -> None:
        while not self._ended.wait(RENEWED_SECONDS):
            try:
                self.renew()
            except OSError:
                continue

    def renew(self) -> None:
        """Move the end of the lease on, if it is still this process's."""
        if (store := _swapped(self.folder)) is None:
            now = _read(self.folder, LEASE)
            if now is not None and now.token == self.holder.token:
                self.folder.touch(LEASE)
            return
        found = store.read_tagged(LEASE)
        now = None if found is None else Holder.read(found[0])
        if found is not None and now is not None and now.token == self.holder.token:
            store.swap(replace(self.holder, until=time.time() + LEASE_SECONDS).data, found[1], LEASE)


def take(folder: Folder, name: str, warn: Callable[[str], None], make_room: Callable[[], object]) -> Writer:
    """Return the lease of a folder, which must be there.

    ``make_room``: is called once the lease is held on a disk that has no room for its text.
    """
    me = Holder.me()
    _honour_old(folder, name)
    if (store := _swapped(folder)) is not None:
        return _take_swapped(store, name, me)
    if not folder.exclusive:
        other = _read(folder, LEASE)
        if other is not None and not _nobodys(folder, LEASE, other):
            warn(f"{name} is being written by {other}, and this file system cannot keep the two apart")
        folder.replace(me.data, LEASE)
        return _held(folder, name, me)
    for _ in range(_TRIES):
        if _create(folder, me, make_room):
            return _held(folder, name, me)
        data = folder.read(LEASE)
        if data is None:
            continue
        other = Holder.read(data)
        if not _nobodys(folder, LEASE, other):
            raise InUse(name, other)
        if take_over(folder, name, other, me):
            return _held(folder, name, me)
    raise StoreError(f"the lease {LEASE} of {name} changes hands without end: try again")


def without_lease(folder: Folder, name: str) -> Writer:
    """Return what stands for a lease where none is wanted: nobody is kept out, and the chain of commits decides."""
    return Writer(folder, name, Holder.me(), leased=False)


def leftovers(folder: Folder) -> list[str]:
    """Return the names of files beside the lease that processes left which are gone, for one who holds it."""
    names = [name for name in folder.files() if name.startswith((f"{LEASE}.", f"{OLD_LOCK}."))]
    return [name for name in names if not process.is_passing(name) and _nobodys(folder, name, _read(folder, name))]


def held_by(folder: Folder) -> Holder | None:
    """Return who holds the lease, as far as can be seen without writing; None where nobody does."""
    for file in (LEASE, OLD_LOCK):
        holder = _read(folder, file)
        if holder is not None and not (holder.here and not holder.runs):
            return holder
    return None


def _swapped(folder: Folder) -> RemoteFolder | None:
    """Return a folder whose files can be replaced on a condition; None for others."""
    return folder if isinstance(folder, RemoteFolder) and folder.swaps else None


def _honour_old(folder: Folder, name: str) -> None:
    """Respect the lock of an earlier version, or remove it if it is nobody's any more."""
    data = folder.read(OLD_LOCK)
    if data is None:
        return
    other = Holder.read(data)
    if not _nobodys(folder, OLD_LOCK, other):
        raise InUse(name, other)
    folder.remove(OLD_LOCK)


def _take_swapped(store: RemoteFolder, name: str, me: Holder) -> Writer:
    for _ in range(_TRIES):
        if store.create(me.data, LEASE):
            return _held(store, name, me)
        found = store.read_tagged(LEASE)
        if found is None:
            continue
        other = Holder.read(found[0])
        if not _nobodys(store, LEASE, other):
            raise InUse(name, other)
        if store.swap(me.data, found[1], LEASE):
            return _held(store, name, me)
    raise StoreError(f"the lease {LEASE} of {name} changes hands without end: try again")


def _held(folder: Folder, name: str, me: Holder) -> Writer:
    writer = Writer(folder, name, me)
    threading.Thread(target=writer._keep, name="dtoss-lease", daemon=True).start()
    return writer


def _create(folder: Folder, me: Holder, make_room: Callable[[], object]) -> bool:
    try:
        return folder.create(me.data, LEASE)
    except FileNotFoundError:
        return False  # another one has cleared what was to become the lease
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
    if not folder.reserve(LEASE):
        return False
    try:
        make_room()
        folder.replace(me.data, LEASE)
    except BaseException:
        folder.remove(LEASE)
        raise
    return True


def take_over(folder: Folder, name: str, old: Holder | None, me: Holder) -> bool:
    """Put this process in the place of a holder that is gone; return False if another one was faster."""
    passed: list[str] = []
    token = _token(old)
    while True:
        claim = f"{LEASE}.{token}"
        if folder.create(Holder.me().data, claim):
            break
        data = folder.read(claim)
        if data is None:
            return False
        rival = Holder.read(data)
        if not _nobodys(folder, claim, rival):
            raise InUse(name, rival)
        if rival is None:
            folder.remove(claim)
            return False
        passed.append(claim)
        token = _token(rival)
    try:
        data = folder.read(LEASE)
        if data is None or _token(Holder.read(data)) != _token(old) or not _nobodys(folder, LEASE, Holder.read(data)):
            return False
        folder.replace(me.data, LEASE)
        return True
    finally:
        for file in [claim, *passed]:
            folder.remove(file)


def _token(holder: Holder | None) -> str:
    return holder.token if holder is not None and holder.token.isalnum() else "unreadable"


def _nobodys(folder: Folder, file: str, holder: Holder | None) -> bool:
    """Return whether a lease's process is gone, or seems to be, from another machine."""
    if holder is not None and holder.here:
        return not holder.runs
    return folder.idle(file) >= (OLD_SECONDS if file.startswith(OLD_LOCK) else LEASE_SECONDS)


def _read(folder: Folder, file: str) -> Holder | None:
    data = folder.read(file)
    return None if data is None else Holder.read(data)
