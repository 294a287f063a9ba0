"""Calls: how many servers a request touches, and what a further one costs."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ceps.model.patterns import DAY
from ceps.model.problem import Ints, Problem
from ceps.model.reads import Reads, distinct_sets

_TABLE = 50_000_000  # sets x servers up to which a table of all says who touches whom


def servers_a_request(servers: ArrayLike, reads: Reads) -> float:
    """Mean number of servers that a request touches; 1 where there are no requests.

    Where partitions have copies, an equal share of the requests asks the first copies of all partitions that it
    reads, another one the second copies, and so on. So each copy answers an equal share, as plans count it.

    Parameters
    ----------
    servers
        int (P,) or (P, copies), the server of each partition, or of each of its copies, by the rows of the patterns
        that `reads` belong to: `Plan.replicas`.
    reads
        What requests read together.

    Notes
    -----
    O(copies (n + sets x servers)) for sets with n members in all.

    Examples
    --------
    >>> reads = Reads([0, 2, 5], [0, 1, 0, 1, 2], [30.0, 10.0], total=100.0)
    >>> servers_a_request([0, 0, 1], reads), servers_a_request([0, 1, 2], reads)
    (1.1, 1.5)
    """
    if reads.total <= 0 or not len(reads):
        return 1.0
    table = np.asarray(servers, dtype=np.int64)
    further = 0.0
    for server in table.reshape(len(table), -1).T:
        further += calls_a_day(server, reads)
    return 1.0 + further / (reads.total * (table.size // len(table)))


def item_reads(problem: Problem, reads: Reads) -> Reads:
    """Return reads of items: for each copy, the sets of items that hold it, with its share of the requests.

    Sets come in an order that the items alone determine. O(n log n).
    """
    request = np.concatenate([reads.set_of + copy * len(reads) for copy in range(problem.copies)])
    item = problem.item_of[reads.row].T.ravel()
    start, row, whose = distinct_sets(request, item)  # partitions that are pinned together are one item
    weight = np.tile(reads.weight / problem.copies, problem.copies)[: len(whose)]
    together = whose >= 0
    sums = np.bincount(whose[together], weight[together], minlength=len(start) - 1).astype(np.float64)
    return Reads(start, row, sums, reads.total, reads.sampled)


def dollars_a_call(problem: Problem, call_cost: float) -> float:
    """Dollars that one further server of one request costs, when it is as much work as `call_cost` requests.

    The work comes at the hours at which all requests come, so a call a day takes `peak / mean / 86400` requests/s of
    capacity, at the price of the type with most of it for the money, at target utilisation.
    """
    total = problem.total[:-1]
    if call_cost <= 0 or not total.any():
        return 0.0
    steady = 24 * float((problem.prices / problem.rates).min())  # dollars a day for 1 request/s
    return call_cost * steady * float(total.max() / total.mean()) / DAY


def calls_a_day(labels: Ints, reads: Reads) -> float:
    """Further servers that all requests of a day touch, by items' `labels` and `item_reads`."""
    return float((_touched(labels, reads) - 1) @ reads.weight)


def _touched(server: Ints, reads: Reads) -> Ints:
    """int64 (S,), how many servers hold something of each set."""
    width = int(server.max(initial=0)) + 1
    held = reads.set_of * width + server[reads.row]
    if len(reads) * width <= _TABLE:
        table = np.zeros(len(reads) * width, dtype=bool)
        table[held] = True
        return np.count_nonzero(table.reshape(len(reads), width), axis=1)
    return np.bincount(np.unique(held) // width, minlength=len(reads))
