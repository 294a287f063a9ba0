"""Messages against subscriptions with words: what matches is what each formula and rectangle say, each once."""

from __future__ import annotations

from functools import cache

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dtoss.watch.index.word_index import BY_BOTH, BY_PLACE_ONLY, BY_WORDS_ONLY, build_worded
from dtoss.watch.matching.word_match import as_worded, candidate_pieces
from dtoss.watch.words.formula import parse_words
from dtoss.watch.words.messages import Vocabulary, messages_of
from dtoss.watch.words.tokenizer import tokens
from tests.examples import examples

WORLD = (-180.0, -90.0, 180.0, 90.0)
FAR = 1e300
WORDS = st.sampled_from(["a", "b", "c", "d", "É", "and"])


def formulas():
    """Texts of formulas: some that a kernel reads, some nested, with phrases."""
    word = st.sampled_from(["a", "b", "c", "d", "é", "A-b"])
    flat = st.builds(
        lambda words, sign: f" {sign} ".join(words),
        st.lists(st.builds(str.__add__, st.sampled_from(["", "", "not "]), word), min_size=1, max_size=4),
        st.sampled_from(["and", "or", "AND"]),
    )
    leaf = word | st.lists(WORDS, min_size=1, max_size=3).map(lambda words: '"' + " ".join(words) + '"')
    nested = st.recursive(
        leaf,
        lambda inner: (
            st.builds(lambda a, b: f"({a} and {b})", inner, inner)
            | st.builds(lambda a, b: f"({a} or {b})", inner, inner)
            | inner.map(lambda a: f"not {a}")
        ),
        max_leaves=6,
    )
    return flat | nested


def holds(rect, position, sphere):
    """Whether a rectangle holds a position."""
    west, south, east, north = rect
    x, y = position
    if not south <= y <= north:
        return False
    if sphere and abs(y) == 90.0:
        return True
    return (x >= west or x <= east) if sphere and west > east else west <= x <= east


def expected(texts, rects, positions, messages, sphere=True):
    """All pairs, one by one."""
    parsed = [parse_words(text) for text in texts]
    said = [tokens(message or "") for message in messages]
    return [
        (row, number)
        for row in range(len(messages))
        for number, formula in enumerate(parsed)
        if holds(rects[number], positions[row], sphere) and formula.holds(said[row])
    ]


def candidates(index, positions, texts):
    """All pairs of a message and a subscription, by message, then by subscription."""
    index = as_worded(index)
    messages = messages_of(Vocabulary(index.letters, index.offsets, index.slots), texts)
    pieces = list(candidate_pieces(index, positions, messages))
    return (
        np.concatenate([np.zeros(0, np.int64), *(piece.row for piece in pieces)]),
        np.concatenate([np.zeros(0, np.int32), *(piece.subscription for piece in pieces)]),
    )


def pairs(worded, positions, messages):
    """What the index says."""
    row, number = candidates(worded, np.array(positions, np.float64).reshape(-1, 2), pa.array(messages, pa.string()))
    assert row.dtype == np.int64
    assert number.dtype == np.int32
    return list(zip(row.tolist(), number.tolist(), strict=True))


LON, LAT = st.sampled_from([-179.0, -90.0, 0.0, 0.5, 1.0, 90.0, 180.0]), st.sampled_from([-90.0, -60.0, 0.0, 1.0, 90.0])
RECTS = st.just(WORLD) | st.tuples(LON, LAT, LON, LAT).map(lambda r: (r[0], min(r[1], r[3]), r[2], max(r[1], r[3])))
MESSAGES = st.none() | st.lists(WORDS, max_size=6).map(" ".join)


@pytest.mark.checked
@settings(max_examples=examples(150), deadline=None)
@given(
    st.lists(st.tuples(formulas(), RECTS), min_size=1, max_size=12),
    st.lists(st.tuples(LON, LAT, MESSAGES), max_size=6),
    st.sampled_from([BY_BOTH, BY_WORDS_ONLY, BY_PLACE_ONLY]),
)
def test_what_matches_on_the_sphere(asked, rows, by):
    """Random formulas, places and messages; whatever finds them, each match is there once."""
    texts, rects = [text for text, _ in asked], np.array([rect for _, rect in asked])
    positions, messages = [row[:2] for row in rows], [row[2] for row in rows]
    found = pairs(build_worded(texts, rects, "sphere", by=by), positions, messages)
    assert found == expected(texts, rects, positions, messages)


