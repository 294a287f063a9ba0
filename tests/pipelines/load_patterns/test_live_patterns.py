"""Live patterns are those of all requests of the log, whatever came when, and whoever ended in between."""

from __future__ import annotations

import builtins
import io
import os
import shutil
from datetime import UTC, date, datetime, timedelta, timezone
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import ceps
from ceps.model.servers import RequestCosts
from dtoss.commits.chain import Conflict
from dtoss.commits.table import tidy
from dtoss.commits.verify_report import verify_chain
from dtoss.errors import InputError, StoreError
from dtoss.geometry.space import space_of
from dtoss.serve.observability import partition_counts
from dtoss.serve.observability.access_log import Accesses
from pipelines.load_patterns import live_patterns
from pipelines.load_patterns.live_patterns import leased, running_day
from pipelines.load_patterns.patterns_folder import ROOMS, Home, State
from pipelines.rows.access_rows import Asks
from tests.clocks import clocked
from tests.dtoss.snapshots.small_stores import STEPS, faults_at
from tests.pipelines.load_patterns.logs import (
    NOW,
    flushes,
    following,
    in_one_go,
    leaseless,
    nobodys,
    other_pivots,
    patterns_bytes,
    world_in,
    write,
)
from tests.pipelines.load_patterns.slow_patterns import by_set, slow_patterns


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A world whose log is not written yet."""
    return world_in(tmp_path_factory.mktemp("live") / "store")


@pytest.fixture
def world(made, tmp_path):
    """A copy of it."""
    shutil.copytree(made.store, tmp_path / "store")
    return type(made)(str(tmp_path / "store"), made.table, made.rows, made.manifest)


def state_of(world, name="live"):
    home = Home(world.store, name)
    head = home.chain.head()
    return State.of(head, "")


@pytest.mark.parametrize(
    ("zone", "slot", "by_weekday"), [("UTC", 300, False), ("Europe/Berlin", 900, True), ("Asia/Kolkata", 3600, True)]
)
def test_live_patterns_equal_counting_one_by_one(world, tmp_path, zone, slot, by_weekday):
    """Several servers whose files come in three runs, by local days over a change of clocks."""
    rng = np.random.default_rng(slot)
    files = list(flushes(world.rows, rng).items())
    asks = Asks("weight", "k", "radius", slot_seconds=slot, time_zone=zone, by_weekday=by_weekday)
    for part in np.array_split(rng.permutation(len(files)), 3):
        write(world.log, dict(files[i] for i in part))
        patterns_bytes(world, tmp_path / "live.parquet", asks)
    wanted, sets = slow_patterns(world, zone, slot, weight=True, k=True, radius=True)
    requests = world.rows["weight"].to_numpy().sum()
    found = ceps.read_patterns(tmp_path / "live.parquet", week=False)
    np.testing.assert_allclose(found.loads * slot * found.days, wanted.sum(axis=0), rtol=1e-12, atol=1e-9)
    assert by_set(found.reads) == pytest.approx({rows: n / found.days for rows, n in sets.items()})
    assert found.reads.total == requests / found.days
    if by_weekday:
        week = ceps.read_patterns(tmp_path / "live.parquet", weekday=6)
        np.testing.assert_allclose(week.loads * slot * week.days, wanted[6], rtol=1e-12, atol=1e-9)
    state = state_of(world)
    assert (state.files, state.read, state.rows, state.bad) == (len(files), len(world.rows), len(world.rows), {})


def test_nothing_depends_on_how_files_came(world, tmp_path):
    """Any number of servers, flushes and runs, late files and files that are seen again: the same bytes each time."""
    wanted = None
    for seed, (servers, count, runs) in enumerate([(1, 1, 1), (2, 10, 2), (4, 40, 7)]):
        rng = np.random.default_rng(seed)
        shutil.rmtree(world.log, ignore_errors=True)
        files = list(flushes(world.rows, rng, servers, count).items())
        for part in np.array_split(rng.permutation(len(files)), runs):
            write(world.log, dict(files[i] for i in part))
            found = patterns_bytes(world, tmp_path / "live.parquet", name=f"n{seed}")
        assert patterns_bytes(world, tmp_path / "again.parquet", name=f"n{seed}") == found
        wanted = wanted or found
        assert found == wanted
        assert state_of(world, f"n{seed}").files == len(files)
        assert Home(world.store, f"n{seed}").chain.head().number <= runs


def test_a_file_of_an_earlier_day_comes_late(world, tmp_path):
    """What a server could not write before midnight is in its own day as soon as it comes."""
    files = flushes(world.rows, np.random.default_rng(1))
    late = sorted(files)[0]
    write(world.log, {name: rows for name, rows in files.items() if name != late})
    before = patterns_bytes(world, tmp_path / "live.parquet")
    write(world.log, {late: files[late]})
    after = patterns_bytes(world, tmp_path / "live.parquet")
    assert before != after == in_one_go(world, tmp_path / "all.parquet")


def test_other_pivots_between_two_runs(world, tmp_path):
    """All is counted anew, from places that are kept, also where the log's files have gone."""
    files = list(flushes(world.rows, np.random.default_rng(2)).items())
    write(world.log, dict(files[:10]))
    patterns_bytes(world, tmp_path / "live.parquet")
    other_pivots(world.store)
    write(world.log, dict(files[10:]))
    wanted = in_one_go(world, tmp_path / "all.parquet")
    shutil.rmtree(world.log)
    write(world.log, dict(files[10:]))
    said = []
    following(world, tmp_path / "live.parquet", say=lambda look, counted: said.append(look)).once()
    assert (tmp_path / "live.parquet").read_bytes() == wanted
    assert said[0].recounted == sum(len(rows) for _, rows in files[:10])
    assert (said[0].files, said[0].commit) == (len(files) - 10, 3)
    assert len(ceps.read_patterns(tmp_path / "live.parquet", week=False)) == 5


