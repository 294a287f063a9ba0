"""The snapshot that a server begins with, and those that follow: damage, rollbacks, conditions, a store that goes."""

from __future__ import annotations

import gc
import shutil
import threading
import time
import weakref
from pathlib import Path

import numpy as np
import pytest

from dtoss.building.border import BorderTable
from dtoss.client.endpoint import read_peers
from dtoss.compiled.kernel import DECLARED
from dtoss.errors import StoreError
from dtoss.serve.cluster.cluster import PeerGroup
from dtoss.serve.cluster.served_plans import Placement
from dtoss.serve.core.server_settings import Paces, Settings
from dtoss.serve.reload import prepare, snapshot_watcher
from dtoss.serve.reload.prepare import first_snapshot, head_of, load_kernels, warm
from dtoss.serve.tiles import tiling
from dtoss.snapshots.store import Store
from tests.dtoss.scenes import rows
from tests.dtoss.serve.cluster.several import write_peers, write_plan
from tests.dtoss.serve.served import nothing_is_evaluated
from tests.dtoss.serve.watched import OBJECTS, WAIT, Told, commit, commit_all_kinds, town, watched

KINDS = {
    "partition": "snapshots/*/partitions/00001-*.arrow",
    "borders": "snapshots/*/borders-*.arrow",
    "tombstones": "snapshots/*/tombstones-*.arrow",
    "rejected": "snapshots/*/quarantine/*.parquet",
    "manifest": "snapshots/*/manifest.json",
    "commit": "commits/*.json",
}
"""A file of each kind that a commit consists of."""
PLACES = [[10.0, 50.0], [10.2, 50.1], [9.5, 49.7]]


def flip(path, share=0.5):
    """Turn over a bit of a file, and return its name."""
    data = bytearray(path.read_bytes())
    data[int(len(data) * share)] ^= 4
    path.write_bytes(data)
    return path.name


def newest(store, kind):
    """Return the file of a kind that was committed last."""
    return max(Path(store).glob(KINDS[kind]))


def answers(index):
    """What an index says to questions of several kinds."""
    some = 5 if not index.string_ids else "é5"
    return [
        rows(index.knn(PLACES, 8)), rows(index.range(PLACES, 9e3)), index.count(PLACES, 9e3).tolist(),
        rows(index.box([9.9, 49.9, 10.1, 50.1])), index.locate(PLACES).tolist(), rows(index.reverse_nearest(PLACES)),
        index[some], index.neighbours(some).tolist(), index.cell(some).tolist(), index.area(some),
        rows(index.knn(PLACES, 3, where="speed < 40")),
    ]  # fmt: skip


@pytest.fixture
def store(tmp_path):
    return commit(tmp_path / "store")


# -- the beginning ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", [{}, {"strings": True}, {"plane": True}])
def test_the_first_snapshot_answers_as_the_index_does(tmp_path, how):
    served = first_snapshot(Settings(commit(tmp_path, **how)))
    assert answers(served.index) == answers(town(**how))
    plane = "plane" in how
    assert served.facts == {
        "commit": 1, "objects": OBJECTS, "sites": served.index.sites, "partitions": 3,
        "crs": "none" if plane else "EPSG:4326", "metric": "plane" if plane else "sphere",
        "unit": "units" if plane else "m", "bounds": served.index.bounds,
        "id_type": "string" if "strings" in how else "int64", "columns": {"speed": "int64"},
        "created": "2024-01-01T00:00:00+00:00", "version": served.facts["version"],
    }  # fmt: skip
    assert (served.name, served.commit, served.made) == (Store(str(tmp_path)).current(), 1, 1_704_067_200.0)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("share", [0.02, 0.5, 0.97])
def test_a_flipped_byte_is_refused_at_the_start_by_name(tmp_path, kind, share):
    store = commit_all_kinds(tmp_path)
    first_snapshot(Settings(store))
    name = flip(newest(store, kind), share)
    with pytest.raises(StoreError, match=name):
        first_snapshot(Settings(store))


