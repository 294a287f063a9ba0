"""Locks that a forked process finds free: the threads that held them did not come along; processors for threads."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload
from weakref import WeakSet

T = TypeVar("T")


def processors() -> int:
    """Return how many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Lock:
    """A lock for `with`, made anew in a forked process unless the thread that forked holds it itself.

    What it guards has to be right at every moment: a fork may come between any two steps of another thread.
    """

    __slots__ = ("__weakref__", "_lock", "_owner")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._owner = 0
        _locks.add(self)

    def acquire(self, *, blocking: bool = True) -> bool:
        """Take the lock and return whether it was taken; without ``blocking`` only if nobody holds it."""
        taken = self._lock.acquire(blocking)
        if taken:
            self._owner = threading.get_ident()
        return taken

    def release(self) -> None:
        """Give the lock back."""
        self._owner = 0
        self._lock.release()

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()

    def _renew(self) -> None:
        if self._owner != threading.get_ident():
            self._lock, self._owner = threading.Lock(), 0


_locks: WeakSet[Lock] = WeakSet()


def _renew() -> None:
    for lock in list(_locks):
        lock._renew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)


class once(Generic[T]):
    """A property that is made when first asked for, and kept.

    Without a lock, which ``functools.cached_property`` of Python 3.11 has for all instances together, and which a fork
    leaves held: two threads may make it at a time, and one of both is kept.
    """

    def __init__(self, make: Callable[[Any], T]) -> None:
        self._make = make
        self.__doc__ = make.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> once[T]: ...
    @overload
    def __get__(self, instance: object, owner: type) -> T: ...
    def __get__(self, instance: object | None, owner: type) -> once[T] | T:
        if instance is None:
            return self
        made: T = instance.__dict__.setdefault(self._name, self._make(instance))
        return made