def test_another_snapshot_of_the_same_pivots(world, tmp_path):
    """Rows stay as they were counted, it is said how many, and they can be counted anew."""
    files = list(flushes(world.rows, np.random.default_rng(2)).items())
    write(world.log, dict(files[:10]))
    patterns_bytes(world, tmp_path / "live.parquet")
    other_pivots(world.store, 9)
    patterns_bytes(world, tmp_path / "live.parquet")
    assert state_of(world).earlier == 0
    write(world.log, dict(files[10:]))
    patterns_bytes(world, tmp_path / "live.parquet")
    assert state_of(world).earlier == sum(len(rows) for _, rows in files[:10])
    patterns_bytes(world, tmp_path / "live.parquet", recount=True)
    assert state_of(world).earlier == 0
    assert (tmp_path / "live.parquet").read_bytes() == in_one_go(world, tmp_path / "all.parquet")


def test_days_that_have_ended_count(world, tmp_path):
    """The running day waits, unless it is asked for; days may be chosen as for any accesses."""
    write(world.log, flushes(world.rows, np.random.default_rng(3)))
    live = following(world, tmp_path / "live.parquet").live
    with leased(live.home) as lease:
        done = live.look(lease)
    third = datetime(2026, 3, 28, 12, tzinfo=timezone(timedelta(hours=5)))
    assert running_day("UTC", third) - running_day("UTC", NOW) == -34
    assert running_day("America/New_York", datetime(2026, 3, 28, 1, tzinfo=UTC)) == running_day("UTC", third) - 1
    counted = live.counted(done, 0.1, third)
    day = world.rows["t"].to_numpy().astype("datetime64[D]")
    inside = day < np.datetime64("2026-03-28")
    assert (str(counted.first), str(counted.last)) == ("2026-03-26", "2026-03-27")
    assert counted.requests == world.rows["weight"].to_numpy()[inside].sum()
    assert (counted.read, counted.outside) == (len(day), int((~inside).sum()))
    with pytest.raises(InputError, match=r"all 700 rows are of days that have not ended: .* --until 2026-03-31"):
        live.counted(done, 0.1, datetime(2026, 3, 26, 12, tzinfo=UTC))
    chosen = Asks("weight", "k", "radius", since=date(2026, 3, 27), until=date(2026, 4, 2))
    counted = following(world, tmp_path / "live.parquet", chosen).live.counted(done, 0.1, third)
    assert (str(counted.first), str(counted.last), counted.patterns[0].days) == ("2026-03-27", "2026-04-01", 6)


def test_what_cannot_be_changed_without_counting_anew(world, tmp_path):
    """Slots, zones and costs are said with both values; a name or a recount is the way out."""
    write(world.log, flushes(world.rows, np.random.default_rng(3)))
    patterns_bytes(world, tmp_path / "live.parquet")
    costs = RequestCosts(((1.0, 0.5), (8.0, 1.0), (16.0, 40.0)), ((1e4, 0.25), (3e5, 90.0)))
    other = Asks("weight", "k", "radius", slot_seconds=3600, time_zone="Europe/Berlin", costs=costs)
    with pytest.raises(
        InputError, match=r"'live' are counted with slots of 5 and not 60 minutes, days of UTC and not Eu"
    ):
        patterns_bytes(world, tmp_path / "live.parquet", other)
    named = patterns_bytes(world, tmp_path / "named.parquet", other, "hourly")
    assert patterns_bytes(world, tmp_path / "live.parquet", other, recount=True) == named
    assert patterns_bytes(world, tmp_path / "live.parquet", other) == named
    cheaper = Asks("weight", "k", "radius", slot_seconds=3600, time_zone="Europe/Berlin", costs=RequestCosts())
    with pytest.raises(InputError, match="other costs"):
        patterns_bytes(world, tmp_path / "live.parquet", cheaper)
    smooth = Asks(
        "weight", "k", "radius", smooth_seconds=1800, slot_seconds=3600, time_zone="Europe/Berlin", costs=costs
    )
    patterns_bytes(world, tmp_path / "live.parquet", smooth)


