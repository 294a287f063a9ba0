"""PS2Stream's dispatcher and worker (Chen et al., 4.2): a grid with two maps a cell, lists with lazy deletion.

They are what the paper runs. A watch here routes by :class:`ceps.balance.cell_layout.Layout` alone, and holds rows
against an index that is built anew; both are held to these in tests.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from ceps.balance.cell_layout import Layout

Words = frozenset[int]


@dataclass(frozen=True)
class Query:
    """A continuous query, as the dispatcher sees it."""

    id: int
    cells: Words  # That its rectangle touches
    cover: Words  # Words of which every message that it matches holds one; none where it may match without any


@dataclass
class Gridt:
    """Where queries and messages go."""

    layout: Layout  # Cells on workers, some split by words
    # H2 of each cell: how many live queries stand there under each word
    asked: dict[int, dict[int, int]] = field(default_factory=dict)
    # How many live queries of each cell stand under no word: messages are not dropped there
    wordless: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        words = self.layout.words
        self._goes: dict[int, dict[int, int]] = {}
        for cell, word, worker in zip(words.cell.tolist(), words.word.tolist(), words.worker.tolist(), strict=True):
            self._goes.setdefault(cell, {})[word] = worker

    def _rest(self, cell: int) -> list[int]:
        begin, end = self.layout.begin[cell : cell + 2]
        return [int(one) for one in self.layout.worker[begin:end]]

    def _change(self, query: Query, by: int) -> set[int]:
        """Add or remove a query, and return the workers that store it (H1)."""
        found: set[int] = set()
        for cell in query.cells:
            here = self.asked.setdefault(cell, {})
            for word in query.cover:
                here[word] = here.get(word, 0) + by
                if here[word] == 0:
                    del here[word]
            self.wordless[cell] = self.wordless.get(cell, 0) + by * (not query.cover)
            goes = self._goes.get(cell)
            if goes is None:
                found |= set(self._rest(cell))
            else:
                rest = self._rest(cell)[0]
                found |= {goes.get(word, rest) for word in query.cover} or {rest}
        return found

    def insert(self, query: Query) -> set[int]:
        """Return the workers that store a query from now on."""
        return self._change(query, 1)

    def delete(self, query: Query) -> set[int]:
        """Return the workers that have to forget a query."""
        return self._change(query, -1)

    def route(self, cell: int, words: Collection[int]) -> set[int]:
        """Return the workers that see a message (H2): none where no live query of its cell can match it."""
        live = self.asked.get(cell, {})
        held = {word for word in words if word in live}
        if not held and not self.wordless.get(cell, 0):
            return set()
        rest = self._rest(cell)
        goes = self._goes.get(cell)
        if goes is None:
            return {rest[0]} if len(rest) == 1 else set(rest)
        return {goes.get(word, rest[0]) for word in held} | ({rest[0]} if self.wordless.get(cell, 0) else set())


@dataclass
class Gi2:
    """A worker's index: of each cell a list for each word, from which what was deleted goes when it is met."""

    # By cell and word, of queries under their first word; -1 is the word of those without any
    lists: dict[tuple[int, int], list[Query]] = field(default_factory=dict)
    deleted: set[int] = field(default_factory=set)  # Ids that are to go
    live: dict[int, Query] = field(default_factory=dict)

    def insert(self, query: Query) -> None:
        """Put a query into the lists of its cells and words; one that is to go is forgotten first."""
        if query.id in self.deleted:
            self._sweep(query.id)
        self.live[query.id] = query
        for cell in query.cells:
            for word in query.cover or (-1,):
                self.lists.setdefault((cell, word), []).append(query)

    def delete(self, number: int) -> None:
        """Mark a query: it goes from each list when that is read next."""
        if self.live.pop(number, None) is not None:
            self.deleted.add(number)

    def _sweep(self, number: int) -> None:
        for one in self.lists.values():
            one[:] = [query for query in one if query.id != number]
        self.deleted.discard(number)

    def candidates(self, cell: int, words: Iterable[int]) -> list[int]:
        """Return the live queries of a cell that stand under one of some words, or under none; each once, rising.

        A query that stands under several of them is found under the first: the lowest number.
        """
        found: list[int] = []
        held: Sequence[int] = sorted(set(words))
        for word in (-1, *held):
            waiting = self.lists.get((cell, word), [])
            waiting[:] = [query for query in waiting if query.id not in self.deleted]
            for query in waiting:
                if word == -1 or min(query.cover & set(held)) == word:
                    found.append(query.id)
        return sorted(found)
