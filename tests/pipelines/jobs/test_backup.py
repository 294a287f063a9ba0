"""What docs/backup.md says, done: a copy while all goes on, the disk lost, and all goes on as if it had not been."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

import dtoss
from tests.left_behind import unpack
from tests.pipelines.jobs.test_older_release import arrives, objects, past, results
from tests.samples.older_release import LOOP, WATCH

PAGE = (Path(__file__).parents[3] / "docs" / "backup.md").read_text()
LOST = ("store", "history")


def typed(heading):
    """The lines of the commands below a heading of the page."""
    found = re.search(rf"^## {heading}\n.*?```sh\n(.*?)```", PAGE, re.DOTALL | re.MULTILINE)
    return found[1].splitlines()


def shell(*lines):
    """Carry out lines in a shell; the first that fails ends it."""
    subprocess.run(["sh", "-ec", "\n".join(lines)], check=True, timeout=60)


def counted():
    """What windows have counted, without how often that was told."""
    return {
        at: [{name: value for name, value in row.items() if name != "revision"} for row in rows]
        for at, rows in results().items()
    }


def told():
    """All events with their ids."""
    return [json.dumps(event, sort_keys=True, default=str) for event in dtoss.events("store")]


def beat(command, *numbers):
    """Let files arrive; the loop and the watch read what is there."""
    for number in numbers:
        arrives(number)
    command.works(*LOOP)
    command.works(*WATCH)


@pytest.fixture
def going(tmp_path, monkeypatch, command):
    """A loop, windows and a watch that have read one file."""
    unpack(tmp_path)
    for old in (*LOST, "updates"):
        shutil.rmtree(tmp_path / old)
    monkeypatch.chdir(tmp_path)
    command.works("subscribe", "fences.jsonl", "--store", "store")
    beat(command, 0)
    return command


def test_a_disk_is_lost_and_nothing_else(going):
    """Two cycles are made while files are copied, one more after it: all of it comes again, each event once, by its id.

    Where the files that the copy has not are read at once, batches are others: rows, objects and counts are the same.
    """
    copy = typed("A copy while all goes on")
    assert [line.split()[0] for line in copy] == ["find", "tar"] * 3 + ["tar"]
    shell(*copy[:2])
    beat(going, 1)
    shell(*copy[2:4])
    beat(going, 2)
    shell(*copy[4:])
    beat(going, 3)
    wanted, counts = (objects(), past(), results(), told()), counted()
    first, *looks = typed("Restore")
    for numbers in ([(2,), (3,)], [(2, 3)]):
        for lost in LOST:
            shutil.rmtree(lost)
        for number in (2, 3):
            (Path("updates") / f"{number}.csv").unlink()
        shell(first)
        for look in looks:
            going.works(*look.split()[1:])
        assert told() == wanted[3][: len(told())]
        assert 0 < len(told()) < len(wanted[3])
        for some in numbers:
            beat(going, *some)
        if len(numbers) == 2:
            for one, other in zip((objects(), past(), results(), told()), wanted, strict=True):
                assert one == other
        else:
            assert (objects(), past(), counted()) == (*wanted[:2], counts)


def test_a_copy_in_the_wrong_order_is_found(going):
    """Files before commits, a cycle between: each part says what it lacks."""
    copy = typed("A copy while all goes on")
    shell(copy[4], copy[5].replace("-rf", "-cf"))
    beat(going, 1)
    shell(copy[0], copy[1].replace("-cf", "-rf"), *copy[2:4])
    for lost in LOST:
        shutil.rmtree(lost)
    first, *looks = typed("Restore")
    shell(first)
    for look in looks:
        ran = going(*look.split()[1:])
        assert ran.code in (1, 2), look
        assert re.search("missing|damaged|is gone", ran.out + ran.err), (look, ran)
