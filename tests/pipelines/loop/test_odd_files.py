"""Files that cannot be read as the others are: which they are, found by halves."""

from __future__ import annotations

import pytest

from dtoss.errors import InputError
from dtoss.rows.input_columns import Unfitting
from pipelines.loop.odd_columns import may_refuse, take_apart


def checking(odd=(), kinds=None):
    """A check of files of which some are odd, and others of kinds that do not go together; and what it was asked."""
    asked = []

    def check(files):
        asked.append(sorted(files))
        for file in files:
            if file in odd:
                raise InputError(f"{file} cannot\nbe read")
        if len({(kinds or {}).get(file) for file in files}) > 1:
            raise InputError("of two kinds")

    return check, asked


def sized(names):
    return dict.fromkeys(names, 1)


def test_each_odd_file_is_found_and_the_others_go_on_together():
    check, asked = checking(odd="dh")
    apart = take_apart(sized("abcdefgh"), check)
    assert apart.odd == {"d": "cannot be read", "h": "cannot be read"}
    assert apart.groups == (sized("abcefg"),)
    assert len(asked) <= 2 * 2 * 3 + 2


def test_one_odd_file_among_many_costs_few_looks():
    names = [f"f{number:03}" for number in range(256)]
    check, asked = checking(odd=["f077"])
    apart = take_apart(sized(names), check)
    assert set(apart.odd) == {"f077"}
    assert len(apart.groups[0]) == 255
    assert len(asked) <= 2 * 8 + 2


def test_files_of_two_kinds_are_two_groups():
    check, _ = checking(kinds={"a": 1, "b": 1, "c": 2})
    apart = take_apart(sized("abc"), check)
    assert apart.odd == {}
    assert [list(group) for group in apart.groups] == [["a"], ["b"], ["c"]] or [
        list(group) for group in apart.groups
    ] == [["a", "b"], ["c"]]
    assert may_refuse(apart, False, False)


@pytest.mark.parametrize("error", [InputError, Unfitting])
def test_options_may_be_to_blame_where_no_file_was_read(error):
    """A column that is not there, or rows of which all are bad, may be an option's fault; a file that is cut is not."""

    def check(files):
        if "b" in files:
            raise error("no")

    alone, beside = take_apart({"b": 1}, check), take_apart(sized("ab"), check)
    assert may_refuse(beside, False, False)
    assert may_refuse(alone, True, True)
    assert not may_refuse(alone, False, False)
    assert may_refuse(alone, True, False) == (error is InputError)