def test_without_verifying_the_structure_is_looked_at(store):
    """A changed value passes where nobody compares checksums; a file that is cut short does not."""
    path = newest(store, "partition")
    data = path.read_bytes()
    path.write_bytes(data[:-8])
    with pytest.raises(StoreError, match=path.name):
        first_snapshot(Settings(store, verify=False))
    place = data.index(np.array([town().parts[1].positions[0, 0]]).tobytes())
    path.write_bytes(data[:place] + np.array([np.nan]).tobytes() + data[place + 8 :])
    with pytest.raises(StoreError, match=path.name):
        first_snapshot(Settings(store, verify=False))
    path.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
    assert len(first_snapshot(Settings(store, verify=False)).index) == OBJECTS
    with pytest.raises(StoreError, match=path.name):
        first_snapshot(Settings(store))


def test_no_store_is_said(tmp_path):
    with pytest.raises(StoreError, match="not a store"):
        first_snapshot(Settings(str(tmp_path / "nothing")))


def test_a_named_snapshot_is_served_as_it_was_committed(store):
    old = Store(store).current()
    commit(store, 1)
    served = first_snapshot(Settings(store, snapshot=old))
    assert (served.name, served.commit) == (old, 1)
    assert answers(served.index) == answers(town(0))
    with pytest.raises(StoreError, match="no snapshot '20'"):
        first_snapshot(Settings(store, snapshot="20"))


def before(monkeypatch, room, name, step):
    """Call a function before a step of a swap: verifying files, or preparing a snapshot."""
    real = getattr(room, name)
    monkeypatch.setattr(room, name, lambda *given, **named: (step(), real(*given, **named))[1])


def test_nothing_is_left_to_do_for_the_first_who_asks(store, monkeypatch):
    """Files, the border table, regions, ids and kernels are ready: none is opened or made by a question."""
    load_kernels()
    assert not [name for name, one in DECLARED.items() if name.startswith("dtoss.") and one._can_compile]
    index = first_snapshot(Settings(store)).index
    makers = (index, index.engine, index.engine.whereabouts, index.engine.whereabouts.lookup, index.partitioning)
    made = {name for maker in makers for name in vars(maker)}
    assert {"border", "borders", "lookup", "_table", "view"} <= made

    expected = answers(town())

    def asked(*_, **__):
        raise AssertionError("something was left to do")

    monkeypatch.setattr(index.parts, "_opener", asked)
    monkeypatch.setattr(BorderTable, "__init__", asked)
    assert answers(index) == expected
    assert {name for maker in makers for name in vars(maker)} <= made | {"filters"}


def test_warming_lets_others_have_their_turn(store):
    """After each file, and after each question."""
    breaths = []
    warm(prepare.index_of_files(Store(store), Store(store).manifest(), None), lambda: breaths.append(1))
    assert len(breaths) > 3 + 20


@pytest.mark.parametrize("objects", [0, 1])
def test_a_snapshot_of_next_to_nothing_can_be_served(tmp_path, objects):
    import dtoss
    from tests.dtoss.snapshots.damaged_stores import stored

    store = stored(dtoss.build(np.arange(objects), np.zeros((objects, 2))), tmp_path)
    assert len(first_snapshot(Settings(store)).index.knn([[0.0, 0.0]], 3)) == objects


# -- the next ---------------------------------------------------------------------------------------------------------


def test_the_next_commit_answers_once_it_is_ready(store):
    """The one before stays open, and what is replaced is replaced on the loop."""
    with watched(store) as worker:
        threads = []
        replace = worker.serving.replace

        def noted(fresh):
            threads.append(threading.current_thread())
            return replace(fresh)

        worker.serving.replace = noted
        old = worker.serving.now
        assert not worker.watcher.look()
        assert worker.serving.now is old
        commit(store, 1)
        assert worker.watcher.look()
        assert threads == [worker.thread]
        assert worker.serving.now.commit == 2
        assert worker.serving.before is old
        assert answers(worker.serving.now.index) == answers(town(1))
        assert answers(worker.serving.named(old.name).index) == answers(town(0))
        assert len(worker.told.swaps) == 1
        [(what, facts)] = worker.told.events
        assert what == "swapped"
        assert facts["commit"] == 2
        assert not worker.watcher.look()


