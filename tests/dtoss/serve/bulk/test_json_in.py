"""Lists of numbers in JSON, read in pieces: the same as the whole, wherever it is cut."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dtoss.serve.bulk.request_bodies import lists_in
from dtoss.serve.core.problems import Problem
from tests.examples import examples

SPACES = st.text(" \t\r\n", max_size=3)
NUMBERS = st.one_of(st.floats(allow_nan=False, allow_infinity=False), st.integers(-(2**70), 2**70))


def read(body, most=10_000, radius=True, check=lambda: None, **sizes):
    return lists_in(body, "positions", 2, most, check, radius, **sizes)


@st.composite
def spaced(draw):
    """Pairs of numbers, and a text of them with spaces everywhere."""
    pairs = draw(st.lists(st.tuples(NUMBERS, NUMBERS), max_size=12))

    def gap():
        return draw(SPACES)

    texts = [f"{gap()}[{gap()}{a!r}{gap()},{gap()}{b!r}{gap()}]{gap()}" for a, b in pairs]
    return pairs, f'{gap()}{{{gap()}"positions"{gap()}:{gap()}[{gap()}{",".join(texts)}]{gap()}}}{gap()}'


@settings(max_examples=examples(150), deadline=None)
@given(spaced(), st.sampled_from([1, 2, 7, 40, 1 << 15]))
def test_lists_are_the_same_wherever_they_are_cut(scene, size):
    pairs, text = scene
    found, radii = read(text.encode(), piece_bytes=size)
    assert radii is None
    np.testing.assert_array_equal(found, np.array(pairs, dtype=np.float64).reshape(-1, 2))


@settings(max_examples=examples(150), deadline=None)
@given(spaced(), st.data(), st.sampled_from([1, 9, 1 << 15]))
def test_a_changed_text_is_read_as_the_library_reads_it_or_refused(scene, data, size):
    """No cut makes sense of what has none."""
    text = scene[1]
    at = data.draw(st.integers(0, len(text) - 1))
    new = data.draw(st.sampled_from(["", "[", "]", ",", "1", '"', "[1,2]", "],[", "{", "}", "null", "x", "-", "."]))
    changed = text[:at] + new + text[at + data.draw(st.integers(0, 2)) :]
    try:
        found, _ = read(changed.encode(), piece_bytes=size)
    except Problem:
        return
    wanted = json.loads(changed)["positions"]
    assert all(type(pair) is list and len(pair) == 2 for pair in wanted)
    assert not any(isinstance(number, (str, bool)) for pair in wanted for number in pair)
    np.testing.assert_array_equal(found, np.array(wanted, dtype=np.float64).reshape(-1, 2))


def test_a_wrong_row_is_named_by_its_number_in_the_whole():
    rows = [[1.0, 2.0]] * 9_000
    rows[8_765] = [1.0, "2"]
    asked = []
    with pytest.raises(Problem, match="positions row 8765: Expected `float`, got `str`"):
        read(json.dumps({"positions": rows}).encode(), check=lambda: asked.append(1))
    assert len(asked) > 2, "it is asked between pieces whether anybody waits"


def test_radii_are_one_or_as_many_as_there_are_places():
    body = b'{"positions":[[1,2],[3,4]],"radius":%b}'
    assert read(body % b"5")[1].tolist() == [5.0, 5.0]
    assert read(body % b" [5] ")[1].tolist() == [5.0, 5.0]
    assert read(body % b"[5, 6e0]")[1].tolist() == [5.0, 6.0]
    with pytest.raises(Problem, match="3 radii and 2 places"):
        read(body % b"[5,6,7]")
    for wrong in (b'"5"', b"null", b"[null]", b"[[5]]", b"{}", b"true"):
        with pytest.raises(Problem):
            read(body % wrong)


def test_more_lists_than_may_be_are_not_read():
    """They are counted by their brackets, before anything is made of them."""
    body = json.dumps({"positions": [[1, 2]] * 11}).encode()
    assert len(read(body, 11)[0]) == 11
    with pytest.raises(Problem) as caught:
        read(body, 10)
    assert (caught.value.status, caught.value.value, caught.value.bound) == (413, 11, 10)
    with pytest.raises(Problem) as caught:
        read(b"[" * 1_000_000, 10)
    assert caught.value.status == 413
    with pytest.raises(Problem, match="more than 10 radii"):
        read(b'{"positions":[[1,2]],"radius":[' + b"1," * 500_000 + b"1]}", 10)
