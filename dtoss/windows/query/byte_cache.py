"""What was made lately, up to so many bytes; threads share it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from dtoss.locks import Lock

T = TypeVar("T")


class Recent(Generic[T]):
    """Things by what they are named, those used last; of two threads that want the same both may make it.

    ``most``: bytes of all of them; one that has more is made each time.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = Lock()
        self._held: OrderedDict[Hashable, tuple[T, int]] = OrderedDict()
        self._bytes = 0

    def of(self, name: Hashable, make: Callable[[], tuple[T, int]]) -> T:
        """Return the thing of a name.

        ``name``: what is named so never changes; ``make``: returns it and its bytes, where it is not held.
        """
        with self._lock:
            found = self._held.get(name)
            if found is not None:
                self._held.move_to_end(name)
                return found[0]
        made, size = make()
        if size <= self._most:
            with self._lock:
                self._bytes += size - self._held.pop(name, (None, 0))[1]
                self._held[name] = made, size
                while self._bytes > self._most:
                    self._bytes -= self._held.popitem(last=False)[1][1]
        return made

    def __contains__(self, name: Hashable) -> bool:
        with self._lock:
            return name in self._held
