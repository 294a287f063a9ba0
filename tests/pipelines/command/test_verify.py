"""The command that looks at everything in a store: what it prints, and how it ends."""

from __future__ import annotations

import numpy as np
import pytest

import dtoss
from tests.dtoss.snapshots.damaged_stores import stored


@pytest.fixture
def store(tmp_path):
    index = dtoss.build(np.arange(40), np.random.default_rng(0).uniform(-50.0, 50.0, (40, 2)), partitions=2)
    return stored(index, tmp_path / "store")


def test_a_store_that_is_whole(command, store):
    code, out, err = command("verify", "--store", store)
    assert (code, err) == (0, "")
    assert "nothing" in out
    ran = command("verify", "--store", store, "--json")
    facts = ran.json
    assert (ran.code, ran.err) == (0, "")
    assert (facts["objects"], facts["files"], facts["commits"], facts["damaged"]) == (40, 3, 1, [])
    assert command("verify", "--store", store, "--snapshot", facts["snapshots"][0]).code == 0


def test_a_line_for_each_damaged_file(command, store, tmp_path):
    """On stderr, or in the JSON; the exit code is 2 in both."""
    files = sorted(tmp_path.glob("store/snapshots/*/partitions/*"))
    for path in files:
        path.write_bytes(path.read_bytes()[:-3] + b"???")
    commit = next(tmp_path.glob("store/commits/*"))
    commit.write_bytes(commit.read_bytes().replace(b"0", b"1", 1))
    ran = command("verify", "--store", store)
    assert (ran.code, ran.err.count("\n")) == (2, 3)
    for path in (*files, commit):
        assert ran.err.count(path.name) == 1
    assert "3 things" in ran.out
    ran = command("verify", "--store", store, "--json")
    assert (ran.code, ran.err, len(ran.json["damaged"])) == (2, "", 3)


def test_what_is_no_store(command, store, tmp_path):
    assert "is not a store" in command.fails("verify", "--store", tmp_path / "nothing")
    code, _, err = command("verify", "--store", store, "--snapshot", "x")
    assert (code, err.count("\n"), "has no snapshot 'x'" in err) == (2, 1, True)
