"""What threads share: locks that a forked process finds free, what was used last up to a bound, and processors."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
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


class Recent(Generic[T]):
    """Things by what they are named, those used last; of two threads that want the same both may make it.

    ``most``: bytes of all of them, or their number where each counts 1; a thing that has more is made each time.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = Lock()
        self._held: OrderedDict[Hashable, tuple[T, int]] = OrderedDict()
        self._size = 0

    def get(self, name: Hashable) -> T | None:
        """Return the thing of a name, None where it is not held."""
        with self._lock:
            found = self._held.get(name)
            if found is None:
                return None
            self._held.move_to_end(name)
            return found[0]

    def keep(self, name: Hashable, thing: T, size: int = 1) -> None:
        """Hold a thing by a name, in the place of what that named before."""
        if size <= self._most:
            with self._lock:
                self._size += size - self._held.pop(name, (None, 0))[1]
                self._held[name] = thing, size
                while self._size > self._most:
                    self._size -= self._held.popitem(last=False)[1][1]

    def of(self, name: Hashable, make: Callable[[], tuple[T, int]]) -> T:
        """Return the thing of a name.

        ``name``: what is named so never changes; ``make``: returns it and its size, where it is not held.
        """
        found = self.get(name)
        if found is None:
            found, size = make()
            self.keep(name, found, size)
        return found

    def all(self) -> list[T]:
        """Return what is held, the one used last behind."""
        with self._lock:
            return [thing for thing, _ in self._held.values()]

    def __contains__(self, name: Hashable) -> bool:
        with self._lock:
            return name in self._held

    def __len__(self) -> int:
        with self._lock:
            return len(self._held)
