"""What was used last, up to a bound: of bytes, or of how many."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from dtoss.locks import Lock

T = TypeVar("T")


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
