"""The figures of the paper again, small: which lines they have, and what does not depend on speed."""

import gc

import numpy as np
import pytest

from bench.windows.enorm.changing import DIRECT, INSTANT
from bench.windows.enorm.costs import PANES, READINGS
from bench.windows.enorm.figures import beside
from bench.windows.enorm.figures.choosing import choices, load
from bench.windows.enorm.figures.lagging import GROUPS, NODES, SHOWN, START, lag, latencies, loads
from bench.windows.enorm.figures.migration import elsewhere, one_group, overhead, paused_ms, split_and_combine
from bench.windows.enorm.figures.simple import TWO, apart, by_socket, combined, running, uniform
from bench.windows.enorm.figures.throughput import consolidating, fast, fused, one_or_two_components
from bench.windows.enorm.placing import repartition


@pytest.fixture(scope="module", autouse=True)
def light():
    """What other tests have left is not looked through before each measurement."""
    gc.freeze()
    yield
    gc.unfreeze()


def test_windows_of_dtoss_are_those_of_the_operators():
    """Rows by key and tumbling window, of those that are over."""
    held = uniform(2_000, 7, 30)
    made = running(apart(), held)
    expected = {}
    for instances in made.instances["consolidate"]:
        instances.out = []
        instances.to_others_at_once = []
    made.run()
    for one in made.instances["consolidate"]:
        expected |= {(row[3], row[0][0], row[3] - row[2]): row[1] for row in one.out}
    live = beside.live_of([5, 10], 7)
    live.add(np.arange(2_000), [row[2] for row in held], [[row[0][0] * beside.APART, 0.0] for row in held])
    found = live.advance()
    assert live.counts["counted"] == beside.run([5, 10], 7, held).counts["counted"] == 2_000
    told = 0
    for row in found.to_pylist():
        end = int(row["end"].timestamp()) if hasattr(row["end"], "timestamp") else row["end"] // 1_000_000
        for minutes in (5, 10):
            if end % (60 * minutes) == 0:
                assert row[f"rows_{minutes}min"] == expected.get((end, row["key"], 60 * minutes), 0)
                told += 1
    assert told > 40


def test_throughput():
    lines = consolidating(2_000, 1, (10, 20))
    assert {name: set(points) for name, points in lines.items()} == {name: {10, 20} for name in lines}
    assert len(lines) == 6
    assert set(one_or_two_components(2_000, 10, 1)) == {"one", "two"}
    assert set(fused(1_000, 10, 1)["each through a socket"]) == {0, 2, 3, 4}


def test_what_the_formulas_choose():
    """Also with what is measured: as written combine pays for each window, on panes it saves the bytes."""
    found = load(TWO, 3_000, 20)
    assert (found.panes, found.rows) == (10, 1_000)
    assert found.best(PANES) == "combine"
    assert found.combine_cpu() == pytest.approx(2 * found.rows * found.a_row)
    assert [set(costs) for costs in choices(600, 10).values()] == [set(READINGS)] * 3


def test_fewer_rows_go_between_components_the_more_are_fused():
    held = uniform(500, 10, 30)
    sent = []
    for way in (("a", "b", "c", "d"), ("ab", "c", "d"), ("abc", "d"), ("abcd",)):
        run = running(fast(*way), held)
        run.run()
        edges = [edge for instances in run.instances.values() for one in instances for edge in one.edges]
        sent.append(sum(channel.sent for edge in edges for channel in edge.channels))
    assert sent == [1500, 1000, 500, 0]


def test_windows_of_the_simple_job_are_the_same_combined_and_split():
    held = uniform(3_000, 40, 30)
    taken = []
    for start in (combined(), apart()):
        with by_socket() as carry:
            run = running(start, held, carry=carry)
            run.run()
        taken.append((run.total("taken"), run.total("merged"), run.lost))
    assert taken[0] == taken[1]
    assert taken[0][0] == 3_000
    assert taken[0][2] == 0


def test_state_that_moves_pauses_and_what_moves_at_once_does_not():
    bytes_moved = {}
    for how in (DIRECT, INSTANT):
        for keys in (10, 1_000):
            run = one_group(keys, apart(groups=1, nodes=1))
            run.change(repartition(run.now, "C1", (1,)), how)
            run.drain()
            assert paused_ms(run, "compute") > 0
            bytes_moved[how, keys] = run.total("moved_bytes")
    assert bytes_moved[DIRECT, 1_000] > 20 * bytes_moved[DIRECT, 10]
    assert bytes_moved[INSTANT, 1_000] == bytes_moved[INSTANT, 10] == 0


def test_migrations():
    latency, completion = split_and_combine(1, (10, 20))
    assert latency.keys() == completion.keys()
    assert set(completion["combine, smooth"].values()) == {600}
    assert overhead(600, 10, 1, (0, 100))["instant"].keys() == {0, 100}
    nodes = apart().components["C1"].nodes
    moved = elsewhere(apart(), share=40).components["C1"].nodes
    assert sum(one != other for one, other in zip(nodes, moved, strict=True)) == 24


def stay(loads, node_of, nodes):
    return node_of


def to_the_least(loads, node_of, nodes):
    held = np.bincount(node_of, loads, nodes)
    after = node_of.copy()
    after[np.flatnonzero(node_of == held.argmax())[0]] = held.argmin()
    return after


def test_waiting_at_nodes():
    """Without a change nobody waits but for chance; who never moves waits more and more; a pause counts at both."""
    needed = loads()
    assert needed.shape == (SHOWN * 60, GROUPS)
    assert needed[: START * 60].sum(axis=1) == pytest.approx(0.7 * NODES)
    assert needed[-1].sum() == pytest.approx(0.7 * NODES + 3 * 0.35)
    still = lag(needed, stay, 60, 1.0, False)
    assert still.moves == 0
    assert still.mean[: START * 60].max() < 0.001
    assert still.worst[-1] > 1
    paused = lag(needed, to_the_least, 60, 0.5, False)
    at_once = lag(needed, to_the_least, 60, 0.5, True)
    assert paused.moves == at_once.moves == 15
    assert paused.mean.mean() > at_once.mean.mean()
    assert at_once.behind == pytest.approx(15 * 0.5, rel=0.2)
    assert all(len(one.mean) == SHOWN * 60 for one in latencies(to_the_least, 0.1).values())
