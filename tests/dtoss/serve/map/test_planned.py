"""Plans and patterns as the optimiser writes them, read without it; files that change, and files that are damaged."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from functools import cache

import numpy as np
import pyarrow.parquet as pq
import pytest

import ceps
from ceps.model.patterns_file import write_patterns
from dtoss.errors import InputError
from dtoss.serve.cluster.served_plans import read_patterns, read_plan
from dtoss.serve.core.server_settings import Settings
from dtoss.serve.map.map_files import Reread, files_of
from tests.ceps.instances import servers, waves

PIVOTS = "0011223344556677"


def some(partitions=20, **how):
    """Patterns whose partitions do not stand in the order of their numbers."""
    made = waves(partitions, 4_000.0, noise=0.2, **how)
    numbers = np.random.default_rng(0).permutation(partitions)
    return replace(made, partitions=numbers, pivots_hash=PIVOTS, time_zone="Asia/Tokyo")


@cache
def planned(copies=1):
    """A plan for these patterns."""
    return ceps.plan(some(), None, servers(), copies=copies)


@pytest.mark.parametrize("copies", [1, 2])
def test_a_plan_says_what_the_optimiser_says(tmp_path, copies):
    patterns = some()
    plan = planned(copies)
    plan.save(tmp_path / "plan.json")
    found = read_plan(str(tmp_path / "plan.json"))
    told = found.told(PIVOTS, 20)
    assert told["file"] == "plan.json"
    assert told["stale"] is None
    assert told["cost"] == plan.cost_per_day
    assert told["copies"] == copies
    assert [one["number"] for one in told["servers"]] == plan.server_ids.tolist()
    assert [one["type"] for one in told["servers"]] == [kind.name for kind in plan.types]
    assert [one["capacity"] for one in told["servers"]] == plan.capacity.tolist()
    assert [one["cost_per_hour"] for one in told["servers"]] == [kind.dollars_per_hour for kind in plan.types]
    first = dict(zip(plan.partitions.tolist(), plan.server_ids[plan.server_of].tolist(), strict=True))
    assert told["server_of"] == [first[number] for number in range(20)]
    for slot in (0, 7):
        rates = np.zeros(20)
        rates[patterns.partitions] = patterns.loads[:, slot]
        assert found.load(rates) == pytest.approx(plan.loads[:, slot].tolist())


def test_a_plan_of_other_pivots_is_stale_and_says_so(tmp_path):
    """A partition that it does not know has no server; one that is gone is left out."""
    planned().save(tmp_path / "plan.json")
    found = read_plan(str(tmp_path / "plan.json"))
    told = found.told("ff" * 8, 22)
    assert told["stale"] == (
        f"the plan is for pivots {PIVOTS}, the snapshot has {'ff' * 8}: partition numbers mean other regions"
    )
    assert told["server_of"][20:] == [None, None]
    assert len(found.told(PIVOTS, 3)["server_of"]) == 3
    assert replace(found, pivots_hash="").told("ff" * 8, 20)["stale"] is None


def test_patterns_say_what_the_optimiser_says(tmp_path):
    patterns = some()
    write_patterns(tmp_path / "p.parquet", patterns)
    found = read_patterns(str(tmp_path / "p.parquet"))
    told = found.told(PIVOTS)
    assert told["slots"] == 24
    assert told["slot_minutes"] == 60
    assert told["time_zone"] == "Asia/Tokyo"
    assert told["peak"] == patterns.loads.max()
    assert told["peak_of_all"] == pytest.approx(patterns.peak)
    assert told["stale"] is None
    assert "other regions" in found.told("ff" * 8)["stale"]
    for slot in (0, 23):
        by_number = found.load(slot, 20)
        assert by_number[patterns.partitions].tolist() == patterns.loads[:, slot].tolist()
    assert len(found.load(0, 25)) == 25
    assert found.load(0, 4).tolist() == found.load(0, 20)[:4].tolist()


def test_of_several_days_the_mean_is_shown(tmp_path):
    """The file's own where it has one, else that of its weekdays."""
    monday, sunday = replace(some(seed=1), weekday=0), replace(some(seed=2), weekday=6)
    write_patterns(tmp_path / "two.parquet", [monday, sunday])
    found = read_patterns(str(tmp_path / "two.parquet"))
    assert found.load(5, 20)[monday.partitions] == pytest.approx((monday.loads[:, 5] + sunday.loads[:, 5]) / 2)
    mean = replace(some(seed=3), weekday=None)
    write_patterns(tmp_path / "three.parquet", [mean, monday, sunday])
    found = read_patterns(str(tmp_path / "three.parquet"))
    assert found.load(5, 20)[mean.partitions] == pytest.approx(mean.loads[:, 5])


def without(key):
    return lambda said: said.pop(key) and said


PLAN_DAMAGE = {
    "another kind": lambda said: {**said, "kind": "a dream"},
    "a later format": lambda said: {**said, "format": 2},
    "no object": lambda said: [said],
    "no partitions": without("partitions"),
    "no servers": without("servers"),
    "fewer replicas": lambda said: {**said, "replicas": said["replicas"][1:]},
    "an unknown server": lambda said: {**said, "replicas": [[99]] * len(said["replicas"])},
    "no replica": lambda said: {**said, "replicas": [[]] * len(said["replicas"])},
    "a partition below 0": lambda said: {**said, "partitions": [-1, *said["partitions"][1:]]},
    "a type without a rate": lambda said: {**said, "server_types": [{"name": "medium"}]},
    "a text for a price": lambda said: {**said, "cost_per_day": "much"},
}


