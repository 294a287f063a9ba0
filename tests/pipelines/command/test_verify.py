"""The command that looks at everything in a store: what it prints, and how it ends."""

from __future__ import annotations

import json

import numpy as np
import pytest

import dtoss
from pipelines.command.main import main
from tests.dtoss.snapshots.damaged_stores import stored


@pytest.fixture
def store(tmp_path):
    index = dtoss.build(np.arange(40), np.random.default_rng(0).uniform(-50.0, 50.0, (40, 2)), partitions=2)
    return stored(index, tmp_path / "store")


def said(capsys, *arguments):
    """The exit code, what is printed, and the lines on stderr."""
    with pytest.raises(SystemExit) as done:
        main(["verify", "--store", *map(str, arguments)])
    out, err = capsys.readouterr()
    return done.value.code, out, err.splitlines()


def test_a_store_that_is_whole(capsys, store):
    code, out, err = said(capsys, store)
    assert (code, err) == (0, [])
    assert "nothing" in out
    code, out, err = said(capsys, store, "--json")
    facts = json.loads(out)
    assert (code, err) == (0, [])
    assert (facts["objects"], facts["files"], facts["commits"], facts["damaged"]) == (40, 3, 1, [])
    assert said(capsys, store, "--snapshot", facts["snapshots"][0])[0] == 0


def test_a_line_for_each_damaged_file(capsys, store, tmp_path):
    """On stderr, or in the JSON; the exit code is 2 in both."""
    files = sorted(tmp_path.glob("store/snapshots/*/partitions/*"))
    for path in files:
        path.write_bytes(path.read_bytes()[:-3] + b"???")
    commit = next(tmp_path.glob("store/commits/*"))
    commit.write_bytes(commit.read_bytes().replace(b"0", b"1", 1))
    code, out, err = said(capsys, store)
    assert (code, len(err)) == (2, 3)
    for path in (*files, commit):
        assert sum(path.name in line for line in err) == 1
    assert "3 things" in out
    code, out, err = said(capsys, store, "--json")
    assert (code, err, len(json.loads(out)["damaged"])) == (2, [], 3)


def test_what_is_no_store(capsys, store, tmp_path):
    code, out, err = said(capsys, tmp_path / "nothing")
    assert (code, out, len(err)) == (2, "", 1)
    assert "is not a store" in err[0]
    code, out, err = said(capsys, store, "--snapshot", "x")
    assert (code, len(err), "has no snapshot 'x'" in err[0]) == (2, 1, True)
