"""A loop, a watch and windows that an older release began go on where it ended, as if it had never been another one."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

import ceps
import dtoss
from dtoss.errors import InputError
from dtoss.serve.cluster.served_plans import read_placement
from dtoss.snapshots.store import Store
from dtoss.windows.storage.spec_file import fixed_of
from dtoss.windows.storage.window_document import Home
from pipelines.windowing.begin_windows import read_asked, stands_for
from tests.left_behind import SAMPLE, unpack
from tests.pipelines.history_tasks.test_appending import rows_in
from tests.samples.older_release import BEGIN, FENCES, LOOP, WATCH, rows_of

ROOT = Path(__file__).parents[3]
CHECKOUT = "24cedc2"
"""The state whose stores are made on the spot."""


def arrives(number):
    """Let a file of updates arrive, as it arrived at the older release."""
    path = Path("updates") / f"{number}.csv"
    path.parent.mkdir(exist_ok=True)
    path.write_text(rows_of(number))
    os.utime(path, (BEGIN, BEGIN + number))


def objects():
    """All objects that stand, with their columns."""
    index = dtoss.open("store")
    return {one: index[one] for one in sorted(index)}


def past():
    """All rows of the history, in an order of their own."""
    return sorted(map(str, rows_in("history")))


def results():
    """What all windows count, at each end that is due."""
    found = {}
    for name in ("fleet", "zones"):
        windows = dtoss.open_windows("store", name)
        for end in range(BEGIN // 120 * 120 - 960, windows.watermark // 10**6 + 1, 120):
            found |= {(name, end, length): windows.at(end, length).to_pylist() for length in ("2min", "10min")}
    return found


def events():
    """All events, but for the batches that told them: the older release told what had expired in one of its own."""
    told = [dict(event) for event in dtoss.events("store")]
    batches = [(event.pop("batch"), event.pop("id")) for event in told]
    assert len(set(batches)) == len(batches)
    return sorted(json.dumps(event, sort_keys=True, default=str) for event in told)


def test_what_it_left_is_read(tmp_path, monkeypatch, command):
    """Snapshots, history, watch, windows, live patterns and a plan; nothing is found to be damaged."""
    unpack(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert len(objects()) == len(dtoss.open("store", verify=True)) > 30
    assert len(past()) > 290
    assert len(list(dtoss.events("store"))) > 500
    assert any(results().values())
    assert ceps.read_patterns("live.parquet").reads.total > 0
    index = dtoss.open("store")
    assert read_placement("plan.json", index.partitioning.digest, len(index.parts)).servers == {0, 1}
    for more in ([], ["--watch"], ["--windows", "fleet"], ["--windows", "zones"], ["--patterns", "live"]):
        command.works("verify", "--store", "store", *more)
    command.works("history", "verify", "--history", "history")


def test_windows_go_on_with_the_edges_that_they_began_with(tmp_path, monkeypatch):
    """With the same options or none; other edges take over where that is asked for."""
    unpack(tmp_path)
    monkeypatch.chdir(tmp_path)
    home, asked = Home("store", "zones"), read_asked("zones.toml")
    held = fixed_of(home).spec
    for wanted in (asked.wanted, None):
        stands = stands_for(home, wanted, None)
        assert (stands.spec, stands.coming) == (held, None)
    coming, _ = stands_for(home, asked.wanted, None, replacing=True).coming
    assert coming.keys != held.keys
    text = Path("zones.geojson").read_text()
    Path("zones.geojson").write_text(text.replace("8.4", "8.41"))
    with pytest.raises(InputError, match="the digest of the keys is"):
        stands_for(home, asked.wanted, None)


def test_all_of_it_goes_on(tmp_path, monkeypatch, command):
    """The third file, after two that the older release has read: all is as if this one had read all three."""
    go_on(tmp_path, monkeypatch, command, SAMPLE)


@pytest.mark.deep("a checkout of before compiles its kernels: minutes; the test above reads what one has left")
def test_what_a_checkout_of_before_leaves_goes_on(tmp_path, monkeypatch, command):
    """Made on the spot, by the state before tables were described once."""
    packed = subprocess.run(["git", "archive", CHECKOUT], cwd=ROOT, capture_output=True, check=False)
    if packed.returncode:
        pytest.skip(f"commit {CHECKOUT} is not here")
    for name in ("code", "left"):
        (tmp_path / name).mkdir()
    with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as code:
        code.extractall(tmp_path / "code", filter="data")
    made = [sys.executable, str(ROOT / "tests" / "samples" / "older_release.py"), str(tmp_path / "left.tar.xz")]
    environment = os.environ | {"PYTHONPATH": str(tmp_path / "code")}
    subprocess.run(made, cwd=tmp_path / "left", env=environment, stdout=subprocess.DEVNULL, check=True)
    go_on(tmp_path, monkeypatch, command, tmp_path / "left.tar.xz")


def go_on(tmp_path, monkeypatch, command, sample):
    for name in ("whole", "begun"):
        (tmp_path / name).mkdir()
        unpack(tmp_path / name, sample)
    monkeypatch.chdir(tmp_path / "whole")
    for old in ("store", "history", "updates"):
        Path(old).rename(f"{old}-before")
    command.works("subscribe", "fences.jsonl", "--store", "store")
    for number in (0, 1, 2):
        arrives(number)
        command.works(*LOOP)
        command.works(*WATCH)
    wanted = objects(), past(), results(), events()
    monkeypatch.chdir(tmp_path / "begun")
    # the files that were read were elsewhere: here they would be others
    for number in (0, 1):
        (Path("updates") / f"{number}.csv").unlink()
    arrives(2)
    command.works(*LOOP)
    command.works(*WATCH)
    found = objects(), past(), results(), events()
    for one, other in zip(found, wanted, strict=True):
        assert one == other
    assert Store("store").manifest()["format"] == Store(str(tmp_path / "whole" / "store")).manifest()["format"]
    for more in ([], ["--watch"], ["--windows", "fleet"], ["--windows", "zones"]):
        command.works("verify", "--store", "store", *more)
    assert len(FENCES) == 5
