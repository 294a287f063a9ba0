"""``dtoss verify --patterns``: whole ones are, and each byte that changes is found."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dtoss.commits.file_entry import FileEntry
from dtoss.errors import InputError
from pipelines.load_patterns.live_patterns import verify_live
from pipelines.load_patterns.patterns_folder import NAMES, ROOMS, Home, State
from tests.pipelines.load_patterns.logs import flushes, patterns_bytes, world_in, write


@pytest.fixture
def world(tmp_path):
    """Live patterns of three runs."""
    made = world_in(tmp_path / "store", count=200)
    files = list(flushes(made.rows, np.random.default_rng(1)).items())
    for part in (files[:16], files[16:20], files[20:]):
        write(made.log, dict(part))
        patterns_bytes(made, tmp_path / "live.parquet")
    return made


def test_whole_ones(world, command):
    """Counted: commits, files, bytes and rows."""
    code, out, err = command("verify", "--store", world.store, "--patterns", "live", "--json")
    facts = json.loads(out)
    folder = Path(world.store) / "patterns" / "live"
    files = [file for room in ROOMS for file in (folder / room).iterdir()]
    assert (code, err, facts["damaged"]) == (0, "", [])
    assert (facts["commits"], facts["rows"], facts["files"]) == (3, 200, len(files))
    assert facts["bytes"] == sum(file.stat().st_size for file in files)
    assert command("verify", "--store", world.store, "--patterns", "lively")[2].endswith("did you mean live?\n")
    code, _, err = command("verify", "--store", world.store, "--patterns", "live", "--watch", "x")
    assert (code, "are both given" in err) == (2, True)


def test_counts_that_do_not_agree(world):
    """A commit that says other numbers than its files hold, or lists a file in another room."""
    home = Home(world.store, "live")
    head = home.chain.head()
    state = State.of(head, "")
    head = home.chain.append(replace(state, files=state.files + 1, rows=state.rows + 1).as_json(), head)
    wrong = verify_live(home).damaged
    assert len(wrong) == 2
    assert f"it says {state.files + 1} files, {state.files} are named" in wrong[0]
    assert "it says 201 rows, 200 are kept and 200 are counted" in wrong[1]
    names = home.folder.read(NAMES, state.listed[NAMES][0].name)
    file: FileEntry = state.listed[NAMES][0]
    home.folder.write(names, "rows", file.name)
    home.chain.append(replace(state, listed={**state.listed, "rows": (file,)}).as_json(), head)
    assert any("its columns are name, bytes" in line for line in verify_live(home).damaged)


def test_there_are_none(tmp_path):
    """Said with the way to some."""
    with pytest.raises(InputError, match=r"there are no live patterns 'live' in .*; dtoss patterns --live begins some"):
        verify_live(Home(str(tmp_path), "live"))
