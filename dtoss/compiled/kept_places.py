"""Where compiled kernels are kept between processes, and whose turn it is to compile one; numba is not needed for it.

They lie beside the source, or where ``NUMBA_CACHE_DIR`` says; where nothing can be written there (an installation of
another user, a zip), in the user's cache. All places are looked into: what one of them holds is not compiled again.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from importlib.resources import files
from pathlib import Path

SHIPPED = ("compiled", "shipped")
"""The folder of an installation with code that came with it."""
LONGEST_WAIT_SECONDS = 180.0
"""A process that compiles a kernel is waited for so long: it may have been stopped."""
_TURNS = "dtoss.turns"


def package() -> Path:
    """Return the folder of the package: the code of its kernels is kept beside it."""
    return Path(sys.modules["dtoss"].__file__ or "").absolute().parent


def places(beside: Path) -> list[Path]:
    """Return the directories where code of sources that lie beside one is looked for."""
    named = os.environ.get("NUMBA_CACHE_DIR")
    own = Path(named) / "dtoss" if named else None
    return [place for place in (own, beside, _of_user()) if place is not None]


@lru_cache(maxsize=32)
def writable(beside: Path) -> Path | None:
    """Return the first of the places that can be written to, made where it is missing; None if there is none."""
    for place in places(beside):
        if place == beside and not place.parent.is_dir():
            continue  # in a zip
        try:
            place.mkdir(parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=place).close()
        except OSError:
            continue
        return place
    return None


def kept_kernels() -> frozenset[str]:
    """Return the names of the kernels of which some code is kept, for whatever processor and of whatever version."""
    found: set[str] = set()
    for place in places(package() / "__pycache__"):
        with suppress(OSError):
            found.update(file.name.rpartition("-")[0] for file in place.iterdir() if file.suffix == ".nbc")
    return frozenset(found)


def has_shipped() -> bool:
    """Return whether code of kernels came with this installation."""
    return files("dtoss").joinpath(*SHIPPED).is_dir()


@contextmanager
def turn(place: Path | None, kernel: str, longest: float = LONGEST_WAIT_SECONDS) -> Iterator[None]:
    """Let one process at a time compile a kernel that is kept in a place; the others wait, and find it there."""
    try:
        import fcntl
    except ImportError:
        fcntl = None  # type: ignore[assignment]
    file = None if place is None or fcntl is None else _turns(place)
    if file is None:
        yield
        return
    byte, end = zlib.crc32(kernel.encode()), time.monotonic() + longest
    taken = False
    while not taken and time.monotonic() < end:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, byte)
            taken = True
        except (BlockingIOError, PermissionError):  # somebody else has it
            time.sleep(0.05)
        except OSError:
            break  # a file system without locks
    try:
        yield
    finally:
        if taken:
            fcntl.lockf(file, fcntl.LOCK_UN, 1, byte)


@lru_cache(maxsize=32)
def _turns(place: Path) -> int | None:
    """Return the descriptor of the file whose bytes are locked, a byte a kernel; open to the end of the process.

    Closing it anywhere in the process would give all its locks back.
    """
    try:
        return os.open(place / _TURNS, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError:
        return None


@contextmanager
def only_native(**also: str) -> Iterator[None]:
    """Have this process and those it starts use no code that came with an installation; ``also`` is set meanwhile."""
    meant = {"DTOSS_KERNELS": "native"} | also
    before = {name: os.environ.get(name) for name in meant}
    os.environ.update(meant)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _of_user() -> Path | None:
    try:
        home = Path.home()
    except RuntimeError:
        return None
    if sys.platform == "darwin":
        return home / "Library" / "Caches" / "dtoss"
    return Path(os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA") or home / ".cache") / "dtoss"
