"""When pivots are chosen anew: the bounds that the documents name, and what they are compared with."""

from __future__ import annotations

import pytest

from pipelines.cycles.partitions import why_anew

GOOD = [{"objects": 1_000, "sites": 1_000, "uncertified": 0, "replicas": 0}] * 4


def manifest(change=None, chosen=None):
    entries = [dict(entry) for entry in GOOD]
    entries[0] |= change or {}
    return {"partitions": entries, "policy": chosen, "parameters": {"partitions": 4}}


@pytest.mark.parametrize(
    ("within", "beyond", "why"),
    [
        ({"objects": 1_363}, {"objects": 1_364}, r"^the largest partition, in means, is 1\.25, 1\.25 at most$"),
        ({"uncertified": 80}, {"uncertified": 81}, r"^the share of open cells is 2\.02%, 2\.00% at most$"),
        ({"replicas": 200}, {"replicas": 201}, r"^the share of replicas is 5\.03%, 5\.00% at most$"),
    ],
)
def test_pivots_are_kept_up_to_the_bounds_and_else_it_is_said_why(within, beyond, why):
    """1.25 of the mean of a partition's objects, 2 % of cells that are open, 5 % of objects copied."""
    assert why_anew(manifest(within)) is None
    with pytest.raises(AssertionError, match=why):
        raise AssertionError(why_anew(manifest(beyond)))


def test_an_empty_store_keeps_its_pivots():
    nothing = dict.fromkeys(("objects", "sites", "uncertified", "replicas"), 0)
    assert why_anew({"partitions": [nothing] * 2, "parameters": {}}) is None


def test_what_was_beyond_a_bound_when_pivots_were_chosen_has_to_become_worse():
    """Many objects on one site are beyond it whatever the pivots are."""
    crowd = {"objects": 4_000, "sites": 1}
    assert why_anew(manifest(crowd)) is not None
    assert why_anew(manifest(crowd, {"objects": 7_000, "largest": 2.25})) is None
    assert why_anew(manifest(crowd, {"objects": 7_000, "largest": 1.3})) is not None
