"""Formulas of words: ``coffee and (bagel or donut) and not decaf``, and phrases in quotes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from dtoss.watch.words.tokenizer import tokens

MOST_CHARACTERS = 10_000
"""Of the text of a formula."""
MOST_DEPTH = 50
"""Parentheses, or nots, within one another."""
_PIECE = re.compile(r'\s*(?:([()])|"([^"]*)"|(")|([^\s()"]+))')
_SIGNS = ("and", "or", "not", "(", ")")


@dataclass(frozen=True)
class Said:
    """Adjacent words, one or more: a word or a phrase; with ``negated``, a text must not hold them."""

    words: tuple[str, ...]
    negated: bool = False


@dataclass(frozen=True)
class All:
    """Every part holds."""

    parts: tuple[Part, ...]


@dataclass(frozen=True)
class Any:
    """One part holds, or more."""

    parts: tuple[Part, ...]


Part = Said | All | Any


@dataclass(frozen=True)
class Formula:
    """What a subscription asks of the words of a text; made by :func:`parse_words`."""

    root: Part  # Its parts. A not stands at words only: ``not (a or b)`` is kept as ``not a and not b``

    @cached_property
    def leaves(self) -> tuple[Said, ...]:
        """The words and phrases, in the order of the text."""
        return tuple(_leaves(self.root))

    @property
    def only_negated(self) -> bool:
        """Whether it holds for a text without words: then it has no cover, and place alone finds it."""
        return self.holds(())

    def cover(self, count: Callable[[str], float]) -> frozenset[str] | None:
        """Return words of which each text for which the formula holds has one at least; None if there are no such.

        The cover of a word is the word, that of a phrase its rarest word. That of an ``or`` is the union of its parts'.
        An ``and`` takes the part whose cover is expected in the fewest texts. A ``not`` has none, nor has an ``or``
        with a part that has none. Cost O(words).
        """
        found = _cover(self.root, count)
        return None if found is None else found[1]

    def holds(self, words: Sequence[str]) -> bool:
        """Return whether the formula holds for the words of a text, in their order. Cost O(words times leaves)."""
        return _holds(self.root, words)


def parse_words(text: str) -> Formula:
    """Return the formula that a text says.

    Words are joined by ``and``, ``or`` and ``not``, in any case; ``not`` binds most and ``or`` least, and parentheses
    group. What stands in double quotes is a phrase: its words follow one another. So do the parts of ``coffee-shop``.
    """
    if len(text) > MOST_CHARACTERS:
        raise ValueError(f"words of {len(text)} characters are more than the {MOST_CHARACTERS} that a formula may have")
    reader = _Reader(list(_pieces(text)))
    root = reader.any(0, False)
    if reader.next is not None:
        raise ValueError(f"words: {_shown(reader.next)} does not follow; join by and, or, and close what was opened")
    return Formula(root)


def holds_phrase(words: Sequence[str], phrase: Sequence[str]) -> bool:
    """Return whether some words are adjacent in a text, in their order."""
    size = len(phrase)
    wanted = list(phrase)
    return any(list(words[at : at + size]) == wanted for at in range(len(words) - size + 1))


@dataclass(frozen=True)
class _Sign:
    """and, or, not, or a parenthesis."""

    text: str


def _pieces(text: str) -> Iterator[_Sign | Said]:
    for match in _PIECE.finditer(text):
        bracket, quoted, lone, bare = match.groups()
        if lone is not None:
            raise ValueError("words: a quote is opened and not closed")
        said = bracket or bare
        if said is not None and said.lower() in _SIGNS:
            yield _Sign(said.lower())
            continue
        found = tokens(quoted if said is None else said)
        if not found:
            shown = repr(f'"{quoted}"' if said is None else said)
            raise ValueError(f"words: {shown[:60]} has no letter and no digit, so it is no word")
        yield Said(tuple(found))


class _Reader:
    """Reads a formula from its pieces, from left to right; a not is carried to the words."""

    def __init__(self, pieces: list[_Sign | Said]) -> None:
        self._pieces = pieces
        self._at = 0

    @property
    def next(self) -> _Sign | Said | None:
        return self._pieces[self._at] if self._at < len(self._pieces) else None

    def _take(self, sign: str) -> bool:
        found = self.next
        if isinstance(found, _Sign) and found.text == sign:
            self._at += 1
            return True
        return False

    def any(self, depth: int, negated: bool) -> Part:
        parts = [self._all(depth, negated)]
        while self._take("or"):
            parts.append(self._all(depth, negated))
        return _joined(All if negated else Any, parts)

    def _all(self, depth: int, negated: bool) -> Part:
        parts = [self._one(depth, negated)]
        while self._take("and"):
            parts.append(self._one(depth, negated))
        return _joined(Any if negated else All, parts)

    def _one(self, depth: int, negated: bool) -> Part:
        if depth > MOST_DEPTH:
            raise ValueError(f"words: more than {MOST_DEPTH} parentheses or nots stand within one another")
        if self._take("not"):
            return self._one(depth + 1, not negated)
        if self._take("("):
            part = self.any(depth + 1, negated)
            if not self._take(")"):
                raise ValueError("words: a parenthesis is opened and not closed")
            return part
        found = self.next
        if isinstance(found, Said):
            self._at += 1
            return Said(found.words, negated)
        where = "the end" if found is None else _shown(found)
        raise ValueError(f"words: a word is wanted before {where}; quote and, or, not where they are words")


def _joined(kind: type[All] | type[Any], parts: list[Part]) -> Part:
    """Return parts as one, flat: an and within an and is the same."""
    if len(parts) == 1:
        return parts[0]
    flat: list[Part] = []
    for part in parts:
        flat.extend(part.parts if isinstance(part, kind) else (part,))
    return kind(tuple(flat))


def _shown(piece: _Sign | Said) -> str:
    return repr(piece.text if isinstance(piece, _Sign) else " ".join(piece.words)[:60])


def _leaves(part: Part) -> Iterator[Said]:
    if isinstance(part, Said):
        yield part
    else:
        for inner in part.parts:
            yield from _leaves(inner)


def _cover(part: Part, count: Callable[[str], float]) -> tuple[float, frozenset[str]] | None:
    """Return the cover of a part, and in how many texts it is expected."""
    if isinstance(part, Said):
        if part.negated:
            return None
        word = min(part.words, key=lambda word: (count(word), word))
        return count(word), frozenset((word,))
    found = [_cover(inner, count) for inner in part.parts]
    known = [cover for cover in found if cover is not None]
    if isinstance(part, All):
        return min(known, key=lambda cover: (cover[0], sorted(cover[1])), default=None)
    if len(known) < len(found):
        return None
    union = frozenset().union(*(cover[1] for cover in known))
    return sum(count(word) for word in union), union


def _holds(part: Part, words: Sequence[str]) -> bool:
    if isinstance(part, Said):
        return holds_phrase(words, part.words) != part.negated
    held = (_holds(inner, words) for inner in part.parts)
    return all(held) if isinstance(part, All) else any(held)
