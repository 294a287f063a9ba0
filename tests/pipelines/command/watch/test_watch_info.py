"""``dtoss info``: the watches of a store, beside its snapshot or without one, and who writes to them."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

import dtoss
from dtoss.commits.lease import take
from dtoss.watch.watch_folder import Home
from tests.dtoss.snapshots.damaged_stores import stored
from tests.dtoss.watch.events.made import batch_of, event
from tests.dtoss.watch.streams import change, circle


@pytest.fixture
def said(command):
    """The exit code, the lines of stdout and those of stderr."""

    def ended(*words):
        ran = command("info", *words)
        return ran.code, *ran.lines

    return ended


def test_watches_and_who_writes_to_them(said, tmp_path):
    """What the error of a second writer says can be looked up here; what is damaged is told, and hides no other."""
    store = tmp_path / "store"
    first, second = Home(str(store)), Home(str(store), "other")
    change(first, [circle("a", 0.0, 0.0, 1.0)])
    for _ in range(2):
        batch_of(first, [[], [event("a", "enter", 1)]])
    change(second, [circle("a", 0.0, 0.0, 1.0)])
    with take(first.folder, "it", print, lambda: None):
        code, out, err = said("--store", store)
        assert (code, len(out), err) == (0, 2, [])
        assert f"default: 2 batches, 1 changes, written by process {os.getpid()} on " in out[0]
        assert "other: 0 batches, 1 changes" in out[1]
        (line,) = said("--store", store, "--json")[1]
        one, other = json.loads(line)["watches"]
        assert (one["name"], one["batches"], one["changes"]) == ("default", 2, 1)
        assert one["writer"].startswith(f"process {os.getpid()} on ")
        assert other == {"name": "other", "writer": None, "batches": 0, "changes": 1}
    path = Path(first.batches.path(2))
    path.write_bytes(path.read_bytes()[:-5])
    code, out, _ = said("--store", store, "--json")
    one, other = json.loads(out[0])["watches"]
    assert (code, one["writer"], other["changes"]) == (0, None, 1)
    assert str(path) in one["damaged"]
    assert str(path) in " ".join(said("--store", store)[1])
    code, out, err = said("--store", store, "--snapshot", "x")
    assert (code, out, len(err)) == (2, [], 1)


def test_beside_a_snapshot(said, tmp_path):
    store = stored(dtoss.build([1, 2], [[0.0, 0.0], [1.0, 1.0]]), tmp_path / "store")
    assert json.loads(said("--store", store, "--json")[1][0])["watches"] == []
    change(Home(str(store), "taxis"), [circle("a", 0.0, 0.0, 1.0)])
    code, out, _ = said("--store", store)
    assert (code, out[-1].split()) == (0, ["watch", "taxis:", "0", "batches,", "1", "changes"])
    facts = json.loads(said("--store", store, "--json")[1][0])
    assert (facts["objects"], [one["name"] for one in facts["watches"]]) == (2, ["taxis"])
