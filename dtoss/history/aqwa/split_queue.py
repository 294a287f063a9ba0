"""The partitions that could be cut, the one that gains most first (4.2.2)."""

from __future__ import annotations

import heapq

from dtoss.history.aqwa.aqwa_cuts import Cut


class SplitQueue:
    """A max-heap of partitions by the value of their best cut. What was revalued is passed over when it comes up.

    >>> queue = SplitQueue()
    >>> queue.put(7, Cut(True, 3, saved=9.0, value=1.0))
    >>> queue.put(8, Cut(True, 5, saved=9.0, value=3.0))
    >>> queue.put(8, None)
    >>> queue.top()
    (7, Cut(across_rows=True, line=3, saved=9.0, value=1.0))
    """

    def __init__(self) -> None:
        self.cuts: dict[int, Cut] = {}
        self._heap: list[tuple[float, int, int]] = []
        self._put: dict[int, int] = {}
        self._puts = 0

    def put(self, part: int, cut: Cut | None) -> None:
        """Give a partition the value of its best cut; without one, it leaves the queue."""
        self.remove(part)
        if cut is None:
            return
        self._puts += 1
        self.cuts[part] = cut
        self._put[part] = self._puts
        heapq.heappush(self._heap, (-cut.value, part, self._puts))

    def remove(self, part: int) -> None:
        """Take a partition out, if it is there."""
        self.cuts.pop(part, None)
        self._put.pop(part, None)

    def top(self) -> tuple[int, Cut] | None:
        """Return the partition that gains most and its cut, None of an empty queue. Of equals, the oldest partition."""
        while self._heap:
            _, part, put = self._heap[0]
            if self._put.get(part) == put:
                return part, self.cuts[part]
            heapq.heappop(self._heap)
        return None