def test_a_thread_looks_each_second_until_it_is_stopped(store):
    with watched(store, paces=Paces(look=0.02)) as worker:
        worker.watcher.start()
        commit(store, 1)
        ends = time.monotonic() + WAIT
        while worker.serving.now.commit != 2 and time.monotonic() < ends:
            time.sleep(0.01)
        assert worker.serving.now.commit == 2
        worker.watcher.stop(WAIT)
        commit(store, 2)
        time.sleep(0.1)
        assert worker.serving.now.commit == 2


@pytest.mark.parametrize("pages", [0, 1])
def test_what_open_pages_ask_for_is_made_before_they_do(store, monkeypatch, pages):
    """And not where nobody looks: a sample takes memory, and making it time."""
    with watched(store, pages=lambda: pages) as worker:
        commit(store, 1)
        assert worker.watcher.look()

        def made(*_, **__):
            raise AssertionError("it is made when it is asked for")

        monkeypatch.setattr(tiling, "view_of", made)
        if pages:
            assert worker.serving.now.map_facts.told()["partitions"] == 3
        else:
            with pytest.raises(AssertionError, match="when it is asked for"):
                worker.serving.now.map_facts.told()


def test_an_end_while_a_page_is_served_is_no_failure(store, monkeypatch):
    with watched(store, pages=lambda: 1) as worker:
        commit(store, 1)
        stop = worker.watcher.stop
        monkeypatch.setattr(tiling.MapFacts, "_column", lambda *_: stop() or {"name": "speed"}, raising=True)
        assert worker.watcher.look()


def test_a_log_that_cannot_be_written_stops_no_swaps(store):
    with watched(store, paces=Paces(look=0.02)) as worker:
        worker.told.event = lambda *_, **__: [][1]
        worker.watcher.start()
        for seed in (1, 2):
            commit(store, seed)
            ends = time.monotonic() + WAIT
            while worker.serving.now.commit != seed + 1 and time.monotonic() < ends:
                time.sleep(0.01)
            assert worker.serving.now.commit == seed + 1


def test_a_named_snapshot_has_no_watcher(store):
    before = threading.active_count()
    with watched(store, snapshot=Store(store).current()) as worker:
        started = threading.active_count()
        worker.watcher.start()
        assert threading.active_count() == started == before + 1


def test_two_snapshots_stay_open_and_the_third_goes(store):
    """It goes when nobody asks it any more, without a walk of the garbage collector."""
    gc.disable()
    try:
        with watched(store) as worker:
            first_of_all = weakref.ref(worker.serving.now.index)
            held = worker.serving.now.index
            for seed in (1, 2):
                commit(store, seed)
                assert worker.watcher.look()
            assert answers(held) == answers(town(0))
            del held
            assert first_of_all() is None
            assert worker.serving.before.commit == 2
    finally:
        gc.enable()


@pytest.mark.parametrize("kind", KINDS)
def test_a_flipped_byte_is_refused_and_the_old_one_answers(tmp_path, kind):
    """It is counted and said once; the commit after that is taken."""
    store = commit_all_kinds(tmp_path)
    with watched(store) as worker:
        old = worker.serving.now
        commit_all_kinds(tmp_path)
        name = flip(newest(store, kind))
        for _ in range(2):
            assert not worker.watcher.look()
            assert worker.serving.now is old
            assert name in worker.serving.refused
            assert worker.told.refusals == 1
        assert answers(old.index) == answers(town())
        assert [what for what, _ in worker.told.events] == ["refused"]
        if kind == "commit":
            # after a commit that cannot be read none can be made
            return
        commit(store, 3)
        assert worker.watcher.look()
        assert worker.serving.refused is None
        assert answers(worker.serving.now.index) == answers(town(3))


def test_a_snapshot_in_another_crs_is_refused(store):
    """Coordinates have names and bounds, which clients go by."""
    with watched(store) as server:
        commit(store, seed=1, plane=True)
        assert not server.watcher.look()
        assert "its CRS is none (plane)" in server.serving.refused
        assert server.serving.now.index.space.metric == "sphere"
        commit(store, seed=2)
        assert server.watcher.look()
        assert server.serving.refused is None


