"""The consumers that docs/watch.md shows run as they stand there."""

from __future__ import annotations

import os
import re
import shlex
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

import dtoss
from dtoss.watch.events.readers import END_OF_BATCH, cursor_of_reader
from dtoss.watch.watch_folder import Home
from tests.dtoss.watch.events.made import batch_of, event

ROOT = Path(__file__).parents[4]


@pytest.fixture
def shop(tmp_path, monkeypatch):
    """A folder with a store ``taxis``, and the page's consumers beside it."""
    page = (ROOT / "docs" / "watch.md").read_text(encoding="utf-8")
    for name, code in re.findall(r"^```python\n(?:# (\w+\.py): )(.*?)^```$", page, re.MULTILINE | re.DOTALL):
        (tmp_path / name).write_text(f"# {code}")
    home = Home(str(tmp_path / "taxis"))
    for batch in range(2):
        batch_of(home, [[], [event(f"s{row % 2}", "enter", 10 * batch + row) for row in range(5)]])
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    return home


def run(*words):
    return subprocess.run(words, capture_output=True, text=True, check=True, timeout=60).stdout


def test_what_a_command_has_stored_is_stored_once(shop, tmp_path):
    """By the command that stands in its first line; also when it is told again."""
    line = (tmp_path / "consume.py").read_text().splitlines()[0].removeprefix("# ")
    _, *words = shlex.split(line)
    for more in ([], ["--reset"]):
        assert run(sys.executable, "-m", "dtoss", *words, *more) == ""
    with sqlite3.connect("billing.db") as database:
        told = database.execute("select id, subscription, object from events").fetchall()
    database.close()
    assert told == [(row["id"], row["subscription"], row["object"]) for row in dtoss.events(shop.store)]
    assert cursor_of_reader(shop, "billing") == (2, END_OF_BATCH)


def test_who_acknowledges_reads_on_where_it_was(shop, tmp_path):
    """It ends where there are no more, unless it is to follow."""
    wanted = [f"enter {row['subscription']}" for row in dtoss.events(shop.store)]
    assert run(sys.executable, "acknowledge.py").splitlines() == wanted
    assert cursor_of_reader(shop, "alarms") == (2, END_OF_BATCH)
    batch_of(shop, [[], [event("new", "enter", 1)]])
    assert run(sys.executable, "acknowledge.py") == "enter new\n"
