"""What requests count as by k and radius: between measured questions, past them, and what a file may say."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ceps
from ceps.model.servers import RequestCosts, load_costs

BLOCK = '[[server]]\nname = "a"\nrequests_per_second = 10\nbytes = inf\ndollars_per_hour = 0\n'


def slow_weight(curve, asked, steepest):
    """One weight, by hand: the power law through the two measured points on either side."""
    if asked <= curve[0][0]:
        return curve[0][1]
    for (x0, y0), (x1, y1) in pairwise(curve):
        if asked <= x1:
            return y0 * (y1 / y0) ** (math.log(asked / x0) / math.log(x1 / x0))
    if len(curve) == 1:
        return curve[0][1]
    (x0, y0), (x1, y1) = curve[-2:]
    power = min(max(math.log(y1 / y0) / math.log(x1 / x0), 0.0), steepest)
    return y1 * (asked / x1) ** power


@st.composite
def curves(draw):
    at = sorted(draw(st.sets(st.integers(1, 10_000), min_size=1, max_size=5)))
    return tuple((float(x), draw(st.integers(1, 400)) / 4) for x in at)


@given(curves(), curves(), st.lists(st.tuples(st.integers(0, 50_000), st.integers(-1, 50_000)), min_size=1, max_size=9))
def test_weights_are_power_laws_between_what_was_measured(by_k, by_radius, asked):
    """Of k, of a radius (-1: none), and of both the less."""
    k = np.array([float(x) for x, _ in asked])
    radius = np.array([np.inf if x < 0 else float(x) for _, x in asked])
    found = RequestCosts(by_k, by_radius).weights(k, radius)
    for weight, much, far in zip(found, k, radius, strict=True):
        wanted = [slow_weight(by_k, much, 1.0)] if much else []
        wanted += [slow_weight(by_radius, far, 2.0)] if far < np.inf else []
        assert weight == pytest.approx(min(wanted, default=1.0))


def test_what_was_not_measured_counts_as_one():
    """No curve of what is asked for, and no k and radius at all."""
    costs = RequestCosts(by_k=((1.0, 0.5), (100.0, 5.0)))
    k, radius = np.array([0.0, np.nan, 100.0, 0.0]), np.array([np.inf, np.nan, 3.0, 50.0])
    assert costs.weights(k, radius).tolist() == [1.0, 1.0, pytest.approx(5.0), 1.0]


def test_costs_of_a_file(tmp_path):
    """Curves of a block; of several servers the larger weight; the same file is a catalogue of servers."""
    file = tmp_path / "servers.toml"
    first = BLOCK + "cost_by_k = [[1, 0.5], [100, 8]]\ncost_by_radius = [[10.0, 2]]\n"
    file.write_text(first)
    assert load_costs(file) == RequestCosts(((1.0, 0.5), (100.0, 8.0)), ((10.0, 2.0),))
    assert [server.name for server in ceps.load_servers(file)] == ["a"]
    file.write_text(first + BLOCK.replace('"a"', '"b"') + "cost_by_k = [[1, 1], [10, 2], [100, 4]]\n")
    assert load_costs(file).by_k == ((1.0, 1.0), (10.0, pytest.approx(2.0)), (100.0, pytest.approx(8.0)))


@pytest.mark.parametrize(
    "value", ["3", "[]", "[[1]]", "[[1, 0]]", "[[0, 1]]", "[[2, 1], [1, 2]]", '[["1", 2]]', "[[1, inf]]", "[[1, true]]"]
)
def test_what_is_no_curve_is_refused(tmp_path, value):
    """By both readers, with the server's name and how to write it."""
    file = tmp_path / "servers.toml"
    file.write_text(BLOCK + f"cost_by_k = {value}\n")
    for load in (load_costs, ceps.load_servers):
        with pytest.raises(ValueError, match=r"server 'a': cost_by_k = .* such as \[\[1, 0.8\], \[100, 3.5\]\]"):
            load(file)


def test_a_file_without_costs_says_where_they_come_from(tmp_path):
    """Neither key, no TOML, no file."""
    file = tmp_path / "servers.toml"
    file.write_text(BLOCK)
    with pytest.raises(ValueError, match="no server has cost_by_k or cost_by_radius; dtoss calibrate"):
        load_costs(file)
    file.write_text("x = [")
    with pytest.raises(ValueError, match="not a TOML file"):
        load_costs(file)
    with pytest.raises(FileNotFoundError, match="dtoss calibrate prints"):
        load_costs(tmp_path / "none")


def test_a_block_without_a_price_says_how_to_write_it(tmp_path):
    """What calibrate prints without --dollars-per-hour ends in one line that names the key, and 0 for own machines."""
    file = tmp_path / "servers.toml"
    file.write_text(BLOCK.replace("dollars_per_hour = 0\n", ""))
    with pytest.raises(
        ValueError, match=r"lacks dollars_per_hour; write dollars_per_hour = 0.25 .* 0 where .* your own"
    ):
        ceps.load_servers(file)