def test_a_refused_commit_is_tried_again_after_a_while(store, monkeypatch):
    with watched(store) as worker:
        commit(store, 1)
        path = newest(store, "partition")
        data = path.read_bytes()
        flip(path)
        assert not worker.watcher.look()
        path.write_bytes(data)
        assert not worker.watcher.look()
        monkeypatch.setattr(time, "monotonic", lambda: float("inf"))
        assert worker.watcher.look()
        assert worker.serving.refused is None


def test_why_a_commit_is_refused_outlives_a_disk_that_was_away(store):
    """Which is told meanwhile."""
    with watched(store) as worker:
        commit(store, 1)
        name = flip(newest(store, "partition"))
        assert not worker.watcher.look()
        shutil.move(store, f"{store}.away")
        assert not worker.watcher.look()
        assert name not in worker.serving.refused
        shutil.move(f"{store}.away", store)
        assert not worker.watcher.look()
        assert name in worker.serving.refused
        assert worker.told.refusals == 2


def test_what_is_no_store_error_is_refused_too(store, monkeypatch):
    with watched(store) as worker:
        commit(store, 1)
        before(monkeypatch, snapshot_watcher, "prepare", lambda: 1 // 0)
        assert not worker.watcher.look()
        assert "ZeroDivisionError" in worker.serving.refused
        assert worker.serving.now.commit == 1


def test_a_store_that_vanishes_goes_on_being_answered(store):
    with watched(store) as worker:
        assert not worker.watcher.look()
        expected = answers(town(0))
        shutil.rmtree(store)
        assert not worker.watcher.look()
        assert store in worker.serving.refused
        assert f"snapshot {worker.serving.now.name} goes on answering" in worker.serving.refused
        assert answers(worker.serving.now.index) == expected
        assert worker.told.refusals == 1
        # another one in its place is served
        commit(store, 4)
        assert worker.watcher.look()
        assert worker.serving.refused is None
        assert answers(worker.serving.now.index) == answers(town(4))


def test_a_snapshot_that_goes_while_it_is_opened_is_not_refused(store, monkeypatch):
    """Another one has become current meanwhile, which the next look finds."""
    gone = []

    def overtaken():
        if not gone:
            gone.append(Store(store).current())
            commit(store, 2)
            shutil.rmtree(Path(store) / "snapshots" / gone[0])

    with watched(store) as worker:
        commit(store, 1)
        before(monkeypatch, snapshot_watcher, "prepare", overtaken)
        assert not worker.watcher.look()
        assert (worker.serving.refused, worker.told.refusals) == (None, 0)
        assert worker.watcher.look()
        assert worker.serving.now.commit == 3


def test_a_rollback_is_a_commit_too(store):
    """What is open from before answers again, as the later commit."""
    with watched(store) as worker:
        commit(store, 1)
        assert worker.watcher.look()
        before = worker.serving.before
        Store(store).rollback()
        assert worker.watcher.look()
        assert worker.serving.now.index is before.index
        assert (worker.serving.now.commit, worker.serving.now.facts["commit"]) == (3, 3)
        assert worker.serving.before.commit == 2
        # one that is not open any more is opened
        for seed in (5, 6):
            commit(store, seed)
            assert worker.watcher.look()
        for _ in range(2):
            Store(store).rollback()
        assert worker.watcher.look()
        assert worker.serving.now.index is not before.index
        assert worker.serving.now.name == before.name


def test_a_worker_that_stands_in_for_another_looks_before_its_loop_runs(store):
    with watched(store) as worker:
        commit(store, 1)
        worker.loop.call_soon_threadsafe(worker.loop.stop)
        worker.thread.join(WAIT)
        assert worker.watcher.look(loop_runs=False)
        assert worker.serving.now.commit == 2
        again = threading.Thread(target=worker.loop.run_forever, daemon=True)
        again.start()
        worker.loop.call_soon_threadsafe(worker.loop.stop)
        again.join(WAIT)


def test_an_end_amid_a_look_is_no_refusal(store, monkeypatch):
    with watched(store) as worker:
        commit(store, 1)
        before(monkeypatch, prepare, "verify_files", worker.watcher.stop)
        assert not worker.watcher.look()
        assert (worker.serving.now.commit, worker.told.refusals) == (1, 0)


# -- verifying once, and conditions -----------------------------------------------------------------------------------


def test_what_one_process_has_verified_the_others_do_not(store, monkeypatch):
    """Of this commit, and no other; the structure is looked at by each."""
    seen = []
    before(monkeypatch, prepare, "verify_files", lambda: seen.append(1))
    shared = np.zeros(1, np.int64)
    first_snapshot(Settings(store), shared)
    assert shared[0] == head_of(Store(store)).mark != 0
    with watched(store, shared) as one, watched(store, shared) as other:
        seen.clear()
        commit(store, 1)
        assert one.watcher.look()
        assert len(seen) == 1
        assert other.watcher.look()
        assert len(seen) == 1
        commit(store, 2)
        assert other.watcher.look()
        assert len(seen) == 2
        commit(store, 3)
        path = newest(store, "partition")
        flip(path, 0.5)
        assert not one.watcher.look()
        assert not other.watcher.look()
        assert len(seen) == 4


def test_nothing_is_verified_where_nobody_wants_it(store, monkeypatch):
    before(monkeypatch, prepare, "verify_files", lambda: 1 // 0)
    with watched(store, verify=False) as worker:
        commit(store, 1)
        assert worker.watcher.look()


def test_conditions_survive_a_swap(store, monkeypatch):
    """They are evaluated before the snapshot answers, the order of their use is kept, and what was asked counts."""
    with watched(store) as worker:
        old = worker.serving.now.conditions
        for text in ("speed < 300", "speed < 10", "speed > 200"):
            old.get(text)
        old._filters.ready("speed > 200")._asked = 77
        commit(store, 1)
        assert worker.watcher.look()
        nothing_is_evaluated(monkeypatch)
        fresh = worker.serving.now.conditions
        assert fresh.in_use() == ["speed > 200", "speed < 10", "speed < 300"]
        assert fresh.ready("speed > 200")._asked == 77
        assert not fresh.ready("speed < 10").pays()
        monkeypatch.undo()
        found = worker.serving.now.index.knn(PLACES, 4, where="speed < 10")
        assert rows(found) == rows(town(1).knn(PLACES, 4, where="speed < 10"))


def test_a_condition_that_does_not_fit_any_more_is_left_out(store):
    with watched(store) as worker:
        worker.serving.now.conditions.get("speed < 300")
        worker.serving.now.conditions.get("id < 300")
        commit(store, 1, columns=("weight",))
        assert worker.watcher.look()
        assert worker.serving.now.conditions.in_use() == ["id < 300"]
        assert worker.serving.now.facts["columns"] == {"weight": "int64"}


def test_partitions_that_another_plan_gives_are_verified_before_they_answer(store, tmp_path):
    """Though the files of this commit count as verified, by who held others: a byte that was changed is refused."""

    def placed(*mine):
        of = dict.fromkeys(mine, (0,))
        placement = Placement(town().partitioning.digest, tuple(of.get(number, (1,)) for number in range(3)))
        write_plan(tmp_path / "plan.json", placement)
        return placement

    placement = placed(0)
    write_peers(tmp_path / "peers.toml", ["http://127.0.0.1:1", "http://127.0.0.1:2"])
    given = {"server": 0, "plan": str(tmp_path / "plan.json"), "peers": str(tmp_path / "peers.toml")}
    circle = PeerGroup(0, read_peers(given["peers"]), placement, Told(), lambda *_, **__: None)
    verified = np.zeros(1, np.int64)
    first_snapshot(Settings(store, **given), verified)
    assert verified[0] == head_of(Store(store)).mark
    with watched(store, verified, circle=circle, **given) as worker:
        assert not worker.watcher.look()
        placed(0, 2)
        assert worker.watcher.look()
        assert worker.serving.now.share.held == (0, 2)
        path = newest(store, "partition")  # of partition 1
        data = path.read_bytes()
        place = data.index(np.array([town().parts[1].positions[0, 0]]).tobytes())
        path.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
        placed(0, 1, 2)
        assert not worker.watcher.look()
        assert path.name in worker.serving.refused
        assert worker.serving.now.share.held == (0, 2)
