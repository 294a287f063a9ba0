"""What a second process does, which compiles beside another one."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module

from dtoss.compiled.kept_places import package, writable


def compile_next(names: Sequence[str]) -> None:
    """Compile kernels as long as the process at the other end of stdin lives, unless another one compiles already."""
    end_with_parent()
    with suppress(BlockingIOError), _one_at_a_time(wait=False):
        _compile(names)


def compile_in_spare_time(names: Sequence[str]) -> None:
    """Compile kernels with what time the machine has to spare, in one process at a time."""
    with suppress(OSError, AttributeError):
        os.nice(10)
    with _one_at_a_time(wait=True):
        _compile(names)


def _compile(names: Sequence[str]) -> None:
    from dtoss.compiled.kernel import DECLARED  # loads numba, once it is this process's turn

    for name in names:
        import_module(name.rpartition(".")[0])
        DECLARED[name].ready()


def end_with_parent() -> None:
    """Have this process end when its stdin does: a pipe from its parent ends with that, however it is killed."""

    def wait() -> None:
        with suppress(OSError):
            os.read(0, 1)
        os._exit(0)

    threading.Thread(target=wait, daemon=True).start()


@contextmanager
def _one_at_a_time(wait: bool) -> Iterator[None]:
    """Hold the right to compile beside others; BlockingIOError where another process has it and this may not wait."""
    place = writable(package() / "__pycache__")
    try:
        import fcntl
    except ImportError:
        fcntl = None  # type: ignore[assignment]
    if place is None or fcntl is None:
        yield
        return
    with (place / "dtoss.compiling").open("w") as held:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            raise
        except OSError:
            pass  # a file system without locks
        yield