def crowd(seed, size, sphere):
    """Many subscriptions on few words, so that cells of several levels are in use; and messages."""
    random = np.random.default_rng(seed)
    words = np.array(["flood", "fire", "coffee", "bagel", "straße", "x1", "rain", "snow"])
    shapes = ["{}", "{} and {}", "{} or {}", "not {}", '"{} {}"', "{} and not {}", "({} or {}) and {}", "not {} or {}"]
    texts = []
    for shape in random.choice(shapes, size, p=[0.3, 0.2, 0.2, 0.02, 0.08, 0.1, 0.08, 0.02]):
        texts.append(str(shape).format(*random.choice(words, 3)))
    scale = 1.0 if sphere else 1000.0
    middles = random.uniform([-180, -85], [180, 85], (size, 2)) * scale
    middles[: size // 2] = random.normal([179.5, 60.0], [1.0, 0.5], (size // 2, 2)) * scale
    reach = np.exp(random.uniform(np.log(0.002), np.log(40.0), size))[:, None] * scale
    low, high = middles - reach, middles + reach
    rects = np.concatenate([low, high], axis=1)
    if sphere:
        rects[:, 0::2] = (rects[:, 0::2] + 180.0) % 360.0 - 180.0
        rects[:, 1::2] = np.clip(rects[:, 1::2], -90.0, 90.0)
    rects[::50] = WORLD if sphere else (-FAR, -FAR, FAR, FAR)
    positions = random.uniform([-180, -90], [180, 90], (300, 2)) * scale
    positions[:200] = middles[random.integers(0, size // 2, 200)]
    if sphere:
        positions[:, 0] = (positions[:, 0] + 180.0) % 360.0 - 180.0
        positions[:5] = [(180.0, 60.0), (0.0, 90.0), (0.0, -90.0), (180.0, -85.0), (0.0, 0.0)]
    else:
        positions[:3] = [(0.0, 0.0), (FAR, -FAR), (-1e6, 1e6)]
    messages = [" ".join(random.choice(words, random.integers(0, 7))) for _ in positions]
    return texts, rects, positions, messages


@cache
def large_crowd(sphere):
    """A crowd, and what there is to be found in it."""
    made = crowd(1, 1500, sphere)
    return made, expected(*made, sphere)


@pytest.mark.parametrize("sphere", [True, False])
@pytest.mark.parametrize("by", [BY_BOTH, BY_WORDS_ONLY, BY_PLACE_ONLY])
def test_crowds_under_few_words(sphere, by):
    """Cells of several levels, the antimeridian, poles, boxes beyond the frame of a plane."""
    (texts, rects, positions, messages), wanted = large_crowd(sphere)
    worded = build_worded(texts, rects, "sphere" if sphere else "plane", by=by)
    used = np.bitwise_or.reduce(worded.heads[:, 1])
    assert bin(used).count("1") >= (3 if by != BY_WORDS_ONLY else 0)
    assert pairs(worded, positions, messages) == wanted


def test_pieces_are_all_in_turn():
    """However little is made at a time; the arrays by name, read-only, are the index."""
    texts, rects, positions, messages = crowd(2, 400, True)
    made = build_worded(pa.array(texts), rects, "sphere", sample_positions=positions)
    arrays = {name: np.array(array) for name, array in made._asdict().items()}
    for array in arrays.values():
        array.setflags(write=False)
    worded = as_worded(arrays)
    said = messages_of(Vocabulary(worded.letters, worded.offsets, worded.slots), pa.array(messages))
    whole = expected(texts, rects, positions, messages)
    for most in (1, 7, 100, 1 << 20):
        pieces = list(candidate_pieces(worded, positions, said, most))
        assert [piece.first_row for piece in pieces] == [0, *(piece.last_row for piece in pieces[:-1])]
        assert pieces[-1].last_row == len(positions)
        assert all(len(piece.row) <= most or piece.last_row - piece.first_row == 1 for piece in pieces)
        rows = np.concatenate([piece.row for piece in pieces])
        numbers = np.concatenate([piece.subscription for piece in pieces])
        assert list(zip(rows.tolist(), numbers.tolist(), strict=True)) == whole


def test_a_huge_place_stands_in_few_cells():
    """Everywhere, or half of the Earth, under a word that many ask in small places."""
    texts = ["fire"] * 3000
    middles = np.random.default_rng(3).normal([2.35, 48.85], 0.2, (3000, 2))
    rects = np.concatenate([middles - 0.01, middles + 0.01], axis=1)
    rects[0], rects[1], rects[2] = WORLD, (-179.0, -89.0, 179.0, 89.0), (-180.0, 80.0, 180.0, 90.0)
    worded = build_worded(texts, rects, "sphere")
    assert len(worded.places) < 5 * len(texts)
    assert worded.heads[0, 1]
    assert pairs(worded, [(2.35, 48.85), (0.0, 90.0)], ["a FIRE!", "fire"]) == expected(
        texts, rects, [(2.35, 48.85), (0.0, 90.0)], ["a fire", "fire"]
    )


def test_a_million_on_one_place_with_one_word():
    """They are all found."""
    size = 200_000
    rects = np.tile(np.array([1.0, 1.0, 1.1, 1.1]), (size, 1))
    worded = build_worded(pa.array(["fire"]).take(pa.array(np.zeros(size, np.int64))), rects, "sphere")
    row, number = candidates(worded, np.array([[1.05, 1.05], [2.0, 1.0]]), pa.array(["fire", "fire"]))
    assert np.array_equal(number, np.arange(size))
    assert not row.any()


def test_a_phrase_in_a_long_text():
    """Its words are common there, and adjacent once; at the ends; never across two messages."""
    texts = ['"flood warning"', '"warning flood"', '"a flood warning"', "warning", '"flood flood"']
    rects = np.tile(np.array(WORLD), (5, 1))
    worded = build_worded(texts, rects, "sphere")
    messages = [
        "flood x warning x " * 20_000 + "flood warning",
        "flood",
        "warning flood",
        "Flood WARNING",
        "flood-flood",
    ]
    positions = np.zeros((5, 2))
    assert pairs(worded, positions, messages) == expected(texts, rects, positions, messages)


def test_what_is_no_formula_is_told():
    """The text of a subscription is parsed, whoever reads it."""
    with pytest.raises(ValueError, match="words"):
        build_worded(["a and", "b"], np.zeros((2, 4)), "sphere")


def test_nothing_asked_and_nothing_said():
    """No message, no subscription that any holds."""
    worded = build_worded(["a"], np.array([WORLD]), "sphere")
    assert pairs(worded, np.zeros((0, 2)), []) == []
    assert pairs(build_worded([], np.zeros((0, 4)), "plane"), [(0, 0)], ["a"]) == []