def test_weights_that_a_server_sampled(world, tmp_path, monkeypatch):
    """What the servers' own code keeps of many requests adds up to exactly as many."""
    rng = np.random.default_rng(8)
    clock = [1_774_500_000.0]
    clocked(monkeypatch, partition_counts, lambda: clock[0])
    lon, lat = (world.rows[name].to_numpy() for name in ("lon", "lat"))
    total = 0
    for server in ("a", "b"):
        for minute in range(6):
            log = Accesses(str(world.log), space_of(), sample=40, server=server, seed=7 + minute)
            some = rng.integers(0, len(lon), 500)
            k = np.where(rng.random(500) < 0.5, 8.0, np.nan)
            log.many(lon[some], lat[some], k, np.full(500, np.nan))
            total += 500
            clock[0] += 60.0
            log.close()
        patterns_bytes(world, tmp_path / "live.parquet")
    found = ceps.read_patterns(tmp_path / "live.parquet", week=False)
    assert found.reads.total == total
    assert state_of(world).rows == 2 * 6 * 40
    assert (tmp_path / "live.parquet").read_bytes() == in_one_go(world, tmp_path / "all.parquet")


class Killed(BaseException):
    """The process is gone."""


@pytest.mark.parametrize(
    "stride", [pytest.param(1, marks=pytest.mark.deep("every step; each third is in make test")), 3]
)
def test_ending_between_two_steps_changes_nothing(world, tmp_path, stride):
    """Each change of files is the last one once; the next run goes on, and nothing is counted twice or lost."""
    files = list(flushes(world.rows, np.random.default_rng(4), files=12).items())
    write(world.log, dict(files[:6]))
    patterns_bytes(world, tmp_path / "live.parquet")
    write(world.log, dict(files[6:]))
    wanted = in_one_go(world, tmp_path / "all.parquet")
    before = tmp_path / "before"
    shutil.copytree(Path(world.store) / "patterns" / "live", before)

    def run(**options):
        # what is left may be of somebody who slept
        following(world, tmp_path / "live.parquet", idle=-1.0).once(**options)
        return (tmp_path / "live.parquet").read_bytes()

    real = {name: getattr(os, name) for name in STEPS}, io.open
    steps = 0
    while True:
        steps += stride
        shutil.rmtree(Path(world.store) / "patterns" / "live")
        shutil.copytree(before, Path(world.store) / "patterns" / "live")
        dead = []

        def die(name, dead=dead, step=steps):
            # from the step on nothing reaches the disk, whatever is tried on the way out
            dead.append(name)
            if len(dead) >= step:
                raise Killed

        ended = False
        try:
            faults_at(0, die, each=True)
            run()
            ended = True
        except Killed:
            pass
        finally:
            for name, function in real[0].items():
                setattr(os, name, function)
            io.open = real[1]
            assert io.open is builtins.open
        nobodys(Home(world.store, "live"))
        assert run() == wanted
        state = state_of(world)
        assert (state.files, state.rows) == (len(files), len(world.rows))
        home = Home(world.store, "live")
        assert list(verify_chain(home.chain)) == []
        if ended:
            break
        if steps % 4:
            continue
        # what the end has left goes with the next commit
        run(recount=True)
        state = state_of(world)
        for room in ROOMS:
            assert home.folder.files(room) == sorted(file.name for file in state.listed[room])
    assert steps > 20


def test_a_second_writer(world, tmp_path):
    """One at a time; and of two without a lease, one gets through and the other counts for nothing."""
    write(world.log, flushes(world.rows, np.random.default_rng(3)))
    one, other = (following(world, tmp_path / "live.parquet").live for _ in range(2))
    with leased(one.home), pytest.raises(StoreError, match=r"live patterns live of .* is being written by process"):
        leased(other.home)
    late = leaseless(one.home)

    def overtaken():
        if not overtaking:
            overtaking.append(other.look(leaseless(other.home)))
        return False

    overtaking = []
    with pytest.raises(Conflict, match="was committed by"):
        one.look(late, stop=overtaken)
    assert overtaking[0].rows == len(world.rows)
    assert patterns_bytes(world, tmp_path / "live.parquet") == in_one_go(world, tmp_path / "all.parquet")


