"""Formulas of words: what they say, what is no formula, and covers that lose nothing."""

from __future__ import annotations

import unicodedata

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dtoss.watch.words.formula import MOST_CHARACTERS, All, Any, Said, parse_words
from dtoss.watch.words.formula_programs import ACCEPT, compile_words
from dtoss.watch.words.tokenizer import tokens
from tests.examples import examples

WORDS = st.sampled_from(["a", "b", "c", "d", "e"])


def texts_of_formulas():
    """Texts of formulas, nested, with phrases."""
    leaf = WORDS | st.lists(WORDS, min_size=1, max_size=3).map(lambda words: '"' + " ".join(words) + '"')
    return st.recursive(
        leaf,
        lambda inner: (
            st.builds(lambda a, b: f"({a} and {b})", inner, inner)
            | st.builds(lambda a, b: f"({a} OR {b})", inner, inner)
            | inner.map(lambda a: f"not {a}")
        ),
        max_leaves=8,
    )


def python_says(text, words):
    """The formula as Python evaluates it."""
    said = " ".join(words)
    out, quoted = [], None
    for piece in text.replace("(", " ( ").replace(")", " ) ").split():
        if quoted is not None or piece.startswith('"'):
            quoted = [*(quoted or []), piece.strip('"')]
            if piece.endswith('"'):
                out.append(f"(' {' '.join(quoted)} ' in ' {said} ')")
                quoted = None
        elif piece.lower() in ("and", "or", "not", "(", ")"):
            out.append(piece.lower())
        else:
            out.append(f"(' {piece} ' in ' {said} ')")
    return eval(" ".join(out))


@settings(max_examples=examples(300), deadline=None)
@given(texts_of_formulas(), st.lists(WORDS, max_size=6))
def test_a_formula_means_what_python_would_say(text, words):
    """Precedence, negation that is carried to the words, phrases."""
    assert parse_words(text).holds(words) is python_says(text, words)


def program_says(vocabulary, compiled, number, words):
    """The program of a formula, run over the words of a text."""
    said, at = vocabulary.numbers_of(pa.array(words, pa.large_string())).tolist(), int(compiled.entry[number])
    while at >= 0:
        asked, yes, no = compiled.code[at].tolist()
        wanted = [asked] if asked >= 0 else compiled.phrases[slice(*compiled.phrase[-1 - asked :][:2])].tolist()
        there = any(said[place : place + len(wanted)] == wanted for place in range(len(said)))
        at = yes if there else no
    return at == ACCEPT


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(texts_of_formulas(), min_size=1, max_size=4), st.lists(WORDS, max_size=6))
@example(["not (a or b)", "not a or b"], ["b"])
@example(['"a b" or c', '"a c"'], ["b", "a", "c"])
def test_programs_of_many_formulas_mean_what_each_says(texts, words):
    """Those that a kernel reads, and those with parentheses or quotes."""
    vocabulary, compiled = compile_words(pa.array(texts, pa.large_string()), covered=False)
    for number, text in enumerate(texts):
        assert program_says(vocabulary, compiled, number, words) == parse_words(text).holds(words), text


@settings(max_examples=examples(300), deadline=None)
@given(texts_of_formulas(), st.lists(WORDS, max_size=6), st.permutations("abcde"))
def test_a_cover_loses_nothing(text, words, order):
    """Each text for which the formula holds has a word of the cover, whatever is rare."""
    formula = parse_words(text)
    cover = formula.cover(order.index)
    assert (cover is None) == formula.only_negated
    if cover is not None and formula.holds(words):
        assert cover & set(words)


def test_the_cover_of_an_or_has_a_word_of_each_part():
    """The rarer word alone would lose what holds the other."""
    count = {"a": 5, "b": 1, "c": 3}.__getitem__
    assert parse_words("a or b").cover(count) == {"a", "b"}
    assert parse_words("a and (b or c)").cover(count) == {"b", "c"}
    assert parse_words("a and (b or a)").cover(count) == {"a"}
    assert parse_words('"a c" and not b').cover(count) == {"c"}
    assert parse_words("not (not a or b)").cover(count) == {"a"}
    assert parse_words("a or not b").cover(count) is None


def test_binding():
    """not before and before or."""
    assert parse_words("a or b and not c").root == Any((Said(("a",)), All((Said(("b",)), Said(("c",), True)))))
    assert parse_words("a AND (b And c)").root == All((Said(("a",)), Said(("b",)), Said(("c",))))
    assert parse_words("Coffee-Shop").root == Said(("coffee", "shop"))
    assert parse_words('"not"').root == Said(("not",))


NONE = ["", " ", "and", "a b", "a and", "or a", "(a", "a)", "()", "a and or b", "not", '"a', '""', '"!"', "&", "a & b"]
LONG = ["(" * 60 + "a" + ")" * 60, "not " * 60 + "a", "a or " * 3000 + "a"]


@pytest.mark.parametrize("text", [*NONE, *LONG])
def test_what_is_no_formula_is_told_in_a_line(text):
    """One line, that ends by itself."""
    with pytest.raises(ValueError, match="words") as told:
        parse_words(text)
    assert "\n" not in str(told.value)
    assert len(str(told.value)) < 200


def test_a_formula_of_full_length_is_read():
    """Many words are no deep formula."""
    text = "a or " * (MOST_CHARACTERS // 5 - 1) + "b"
    assert parse_words(text).cover(lambda word: 1) == {"a", "b"}


def test_tokens():
    """Case, forms, what divides."""
    assert tokens("Straße STRASSE") == ["strasse", "strasse"]
    assert tokens("ＣＡＦÉ cafe\u0301") == ["café", "café"]
    assert tokens("don't_stop, 4th") == ["don", "t", "stop", "4th"]
    assert tokens("  …!  ") == []
    assert tokens("東京 tokyo") == ["東京", "tokyo"]


@settings(max_examples=examples(300), deadline=None)
@given(st.text(max_size=20))
def test_tokens_are_the_runs_of_letters_and_digits(text):
    """As ``str.isalnum`` has them, one character after another."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    assert tokens(text) == [run for run in "".join(c if c.isalnum() else " " for c in folded).split(" ") if run]
