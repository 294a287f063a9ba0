"""Figures 3.15 to 3.18 of the dissertation: ranges and nearest neighbours by the number of nodes, beside two rivals.

D-MOVIES deals objects by their ids and asks all nodes; RT-CAN has R-trees under an overlay (`bench/peers/d_movies.py`,
`rt_can.py`); D-ToSS is our index of a partition a node. Objects are uniform, or the taxis of one city; places lie at
objects, and a range is a disc of a share of the space. The processor time of all nodes together is measured in one
process, messages (requests and replies) are counted, and answers of all are compared. *Requests a second* is a model:
nodes share work and messages evenly, and a message takes what 100 bytes through TCP on loopback take here.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from functools import partial
from time import process_time

import numpy as np
from numpy.typing import NDArray

import dtoss
from bench.experiments.dtoss_3_3 import needed
from bench.experiments.results import Results, Row, grid, point
from bench.measuring.race import Work, in_turns
from bench.measuring.updates import places as lonlat_of
from bench.measuring.updates import world
from bench.peers.d_movies import DMovies
from bench.peers.rt_can import RtCan
from dtoss.kinds.kind import Search

SIZES = {
    "smoke": (3_000, (8, 16), 60, 1, 100),
    "here": (1_000_000, (32, 64, 128), 1_000, 3, 20_000),
    "full": (10_000_000, (32, 64, 128), 1_000, 3, 20_000),
}
"""Objects, nodes, questions, turns of which the least counts, messages by which one is timed."""
SHARES = (0.01, 0.05, 0.1)
"""Per cent of the space."""
ASKED_OF_ALL = "0.01 %"
"""Of the space: what rivals are asked as well."""
KS = (1, 2, 4, 8, 16, 32)
WORK, MESSAGES, RATE = "processor us a question", "messages a question", "requests a second (modelled)"

Floats = NDArray[np.float64]


def objects_of(kind: str, count: int) -> Floats:
    """Return objects in the plane: the paper's uniform ones, or taxis of a city."""
    if kind == "uniform":
        return np.random.default_rng(0).uniform(0, 1e9, (count, 2))
    return np.ascontiguousarray(lonlat_of(world(count, 1).rows))


def message_us(count: int) -> float:
    """Return the processor microseconds that both ends of a message take together."""
    with (
        socket.create_server(("127.0.0.1", 0)) as door,
        socket.create_connection(door.getsockname()) as one,
        door.accept()[0] as other,
    ):
        began = process_time()
        for _ in range(count):
            one.sendall(bytes(100))
            other.recv(100)
        return 1e6 * (process_time() - began) / count


def own_messages(index: dtoss.Index, asked: Search, nodes: int) -> float:
    """Return what 3.3 sends for a question: to the node of its place, and from there to others that may answer."""
    return 2 * (1 - 1 / nodes) + 2 * (needed(index, asked, np.arange(nodes)) - 1)


def run(size: str) -> Iterator[Row]:
    """Yield each system's work, messages and modelled rate, x is objects, nodes and share of the space or k."""
    count, numbers, questions, turns, sent = SIZES[size]
    price = message_us(sent)
    yield point("a message", "TCP on loopback", price, "processor us")
    for kind in ("uniform", "taxi"):
        objects = objects_of(kind, count)
        rng, wide = np.random.default_rng(1), np.ptp(objects, axis=0)
        at = objects[rng.integers(0, count, questions)] + rng.normal(0, 1e-6 * wide, (questions, 2))
        radii = {f"{share:g} %": np.full(questions, np.sqrt(share / 100 * wide.prod() / np.pi)) for share in SHARES}
        for nodes in numbers:
            index = dtoss.build(np.arange(count), objects, crs="none", partitions=nodes)
            rivals: dict[str, DMovies | RtCan] = {"D-MOVIES": DMovies(objects, nodes), "RT-CAN": RtCan(objects, nodes)}
            works: dict[str, Work] = {name: partial(one.range, at, radii[ASKED_OF_ALL]) for name, one in rivals.items()}
            works |= {name: partial(index.range, at, radius, order="none") for name, radius in radii.items()}
            asked = {name: Search(at, radius, 0) for name, radius in radii.items()}
            if nodes == numbers[1]:
                works |= {f"k = {k}": partial(index.knn, at, k) for k in KS}
                asked |= {f"k = {k}": Search(at, np.full(questions, np.inf), k) for k in KS}
            spent, found = in_turns(works, turns)
            hits = found[ASKED_OF_ALL]
            right = np.sort(hits.query * count + hits.id)
            for name, seconds in spent.items():
                us = 1e6 * min(seconds) / questions
                if name in rivals:
                    assert np.array_equal(np.sort(found[name].query * count + found[name].row), right)
                    series, x, messages = name, f"{kind}, {nodes}, {ASKED_OF_ALL}", found[name].messages / questions
                else:
                    series, x, messages = "D-ToSS", f"{kind}, {nodes}, {name}", own_messages(index, asked[name], nodes)
                yield point(series, x, us, WORK, data=f"{count:,} objects, {questions:,} questions")
                yield point(series, x, messages, MESSAGES)
                yield point(series, x, 1e6 * nodes / (us + price * messages), RATE, modelled=True)


def draw(results: Results) -> str:
    """Return a table of each unit."""
    forms = {WORK: "{:.1f}", MESSAGES: "{:.2f}", RATE: "{:,.0f}"}
    return "\n\n".join(grid(results, unit, f"objects, nodes, asked: {unit}", form) for unit, form in forms.items())
