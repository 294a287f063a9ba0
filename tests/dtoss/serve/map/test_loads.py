"""Requests by partition: counted by drawing some, right on the average, over all workers; and the rates of it."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import numpy as np
import pytest

from dtoss.serve.map.map_state import Loads, settle
from dtoss.serve.observability.access_log import Accesses
from dtoss.serve.observability.partition_counts import (
    DRAWN_OF_MANY,
    LOOKED_UP,
    HomeCounts,
    Homes,
    PartitionCounts,
    mark_of,
)
from tests.dtoss.serve.served import town
from tests.examples import examples

MARK = mark_of("0123456789abcdef")
PARTITIONS = 8


def settled(homes):
    """Look up what was drawn, where the partition of a place is its x."""
    homes.settle(MARK, PARTITIONS, lambda places: places[:, 0].astype(np.int32))


def busy(seed, width=64):
    """A worker that draws one of so many requests, and its counts."""
    counts = HomeCounts(1)
    homes = Homes(counts.of(0), seed)
    homes.add(np.zeros(LOOKED_UP * width), np.zeros(LOOKED_UP * width), LOOKED_UP * width)
    settled(homes)
    return homes, counts, counts.read(PARTITIONS)[0].of.copy()


STREAMS = {
    "skewed": lambda rng, n: rng.choice(PARTITIONS, n, p=np.arange(1, 9) / 36),
    "in turn": lambda rng, n: np.arange(n) % PARTITIONS,
    "in turn as drawn": lambda rng, n: np.arange(n) // 8 % PARTITIONS,
    "one after another": lambda rng, n: np.arange(n) * PARTITIONS // n,
}


@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.parametrize("together", [1, 7, 50, 4_000])
def test_sums_have_no_bias(stream, together):
    """Whatever the order of requests, also of one that repeats as often as requests are drawn; alone or in batches."""
    width, count, turns = 64, 4_000, 60
    asked = STREAMS[stream](np.random.default_rng(1), count)
    wanted = np.bincount(asked, minlength=PARTITIONS)
    x, y = asked.astype(float), np.zeros(count)
    errors = []
    for seed in range(turns):
        homes, counts, before = busy(seed, width)
        for at in range(0, count, together):
            if together == 1:
                homes.add(float(x[at]), 0.0, 1)
            else:
                homes.add(x[at : at + together], y[at : at + together], len(x[at : at + together]))
        settled(homes)
        found = counts.read(PARTITIONS)[0].of - before
        errors.append(found - wanted)
    # each draw stands for 64 requests: the deviation of a sum is below that of draws without any order
    drawn = count / width if together <= DRAWN_OF_MANY else DRAWN_OF_MANY
    deviation = count * np.sqrt(0.25 / drawn / turns)
    assert np.abs(np.mean(errors, axis=0)).max() < 4 * deviation
    assert np.std(errors, axis=0).max() > 0 or together > DRAWN_OF_MANY


def test_few_requests_are_counted_one_by_one():
    """Also where a batch is larger than what is drawn of one: then its sum is."""
    counts = HomeCounts(2)
    homes = Homes(counts.of(1), 0)
    for place in (3, 3, 5, 0):
        homes.add(float(place), 0.0, 1)
    assert homes.waiting
    settled(homes)
    assert not homes.waiting
    assert counts.read(PARTITIONS)[0] is None
    assert counts.read(PARTITIONS)[1].of.tolist() == [1, 0, 0, 2, 0, 1, 0, 0]
    many = np.repeat([2.0, 7.0], [10_000, 90_001])
    homes.add(many, many, len(many))
    settled(homes)
    found = counts.read(PARTITIONS)[1]
    assert found.requests == 4 + len(many)
    assert found.of.sum() == 4 + len(many)
    assert abs(found.of[2] - 10_000) <= len(many) // DRAWN_OF_MANY + 1


def test_a_sudden_burst_is_drawn_more_and_more_thinly():
    """What waits to be looked up stays small, and its sum right."""
    counts = HomeCounts(1)
    homes = Homes(counts.of(0), 3)
    for _ in range(200_000):
        homes.add(1.0, 1.0, 1)
    looked = []
    homes.settle(MARK, PARTITIONS, lambda places: looked.append(len(places)) or np.ones(len(places), np.int32))
    assert looked[0] < 10 * LOOKED_UP
    found = counts.read(PARTITIONS)[0]
    assert found.requests == 200_000
    assert abs(found.of[1] - 200_000) < 1_000


def test_sums_are_right_where_rates_change():
    """Each draw stands for as many requests as it was drawn of, whatever the second after brings."""
    rounds, counts = examples(300, 100), HomeCounts(1)
    homes = Homes(counts.of(0), 5)
    for _ in range(rounds):
        for requests in (500, 64 * LOOKED_UP):
            for at in range(0, requests, 100):
                homes.add(np.full(100, at % 200 / 100), np.zeros(100), 100)
            settled(homes)
    found = counts.read(PARTITIONS)[0]
    asked = rounds * (500 + 64 * LOOKED_UP)
    assert found.requests == asked
    assert found.of.sum() == pytest.approx(asked, rel=2e-4)


@pytest.mark.parametrize("width", [64, 900, 5_000])
def test_single_requests_among_those_of_many_have_no_bias(width):
    """However much is asked, and however late it is looked up: neither is skipped or drawn for the other."""
    rounds, many, turns = 20, DRAWN_OF_MANY + 76, 150
    errors = []
    for seed in range(turns):
        homes, counts, before = busy(seed, width)
        homes.add(1.0, 0.0, 1)
        for _ in range(rounds):
            homes.add(np.zeros(many), np.zeros(many), many)
            for _ in range(3):
                homes.add(1.0, 0.0, 1)
        settled(homes)
        errors.append((counts.read(PARTITIONS)[0].of - before)[:2] - [rounds * many, 3 * rounds + 1])
    assert np.all(np.array(errors)[:, 0] == 0)
    assert abs(np.mean(errors, axis=0)[1]) < 4 * np.std(errors, axis=0)[1] / np.sqrt(turns) + 1


def test_threads_lose_no_request():
    counts = HomeCounts(1)
    homes = Homes(counts.of(0))

    def ask():
        for _ in range(20_000):
            homes.add(2.0, 2.0, 1)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        settled(homes)
    settled(homes)
    found = counts.read(PARTITIONS)[0]
    assert found.requests == 80_000
    assert abs(found.of[2] - 80_000) < 4_000


def test_other_pivots_begin_anew_and_a_death_amid_writing_hides_nothing_for_long():
    counts = HomeCounts(1)
    homes = Homes(counts.of(0))
    homes.add(1.0, 1.0, 1)
    settled(homes)
    homes.add(0.0, 0.0, 1)
    homes.settle(mark_of("ff" * 8), 3, lambda places: np.zeros(len(places), np.int32))
    found = counts.read(3)[0]
    assert (found.regions, found.requests, found.of.tolist()) == (mark_of("ff" * 8), 2, [1, 0, 0])
    counts.of(0)[0] |= 1
    assert counts.read(3) == [None]
    fresh = Homes(counts.of(0))  # of the worker that takes its place
    fresh.add(0.0, 0.0, 1)
    fresh.settle(mark_of("ff" * 8), 3, lambda places: np.zeros(len(places), np.int32))
    found = counts.read(3)[0]
    assert (found.requests, found.of.tolist()) == (3, [2, 0, 0])


@pytest.mark.parametrize("kind", ["sphere", "plane"])
def test_a_request_counts_for_the_partition_that_holds_its_place(kind):
    """By way of the access log, which need not be kept."""
    index = town(kind)
    counts = HomeCounts(1)
    homes = Homes(counts.of(0))
    accesses = Accesses(None, index.space, homes=homes)
    wanted = []
    for number in (0, 1, 1, 2, 2, 2):
        x, y = index.parts[number].positions[0].tolist()
        accesses.many(x, y, 8, None)
        accesses.many(np.array([x, x]), np.array([y, y]), np.array([8.0, 8.0]), None)
        wanted += [number] * 3
    settle(homes, index)
    (found,) = counts.read(3)
    assert found.of.tolist() == np.bincount(wanted).tolist()
    assert found.requests == 18
    assert found.regions == mark_of(index.partitioning.digest)


class Told:
    """Counts that say what a test wants."""

    def __init__(self, *rounds):
        self.rounds = iter(rounds)

    def read(self, partitions):
        return next(self.rounds)


def counted(seconds, requests, of, mark=MARK):
    return PartitionCounts(mark, int(seconds * 1e9), requests, np.array(of))


def test_rates_are_those_of_the_last_seconds_by_each_workers_own_clock():
    """Workers count at moments of their own; none is told twice, and one that is silent asks nothing."""
    two = counted(10.5, 50, [50, 0])
    loads = Loads(
        Told(
            [counted(10.0, 1_000, [700, 300]), None],
            [counted(11.0, 1_100, [780, 320]), two],
            [counted(12.0, 1_200, [860, 340]), counted(11.5, 60, [55, 5])],
            [counted(12.0, 1_200, [860, 340]), counted(12.5, 70, [60, 10])],
            [counted(12.0, 1_200, [860, 340]), counted(17.5, 70, [60, 10])],
            [counted(30.0, 9_000, [8_600, 400]), counted(30.5, 9_000, [60, 10])],
        )
    )  # fmt: skip
    found = [loads.look(MARK, 2, now) for now in (10.2, 11.2, 12.2, 12.7, 17.6, 30.6)]
    assert [one.requests for one in found] == pytest.approx([0, 100, 110, 110, 10 / 6, 0])
    assert found[2].partitions.tolist() == pytest.approx([85.0, 25.0])
    assert found[0].partitions.tolist() == [0.0, 0.0]


def test_what_was_counted_for_other_pivots_is_nobodys_load():
    """But a request all the same."""
    other = mark_of("ab" * 8)
    loads = Loads(
        Told(
            [counted(1, 0, [0, 0]), counted(1, 0, [0, 0])],
            [counted(2, 10, [5, 5]), counted(2, 10, [0, 10], other)],
            [counted(3, 20, [10, 10]), counted(3, 20, [0, 20], other)],
            [counted(4, 30, [0, 10], other), counted(4, 30, [0, 30], other)],
            [counted(5, 40, [0, 20], other), counted(5, 40, [0, 40], other)],
        )
    )
    looked = [loads.look(mark, 2, now) for mark, now in ((MARK, 1), (MARK, 2), (MARK, 3), (other, 4), (other, 5))]
    assert looked[2].requests == pytest.approx(20.0)
    assert looked[2].partitions.tolist() == pytest.approx([5.0, 5.0])
    assert looked[3].partitions.tolist() == pytest.approx([0.0, 10.0])
    assert looked[4].partitions.tolist() == pytest.approx([0.0, 20.0])


def test_partitions_that_come_and_go_keep_their_numbers():
    """A reader may know more or fewer partitions than a worker has counted."""
    counts = SimpleNamespace(read=HomeCounts(1).read)
    assert Loads(counts).look(MARK, 5, 1.0).partitions.tolist() == [0.0] * 5