@pytest.mark.parametrize("damage", PLAN_DAMAGE)
def test_a_damaged_plan_is_named(tmp_path, damage):
    path = tmp_path / "plan.json"
    planned().save(path)
    path.write_text(json.dumps(PLAN_DAMAGE[damage](json.loads(path.read_text()))))
    with pytest.raises(ValueError, match=r"plan\.json: \S"):
        read_plan(str(path))


def test_bytes_that_are_no_file_of_the_optimiser(tmp_path):
    """Cut anywhere, or something else altogether; a Parquet file without the patterns' metadata as well."""
    plan, patterns = tmp_path / "plan.json", tmp_path / "p.parquet"
    planned().save(plan)
    write_patterns(patterns, some())
    for path, read in ((plan, read_plan), (patterns, read_patterns)):
        data = path.read_bytes()
        for cut in (b"", b"\xff\xfe{", b"[" * 100_000, *(data[: len(data) * part // 9] for part in range(9))):
            path.write_bytes(cut)
            with pytest.raises(ValueError, match=path.name):
                read(str(path))
    plain = pq.read_table(_written(tmp_path / "q.parquet"))
    pq.write_table(plain.replace_schema_metadata({}), tmp_path / "plain.parquet")
    with pytest.raises(ValueError, match=r"plain\.parquet: it holds no patterns: b'ceps\.patterns' is missing"):
        read_patterns(str(tmp_path / "plain.parquet"))
    pq.write_table(plain.replace_schema_metadata({"ceps.patterns": "[" * 100_000}), tmp_path / "deep.parquet")
    with pytest.raises(ValueError, match=r"deep\.parquet: it holds no patterns that can be read"):
        read_patterns(str(tmp_path / "deep.parquet"))


def _written(path):
    write_patterns(path, some())
    return path


PATTERNS_DAMAGE = {
    "a later format": {"format": 2},
    "slots of no day": {"slot_seconds": 7_000},
    "other partitions": {"partitions": list(range(5))},
    "no partitions": {"partitions": []},
    "a partition of no number": {"partitions": [10**30]},
    "slots without an end": {"slot_seconds": float("inf")},
    "no weekdays": {"weekdays": []},
    "no time zone": {"time_zone": None},
}


@pytest.mark.parametrize("damage", PATTERNS_DAMAGE)
def test_damaged_patterns_are_named(tmp_path, damage):
    table = pq.read_table(_written(tmp_path / "p.parquet"))
    said = json.loads(table.schema.metadata[b"ceps.patterns"]) | PATTERNS_DAMAGE[damage]
    said = {key: value for key, value in said.items() if value is not None}
    pq.write_table(table.replace_schema_metadata({"ceps.patterns": json.dumps(said)}), tmp_path / "p.parquet")
    with pytest.raises(ValueError, match=r"p\.parquet: it holds no patterns"):
        read_patterns(str(tmp_path / "p.parquet"))


class Watched:
    """A file with a number, and what was told of it."""

    def __init__(self, folder):
        self.path, self.moment, self.told = folder / "file", 10**18, []
        self.write("1")
        self.held = Reread(str(self.path), lambda path: int(self.path.read_text()), "--plan")

    def write(self, text):
        self.path.write_text(text)
        self.moment += 10**9
        os.utime(self.path, ns=(self.moment, self.moment))

    def look(self, times=1):
        for _ in range(times):
            self.held.look(self.told.append)
        return self.held.now, self.held.problem


def test_a_file_is_read_again_when_it_changes(tmp_path):
    file = Watched(tmp_path)
    assert file.look() == (1, None)
    file.write("2")
    assert file.look() == (2, None)
    other = tmp_path / "other"
    other.write_text("3")
    other.rename(file.path)
    assert file.look() == (3, None)
    assert file.told == []


def test_a_file_that_is_damaged_is_kept_and_told_of_once(tmp_path):
    """Not at the first look: somebody may just be writing it. What cannot be there is kept as well."""
    file = Watched(tmp_path)
    file.write("half of")
    assert file.look() == (1, None)
    file.write("half of it")
    assert file.look() == (1, None)
    file.write("4")
    assert file.look() == (4, None)
    file.write("nothing")
    now, problem = file.look(5)
    assert now == 4
    assert problem.startswith("--plan is kept as it was: ")
    assert "nothing" in problem
    assert file.told == [problem]
    file.path.unlink()
    assert file.look(3) == (4, "--plan is kept as it was: No such file or directory")
    assert len(file.told) == 2
    file.write("5")
    assert file.look() == (5, None)


def test_files_are_checked_before_a_server_begins(tmp_path):
    (tmp_path / "plan.json").write_text("{}")
    (tmp_path / "out").mkdir()
    for option, value, wrong in (
        ("plan", "plan.json", "--plan .*plan.json: it is no plan: 'kind' is not 'ceps plan'"),
        ("plan", "none.json", "--plan .*none.json: No such file or directory"),
        ("patterns", "plan.json", "--patterns .*plan.json: it holds no patterns"),
        ("report", "out", r"--report .*out: there is no report\.html: name the folder that dtoss report wrote"),
        ("report", "none", r"--report .*none: there is no report\.html"),
    ):
        with pytest.raises(InputError, match=wrong):
            files_of(Settings("store", **{option: str(tmp_path / value)}))
    (tmp_path / "out" / "report.html").write_text("<p>")
    files = files_of(Settings("store", report=str(tmp_path / "out")))
    assert files.report == tmp_path / "out"
    assert (files.plan, files.patterns, files.problems) == (None, None, [])