def test_who_comes_late_removes_nothing_of_others(world, tmp_path, monkeypatch):
    """A writer that slept after its commit, while another one took over and went on, leaves the other's files."""
    files = list(flushes(world.rows, np.random.default_rng(3)).items())
    write(world.log, dict(files[:9]))
    live = following(world, tmp_path / "live.parquet").live
    slept = []

    def sleepily(table, spare, warn):
        if not slept:
            slept.append(True)
            write(world.log, dict(files[9:]))
            following(world, tmp_path / "live.parquet").live.look(leaseless(live.home))
        return tidy(table, spare, warn)

    monkeypatch.setattr(live_patterns, "tidy", sleepily)
    live.look(leaseless(live.home))
    assert state_of(world).files == len(files)
    assert patterns_bytes(world, tmp_path / "live.parquet") == in_one_go(world, tmp_path / "all.parquet")


@pytest.mark.parametrize("damage", ["cut", "changed", "other", "text", "empty"])
def test_a_damaged_file_of_the_log_is_named(world, tmp_path, damage):
    """One run fails and counts none of its group; who looks on and on tells of it once, and counts it once restored."""
    files = list(flushes(world.rows, np.random.default_rng(3)).items())
    (name, *_), rows = files[7], files[7][1]
    write(world.log, dict(files))
    file = world.log / name
    whole = file.read_bytes()
    if damage == "other":
        pq.write_table(rows.drop(["weight"]), file)
    elif damage == "text":
        pq.write_table(rows.set_column(5, "weight", pa.array(["1"] * len(rows))), file)
    else:
        cut = {
            "cut": whole[:-9],
            "empty": b"",
            "changed": whole[:4] + bytes(len(whole) // 3) + whole[4 + len(whole) // 3 :],
        }
        file.write_bytes(cut[damage])
    with pytest.raises(InputError, match=name):
        patterns_bytes(world, tmp_path / "live.parquet")
    assert Home(world.store, "live").chain.head() is None
    warned = []
    live = following(world, tmp_path / "live.parquet", patient=True, warn=warned.append)
    for _ in range(2):
        live.once()
    assert [name in line for line in warned] == [True]
    assert state_of(world).files == len(files) - 1
    file.write_bytes(whole)
    live.once()
    assert (tmp_path / "live.parquet").read_bytes() == in_one_go(world, tmp_path / "all.parquet")


def test_a_file_that_has_changed_is_named(world, tmp_path):
    """Its requests are in: they cannot be taken back, so it is not counted twice."""
    files = flushes(world.rows, np.random.default_rng(3))
    names = write(world.log, files)
    before = patterns_bytes(world, tmp_path / "live.parquet")
    pq.write_table(pa.concat_tables([files[names[0]]] * 2), world.log / names[0])
    with pytest.raises(InputError, match=rf"{names[0]} had [\d,]+ bytes when it was counted and has [\d,]+ now"):
        patterns_bytes(world, tmp_path / "live.parquet")
    (world.log / names[0]).unlink()
    assert patterns_bytes(world, tmp_path / "live.parquet") == before


@pytest.mark.parametrize("room", ROOMS)
@pytest.mark.parametrize("damage", ["changed", "missing"])
def test_a_damaged_file_of_ours_is_named(world, tmp_path, room, damage):
    """No damage becomes a number; sums can be made again of the places."""
    write(world.log, flushes(world.rows, np.random.default_rng(3)))
    wanted = patterns_bytes(world, tmp_path / "live.parquet")
    file = next((Path(world.store) / "patterns" / "live" / room).iterdir())
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.unlink()
    if damage == "changed":
        file.write_bytes(data)
    said = "is damaged" if damage == "changed" else "is missing"
    with pytest.raises(StoreError, match=f"{file.name} {said}"):
        patterns_bytes(world, tmp_path / "live.parquet", recount=room != "panes")
    if room == "panes":
        assert patterns_bytes(world, tmp_path / "live.parquet", recount=True) == wanted


def test_commits_of_others_are_refused(world, tmp_path):
    """Another kind, a later format, or fields that are none."""
    home = Home(world.store, "live")
    home.folder.make()
    for document, why in (({"kind": "watch"}, "'patterns' is wanted"), ({"kind": "patterns", "format": 9}, "reads 1")):
        home.chain.append(document, home.chain.head())
        with pytest.raises(StoreError, match=why):
            patterns_bytes(world, tmp_path / "live.parquet")


def test_without_a_log(world, tmp_path):
    """Said with the folder that was looked at; an empty one is the same, and nothing is left but the folder."""
    with pytest.raises(InputError, match=r"no file of a log is in .*accesses: dtoss serve writes one a minute"):
        patterns_bytes(world, tmp_path / "live.parquet")
    world.log.mkdir()
    with pytest.raises(InputError, match="no file of a log is in"):
        patterns_bytes(world, tmp_path / "live.parquet")
    assert not (tmp_path / "live.parquet").exists()
