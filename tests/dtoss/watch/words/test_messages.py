"""Texts as numbers of words: the kernels and the one tokeniser say the same."""

from __future__ import annotations

import time

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dtoss.watch.words.messages import messages_of, token_numbers, vocabulary_of
from dtoss.watch.words.tokenizer import tokens
from tests.examples import examples

LETTERS = "aB1 _-.=<é½ßẞİıſ東京\u0301\u0338\u00a0\u3000\uff21\uff08\u0344\u1e9b\u0323\ufb01\ufb03"
TEXTS = st.text(LETTERS, max_size=12) | st.text(max_size=8)


def words_of(texts):
    """The vocabulary of some texts, and its words."""
    words = sorted({word for text in texts for word in tokens(text or "")})
    return vocabulary_of(pa.array(words, pa.large_string())), words


@pytest.mark.checked
@settings(max_examples=examples(200), deadline=None)
@given(st.lists(st.none() | TEXTS, max_size=4), st.lists(TEXTS, max_size=3))
def test_numbers_are_those_of_the_tokeniser(known, unknown):
    """Of every text, in the order of its words, whatever forms its letters have."""
    vocabulary, words = words_of(known)
    number = {word: at for at, word in enumerate(words)}
    texts = known + unknown
    begin, found = token_numbers(vocabulary, pa.array(texts, pa.string()))
    for i, text in enumerate(texts):
        assert found[begin[i] : begin[i + 1]].tolist() == [number.get(word, -1) for word in tokens(text or "")]


@pytest.mark.checked
@settings(max_examples=examples(100), deadline=None)
@given(st.lists(st.lists(st.sampled_from(["a", "b", "c", "zz", "é"]), max_size=60), max_size=4))
def test_distinct_words_and_their_places(said):
    """Distinct words rise; the places of each are where the text has it. Unknown words are passed over."""
    vocabulary = vocabulary_of(pa.array(["c", "a", "é"], pa.large_string()))
    number = {"c": 0, "a": 1, "é": 2}
    messages = messages_of(vocabulary, pa.array([" ".join(words) for words in said], pa.large_string()))
    for i, words in enumerate(said):
        span = slice(messages.first[i], messages.first[i + 1])
        assert messages.words[span].tolist() == sorted({number[word] for word in words if word in number})
        for k in range(messages.first[i], messages.first[i + 1]):
            places = messages.places[messages.at[k] : messages.at[k + 1]] - messages.begin[i]
            assert places.tolist() == [at for at, word in enumerate(words) if number.get(word) == messages.words[k]]


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())])
def test_every_kind_of_text_column(kind):
    """Slices, chunks, nulls."""
    vocabulary, _ = words_of(["a b"])
    texts = pa.array(["b", "a b", None, "", "c a"], pa.string()).cast(kind)
    messages = messages_of(vocabulary, texts.slice(1))
    assert messages.words.tolist() == [0, 1, 0]
    assert messages.first.tolist() == [0, 2, 2, 2, 3]
    chunked = messages_of(vocabulary, pa.chunked_array([texts.slice(1, 2), texts.slice(3)]))
    assert all(np.array_equal(a, b) for a, b in zip(messages, chunked, strict=True))
    assert messages_of(vocabulary, texts.slice(0, 0)).first.tolist() == [0]


def test_many_words_that_differ():
    """More than a table's first room; each is found again."""
    words = [f"w{i}é" if i % 3 == 0 else f"w{i}" for i in range(20_000)]
    vocabulary = vocabulary_of(pa.array(words, pa.large_string()))
    messages = messages_of(vocabulary, pa.array([" ".join(reversed(words)).upper()]))
    assert np.array_equal(messages.words, np.arange(20_000))
    assert np.array_equal(messages.tokens, np.arange(20_000)[::-1])


def test_a_text_of_megabytes_takes_time_by_its_length():
    """Four times the text takes no sixteen times the time, of ASCII or not."""
    vocabulary, _ = words_of(["flood fire"])
    for text in ("flood x1 fire ", "överfull flood 東京 "):
        took = []
        for times in (50_000, 50_000, 200_000):
            begin = time.process_time()
            messages = messages_of(vocabulary, pa.array([text * times]))
            took.append(time.process_time() - begin)
            assert len(messages.words) == (2 if "fire" in text else 1)
        assert took[2] < 12 * took[1] + 0.5
