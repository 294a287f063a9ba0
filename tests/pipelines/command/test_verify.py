"""The command that looks at everything in a store: what it prints, and how it ends."""

from __future__ import annotations

import numpy as np
import pytest

import dtoss
from tests.dtoss.snapshots.damaged_stores import stored
from tests.refusals import REFUSAL, unopenable


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


def test_what_could_not_be_read_is_exit_code_1(command, store, tmp_path):
    """Named with the reason, in the JSON too, and without advice; beside damage it is 2, for other commands 1."""
    one, other = sorted(tmp_path.glob("store/snapshots/*/partitions/*"))
    line = f"{one} could not be read: {REFUSAL}"
    with unopenable(one):
        ran = command("verify", "--store", store)
        assert (ran.code, ran.err) == (1, f"{line}\n")
        assert "nothing of what could be read" in ran.out
        assert "1 things, named on stderr" in ran.out
        ran = command("verify", "--store", store, "--json")
        assert (ran.code, ran.err, ran.json["damaged"], ran.json["unread"]) == (1, "", [], [line])
        ran = command("knn", "--store", store, "--at", "0", "0")
        assert (ran.code, ran.err) == (1, f"error: {line}\n")
        other.unlink()
        ran = command("verify", "--store", store, "--json")
        assert (ran.code, ran.json["damaged"], ran.json["unread"]) == (
            2, [f"{other} is missing; roll back or rebuild"], [line]
        )  # fmt: skip


def test_a_history_that_could_not_be_read_is_exit_code_1(command, tmp_path):
    """A file of rows, and the commit that says which there are: in the JSON, too; `--restore` changes nothing."""
    folder = tmp_path / "h"
    dtoss.history.append({"id": [1, 2], "lon": [0.0, 1.0], "lat": [0.0, 1.0], "t": [1, 2]}, str(folder), batch="a")
    rows, commit = next(folder.glob("time/*")), next(folder.glob("commits/*"))
    for path, version in ((rows, 1), (commit, None)):
        line = f"{path} could not be read: {REFUSAL}"
        with unopenable(path):
            ran = command("history", "verify", "--history", folder)
            assert (ran.code, "nothing of what could be read" in ran.out, ran.err) == (1, True, f"{line}\n")
            ran = command("history", "verify", "--history", folder, "--json")
            assert (ran.code, ran.json.get("version"), ran.json["damaged"], ran.json["unread"]) == (
                1,
                version,
                [],
                [line],
            )
    with unopenable(rows):
        ran = command("history", "verify", "--history", folder, "--restore")
    assert (ran.code, REFUSAL in ran.err, "nothing is made again" in ran.err) == (1, True, True)
    assert command("history", "verify", "--history", folder).code == 0


def test_what_is_no_store(command, store, tmp_path):
    assert "is not a store" in command.fails("verify", "--store", tmp_path / "nothing")
    code, _, err = command("verify", "--store", store, "--snapshot", "x")
    assert (code, err.count("\n"), "has no snapshot 'x'" in err) == (2, 1, True)
