"""A name that is not known leads to the one that may be meant, and to none where none is near."""

from __future__ import annotations

from difflib import SequenceMatcher

import pytest
from hypothesis import given
from hypothesis import strategies as st

import dtoss
from dtoss.conditions.parse import parse_condition
from dtoss.names import ALIKE, LONGEST_NAMED, did_you_mean, near_name, not_carried

KNOWN = ["occupied", "speed", "kind", "driver_name", "Fleet", "lon", "lat", "t"]
TYPOS = {
    "ocupied": "occupied", "occupeid": "occupied", "OCCUPIED": "occupied", "occupied_": "occupied", "sped": "speed",
    "speeed": "speed", "Speeds": "speed", "knid": "kind", "kinds": "kind", "driver-name": "driver_name",
    "drivername": "driver_name", "fleet": "Fleet", "long": "lon", "T": "t",
}  # fmt: skip
FAR = ["", "x", "colour", "tt", "time", "speedometer_reading", "näme", "occupied = 0 or 1 = 1"]


@pytest.mark.parametrize(("typo", "meant"), TYPOS.items())
def test_a_typo_leads_to_the_name(typo, meant):
    """A letter too many, too few or exchanged, another case or sign."""
    assert near_name(typo, KNOWN) == meant
    assert did_you_mean(typo, KNOWN) == f"; did you mean {meant}?"


@pytest.mark.parametrize("name", FAR)
def test_nothing_near_is_no_suggestion(name):
    """Nor is anything where nothing is known."""
    assert near_name(name, KNOWN) is None
    assert did_you_mean(name, KNOWN) == ""
    assert near_name(name, []) is None


def slowly(name, known):
    """The most alike of all names, looked at one by one."""
    best = [(SequenceMatcher(None, other.casefold(), name.casefold()).ratio(), other.casefold()) for other in known]
    return max([one for one in best if one[0] >= ALIKE], default=None)


names = st.text("abAB_é", max_size=6)


@given(names, st.lists(names, max_size=6))
def test_it_is_the_most_alike(name, known):
    """Whatever the case; the first of those that differ in nothing else."""
    found, wanted = near_name(name, known), slowly(name, known)
    assert (found is None) == (wanted is None)
    if found is not None:
        assert found == next(other for other in known if other.casefold() == found.casefold())
        assert SequenceMatcher(None, found.casefold(), name.casefold()).ratio() == wanted[0]
    if name.casefold() in [other.casefold() for other in known]:
        assert found.casefold() == name.casefold()


def test_names_without_end_are_not_compared():
    """Whoever asks a server with one does not keep it busy."""
    name = "a" * (LONGEST_NAMED + 1)
    assert near_name(name, [name + "b"]) is None
    assert near_name(name[1:], [name]) == name


def test_conditions_and_columns_say_it():
    """With what there is, in one line."""
    index = dtoss.build([1, 2], [[0.0, 0.0], [1.0, 1.0]], columns={"occupied": [0, 1], "Kind": ["a", "b"]})
    asked = [
        (lambda: index.knn([0.0, 0.0], where="ocupied = 0"), "occupied"),
        (lambda: index.knn([0.0, 0.0], having="knid = 'a'"), "Kind"),
        (lambda: index.range([0.0, 0.0], 1.0, columns=["occupied", "kind"]), "Kind"),
        (lambda: index.box([0.0, 0.0, 1.0, 1.0], columns=["latt"]), "lat"),
    ]
    for ask, meant in asked:
        with pytest.raises(ValueError, match=rf"is not carried by the objects; they carry .*; did you mean {meant}\?$"):
            ask()
    with pytest.raises(ValueError, match=r"'colour' is not carried by the objects; they carry occupied, Kind, id$"):
        index.knn([0.0, 0.0], where="colour = 0")
    with pytest.raises(ValueError, match=r"they carry none$"):
        parse_condition("speed > 3", {})
    # a name that is ours leads to the attribute that has it, before any that is only alike
    assert not_carried("lon", ["long", "lon_"]).endswith("; an attribute lon is called lon_ here")
