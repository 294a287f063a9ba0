"""Formulas as flat programs over the numbers of words, many at once.

A program is a list of tests. Each asks for a word, or a phrase, and says where to go on if it is there and if it is
not; :data:`ACCEPT` and :data:`REJECT` end it. Where a cover finds a formula, its program leaves out what that has said.
Formulas without parentheses and quotes are read by a kernel, the others by :func:`parse_words`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dtoss.compiled.kernel import kernel, operand
from dtoss.watch.words.formula import MOST_CHARACTERS, All, Formula, Part, Said, parse_words
from dtoss.watch.words.messages import Vocabulary, vocabulary_of
from dtoss.watch.words.tokenizer import FOLDED, Bytes, Chunks, bytes_of, chunks_of, look_up_chunks, tokens

ACCEPT, REJECT = -1, -2
"""Where a program ends."""
TESTS = 3
"""Numbers of a test."""
_AND, _OR, _NOT, _SIGNS = range(4)
_SLOW, _ALL, _ANY = range(3)
_ODD = -1
"""The number of a chunk that is not one word."""
_SPACE = 32
_READ = "Array(uint8, 1, 'C', readonly=True)"
_LONGS = "Array(int64, 1, 'C', readonly=True)"
_INTS = "Array(int32, 1, 'C', readonly=True)"


class FormulaPrograms(NamedTuple):
    """Programs of f formulas."""

    entry: NDArray[np.int32]  # int32 (f,). The first test of each, or ACCEPT
    cover: NDArray[np.int32]  # int32 (f, 2). Where its cover begins and ends in ``covers``; the same where it has none
    covers: NDArray[np.int32]  # int32. Words, rising for each formula
    # int32 (c, 3). A word, or -1 - p for phrase p; the next test if it is there; the next if it is not
    code: NDArray[np.int32]
    phrase: NDArray[np.int32]  # int32 (p + 1,). Where each phrase begins in ``phrases``
    phrases: NDArray[np.int32]  # int32. The words of phrases


class _Plain(NamedTuple):
    """Formulas that a kernel has read: what joins the words of each, and twice each word, one more after a not."""

    kind: NDArray[np.int32]
    begin: NDArray[np.int64]
    leaves: NDArray[np.int64]


def compile_words(texts: pa.Array, covered: bool = True) -> tuple[Vocabulary, FormulaPrograms]:
    """Return the words of formulas and their programs. Cost O(bytes); those with parentheses or quotes cost most.

    A word is expected in messages as often as in what is asked.

    ``texts``: large_string (f,). Formulas; repeats of those with parentheses or quotes are read once; ``covered``:
    whether a cover finds them; without one, each program has all tests.
    """
    held = bytes_of(texts)
    chunks = chunks_of(held)
    numbers, words = _number(held, chunks)
    plain = _read(held, chunks, numbers)
    slow = np.flatnonzero(plain.kind == _SLOW)
    odd = texts.take(pa.array(slow)).dictionary_encode()
    which = odd.indices.to_numpy(zero_copy_only=False)
    formulas = [parse_words(text) for text in odd.dictionary.to_pylist()]
    said = [word for formula in formulas for leaf in formula.leaves for word in leaf.words]
    coded = pa.concat_arrays([words, pa.array(said, pa.large_string())]).dictionary_encode()
    vocabulary = vocabulary_of(coded.dictionary)
    number = coded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    leaves = number[(plain.leaves >> 1) - _SIGNS] * 2 + (plain.leaves & 1)
    asked = number[len(words) :]
    counts = _counts(leaves, asked, formulas, which, len(coded.dictionary))
    entry = np.full(len(texts), ACCEPT, np.int32)
    cover = np.zeros((len(texts), 2), np.int32)
    covers, code = np.empty(len(leaves), np.int32), np.empty((len(leaves), TESTS), np.int32)
    used = np.zeros(2, np.int64)
    write_plain(plain.kind, plain.begin, leaves, counts, covered, entry, cover, covers, code, used)
    writer = _Writer(dict(zip(said, asked.tolist(), strict=True)), counts, code[: used[1]], covers[: used[0]])
    written = [writer.write(formula, covered) for formula in formulas]
    if written:
        entry[slow] = np.array([first for first, _ in written], np.int32)[which]
        cover[slow] = np.array([span for _, span in written], np.int32)[which]
    return vocabulary, FormulaPrograms(entry, cover, *writer.arrays())


def _number(held: Bytes, chunks: Chunks) -> tuple[NDArray[np.int64], pa.Array]:
    """Return the number of each chunk: a sign, or a word after the signs, or odd; and the words."""
    signs = bytes_of(pa.array(["and", "or", "not"], pa.large_string()))
    marks = chunks_of(signs)
    text = np.concatenate([signs.text[: signs.begin[-1]], held.text])
    ends = np.concatenate([marks.ends, chunks.ends + signs.begin[-1]])
    hashes = np.concatenate([marks.hashes, chunks.hashes])
    numbers, distinct, letters, offsets = look_up_chunks(text, ends, hashes)
    count, distinct = len(distinct), distinct[_SIGNS:]
    begin = operand(offsets[_SIGNS:])
    buffers = [None, pa.py_buffer(begin), pa.py_buffer(letters)]
    words = pa.Array.from_buffers(pa.large_string(), len(distinct), buffers)
    odd = np.flatnonzero(hashes[distinct] & 1)
    number = np.arange(count, dtype=np.int64)
    if len(odd):
        spans = ends[distinct[odd]].tolist()
        raw = [text[first:last].tobytes().decode("utf-8", "replace") for first, last in spans]
        said = [tokens(one) for one in raw]
        good = [len(some) == 1 and not any(map(str.isspace, one)) for some, one in zip(said, raw, strict=True)]
        # an odd chunk is read by Python, and its place in the list of words is taken by an empty one
        number[odd[~np.array(good)] + _SIGNS] = _ODD
        mask = np.zeros(len(distinct), np.bool_)
        mask[odd] = True
        read = pa.array([some[0] if ok else "" for some, ok in zip(said, good, strict=True)], pa.large_string())
        words = pc.replace_with_mask(words, pa.array(mask), read)
    return number[numbers[_SIGNS:]], words


def _read(held: Bytes, chunks: Chunks, numbers: NDArray[np.int64]) -> _Plain:
    size = len(held.begin) - 1
    kind, begin = np.empty(size, np.int32), np.empty(size + 1, np.int64)
    leaves = np.empty(len(numbers), np.int64)
    count = read_plain(*held, FOLDED, chunks.first, numbers, kind, begin, leaves)
    return _Plain(kind, begin, leaves[:count])


def _counts(
    leaves: NDArray[np.int64],
    asked: NDArray[np.int64],
    formulas: list[Formula],
    which: NDArray[np.int32],
    size: int,
) -> NDArray[np.float64]:
    """Return how often each word is asked for."""
    times = np.bincount(which, minlength=len(formulas))
    sizes = np.array([sum(len(leaf.words) for leaf in formula.leaves) for formula in formulas], np.int64)
    counts = np.bincount(leaves >> 1, minlength=size) + np.bincount(asked, np.repeat(times, sizes), size)
    return np.asarray(counts, np.float64)


class _Writer:
    """Writes programs behind those that the kernel has written."""

    def __init__(
        self, numbers: dict[str, int], counts: NDArray[np.float64], code: NDArray[np.int32], covers: NDArray[np.int32]
    ) -> None:
        self._numbers, self._counts = numbers, counts
        self._code, self._covers = code, covers
        self._tests: list[tuple[int, int, int]] = []
        self._words: list[int] = []
        self._phrases: dict[tuple[int, ...], int] = {}

    def write(self, formula: Formula, covered: bool) -> tuple[int, tuple[int, int]]:
        """Return the first test of a formula, and where its cover begins and ends."""
        found = formula.cover(lambda word: float(self._counts[self._numbers[word]])) if covered else None
        start = len(self._covers) + len(self._words)
        root: Part | None = formula.root
        if found is not None:
            self._words += sorted(self._numbers[word] for word in found)
            root = _rest(formula.root, found)
        entry = ACCEPT if root is None else self._write(root, ACCEPT, REJECT)
        return entry, (start, len(self._covers) + len(self._words))

    def _write(self, part: Part, yes: int, no: int) -> int:
        """Write the tests of a part, the last one first; return the first."""
        if isinstance(part, Said):
            test = self._test(part.words)
            self._tests.append((test, no, yes) if part.negated else (test, yes, no))
            return len(self._code) + len(self._tests) - 1
        for inner in reversed(part.parts):
            if isinstance(part, All):
                yes = self._write(inner, yes, no)
            else:
                no = self._write(inner, yes, no)
        return yes if isinstance(part, All) else no

    def _test(self, words: tuple[str, ...]) -> int:
        numbers = tuple(self._numbers[word] for word in words)
        if len(numbers) == 1:
            return numbers[0]
        return -1 - self._phrases.setdefault(numbers, len(self._phrases))

    def arrays(self) -> tuple[NDArray[np.int32], ...]:
        """Return covers, code, phrase and phrases."""
        tests = np.array(self._tests, np.int32).reshape(-1, 3)
        sizes = [len(phrase) for phrase in self._phrases]
        return (
            np.concatenate([self._covers, np.array(self._words, np.int32)]),
            np.concatenate([self._code, tests]),
            np.cumsum([0, *sizes]).astype(np.int32),
            np.array([word for phrase in self._phrases for word in phrase], np.int32),
        )


def _rest(root: Part, cover: frozenset[str]) -> Part | None:
    """Return what is left to ask of a text that has a word of the cover; None for nothing."""
    plain = {leaf.words[0] for leaf in _singles(root)}
    if plain == cover:
        return None
    if isinstance(root, All):
        left = [part for part in root.parts if {leaf.words[0] for leaf in _singles(part)} != cover]
        if not left:
            return None
        return left[0] if len(left) == 1 else All(tuple(left))
    return root


def _singles(part: Part) -> tuple[Said, ...]:
    """Return the words of a part that holds wherever one of them is; none if it is not such a part."""
    leaves = (part,) if isinstance(part, Said) else () if isinstance(part, All) else part.parts
    if all(isinstance(leaf, Said) and len(leaf.words) == 1 and not leaf.negated for leaf in leaves):
        return tuple(leaf for leaf in leaves if isinstance(leaf, Said))
    return ()


@kernel(f"int64({_READ}, {_LONGS}, {_READ}, {_LONGS}, {_LONGS}, int32[::1], int64[::1], int64[::1])")
def read_plain(text, begin, folded, first, numbers, kind, leaf_begin, leaves):
    """Set the words of each text that is words joined by one sign, each with a not or without; return how many."""
    found = 0
    for i in range(begin.size - 1):
        leaf_begin[i] = start = found
        kind[i] = _SLOW
        plain = begin[i + 1] - begin[i] <= MOST_CHARACTERS
        for at in range(begin[i], begin[i + 1]):
            plain &= folded[text[at]] != 0 or text[at] == _SPACE
        wants, negated, joined = True, 0, _NOT
        for at in range(first[i], first[i + 1]):
            number = numbers[at]
            if wants and number >= _SIGNS:
                leaves[found] = 2 * number + negated
                found += 1
                wants, negated = False, 0
            elif wants and number == _NOT and negated == 0:
                negated = 1
            elif not wants and number in (_AND, _OR) and joined in (_NOT, number):
                wants, joined = True, number
            else:
                plain = False
                break
        if plain and not wants:
            kind[i] = _ANY if joined == _OR else _ALL
        else:
            found = start
    leaf_begin[begin.size - 1] = found
    return found


@kernel
def _put_word(covers, begin, end, word):
    """Put a word into a cover, in order and once; return the end."""
    at = end
    while at > begin and covers[at - 1] > word:
        at -= 1
    if at > begin and covers[at - 1] == word:
        return end
    for k in range(end, at, -1):
        covers[k] = covers[k - 1]
    covers[at] = word
    return end + 1


@kernel(
    f"void({_INTS}, {_LONGS}, {_LONGS}, Array(float64, 1, 'C', readonly=True), boolean, int32[::1], int32[:, ::1],"
    " int32[::1], int32[:, ::1], int64[::1])"
)
def write_plain(kind, begin, leaves, counts, covered, entry, cover, covers, code, used):
    """Write covers and programs of formulas that are words joined by one sign; ``used`` has how many of both."""
    said, tests = 0, 0
    for i in range(kind.size):
        rarest, negated = -1, 0
        for k in range(begin[i], begin[i + 1]):
            if leaves[k] & 1:
                negated += 1
            elif rarest < 0 or counts[leaves[k] >> 1] < counts[leaves[rarest] >> 1]:
                rarest = k
        cover[i, 0] = said
        whole = covered and kind[i] == _ANY and negated == 0
        if whole:
            for k in range(begin[i], begin[i + 1]):
                said = _put_word(covers, cover[i, 0], said, leaves[k] >> 1)
        elif covered and kind[i] == _ALL and rarest >= 0:
            covers[said] = leaves[rarest] >> 1
            said += 1
        else:
            rarest = -1
        cover[i, 1] = said
        if whole or kind[i] == _SLOW:
            continue
        last = -1
        for k in range(begin[i], begin[i + 1]):
            if k == rarest:
                continue
            if last < 0:
                entry[i] = tests
            yes, no = (tests + 1, REJECT) if kind[i] == _ALL else (ACCEPT, tests + 1)
            code[tests, 0] = leaves[k] >> 1
            code[tests, 1], code[tests, 2] = (no, yes) if leaves[k] & 1 else (yes, no)
            last = tests
            tests += 1
        if last >= 0:
            end = ACCEPT if kind[i] == _ALL else REJECT
            code[last, 1 if code[last, 1] == tests else 2] = end
    used[0], used[1] = said, tests
