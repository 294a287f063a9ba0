"""Slow, obvious versions of what ceps does; they share no code with it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np

from ceps.model.variation import variation_of


def partitions_of(count: int) -> Iterator[list[int]]:
    """Every way to put `count` items into unlabelled groups, as labels in order of first use."""

    def extend(labels: list[int], used: int) -> Iterator[list[int]]:
        if len(labels) == count:
            yield labels
            return
        for label in range(used + 1):
            yield from extend([*labels, label], max(used, label + 1))

    yield from extend([], 0)


def cheapest(load, size, rates, room, prices, tolerance=1e-9):
    """Price of the cheapest type that holds one server's load by slot and bytes; infinite if none does."""
    best = np.inf
    for rate, space, price in zip(rates, room, prices, strict=True):
        if max(load, default=0.0) <= rate * (1 + tolerance) and size <= space * (1 + tolerance):
            best = min(best, price)
    return best


def cost(labels, loads, sizes, rates, room, prices):
    """Dollars a day of a placement, summed partition by partition."""
    total = 0.0
    for server in sorted(set(labels)):
        load = [0.0] * len(loads[0])
        size = 0.0
        for item, label in enumerate(labels):
            if label == server:
                load = [a + b for a, b in zip(load, loads[item], strict=True)]
                size += sizes[item]
        total += cheapest(load, size, rates, room, prices)
    return 24 * total


def optimum(loads, sizes, rates, room, prices, apart=()):
    """Dollars a day of the best placement of all; `apart` are pairs of items that may not share a server."""
    loads, sizes = np.asarray(loads, float), np.asarray(sizes, float)
    price_of: dict[int, float] = {}
    for group in range(1, 2 ** len(loads)):
        members = [i for i in range(len(loads)) if group >> i & 1]
        if any(group >> a & 1 and group >> b & 1 for a, b in apart):
            price_of[group] = np.inf
        else:
            price_of[group] = cheapest(loads[members].sum(0), sizes[members].sum(), rates, room, prices)
    best = np.inf
    for labels in partitions_of(len(loads)):
        groups: dict[int, int] = {}
        for item, label in enumerate(labels):
            groups[label] = groups.get(label, 0) | 1 << item
        best = min(best, sum(price_of[group] for group in groups.values()))
    return 24 * best


def cheapest_fleet(rate, size, count, rates, room, prices, most):
    """Dollars an hour of the cheapest fleet of at most `most` servers of each type that covers a need."""
    best = np.inf
    for numbers in product(range(most + 1), repeat=len(rates)):
        has_rate = sum(n * r for n, r in zip(numbers, rates, strict=True))
        has_room = sum(n * r for n, r in zip(numbers, room, strict=True) if n)
        if has_rate >= rate * (1 - 1e-9) and has_room >= size * (1 - 1e-9) and sum(numbers) >= count:
            best = min(best, sum(n * p for n, p in zip(numbers, prices, strict=True)))
    return best


def flattest_merges(loads, rate, wanted):
    """Algorithm 4.1 as written: after each merge, compare all pairs anew; ties by (value, first, second)."""
    clusters = [([i], np.array(row, float)) for i, row in enumerate(loads)]
    while len(clusters) > wanted:
        best = None
        for i in range(len(clusters)):
            for j in range(i + 1, len(clusters)):
                together = clusters[i][1] + clusters[j][1]
                if together.max() > rate * (1 + 5e-10):
                    continue
                slopes = (np.roll(clusters[i][1], -1) - clusters[i][1]) + (np.roll(clusters[j][1], -1) - clusters[j][1])
                value = np.abs(slopes).sum()
                if best is None or value < best[0]:
                    best = (value, i, j)
        if best is None:
            break
        _, i, j = best
        clusters[i] = (clusters[i][0] + clusters[j][0], clusters[i][1] + clusters[j][1])
        del clusters[j]
    labels = [0] * len(loads)
    for number, (members, _) in enumerate(clusters):
        for item in members:
            labels[item] = number
    return labels


def overload(load, rate, size, space):
    """Sum over slots, and once for bytes, of (relative load - 1)^2 where it is above 1."""
    relative = [value / rate for value in load] + [size / space]
    return sum((value - 1) ** 2 for value in relative if value > 1)


def smoothed(row, half):
    """Circular mean over 2 * half + 1 slots."""
    count = len(row)
    return [sum(row[(t + d) % count] for d in range(-half, half + 1)) / (2 * half + 1) for t in range(count)]


def servers_a_request(replicas, requests, total):
    """Mean servers that requests touch, one request after the other; `requests` are (partitions, how many) each.

    An equal share of the requests asks each copy's servers; the requests to make `total` full touch one server.
    """
    copies = len(replicas[0]) if len(replicas) else 1
    touched = total - sum(number for _, number in requests)
    for partitions, number in requests:
        for copy in range(copies):
            touched += len({replicas[partition][copy] for partition in partitions}) * number / copies
    return touched / total


def cheapest_with_calls(loads, sizes, rates, room, prices, requests, dollars):
    """Least sum of dollars a day and of `dollars` for each further server of a request, over every placement."""
    best = np.inf
    for labels in partitions_of(len(loads)):
        further = sum((len({labels[p] for p in partitions}) - 1) * number for partitions, number in requests)
        best = min(best, cost(labels, loads, sizes, rates, room, prices) + dollars * further)
    return best


def variation_day_by_day(counts, kind):
    """Variation of counts (days, hours, partitions) whose day d is of `kind[d]`: each deviation squared by itself."""
    days, hours, partitions = counts.shape
    expected, freedom = np.zeros(counts.shape), np.ones(days)
    for d in range(days):
        alike = [e for e in range(days) if kind[e] == kind[d]]
        expected[d] = sum(counts[e] for e in alike) / len(alike)
        freedom[d] = len(alike) / (len(alike) - 1) if len(alike) > 1 else 1.0
    known = [d for d in range(days) if freedom[d] > 1]
    own = np.zeros((3, partitions))
    for p in range(partitions):
        for d in known:
            for h in range(hours):
                own[0, p] += (counts[d, h, p] - expected[d, h, p]) ** 2 * freedom[d]
                own[1, p] += expected[d, h, p]
                own[2, p] += expected[d, h, p] ** 2
    return variation_of(counts.sum(axis=2), expected.sum(axis=2), freedom, *own)


def cheapest_grid(patterns, types, utilisation):
    """Dollars an hour of the cheapest grid of 1 to three times the load in servers of the smallest type."""
    smallest = min(kind.requests_per_second for kind in types) * utilisation
    units = max(1, int(np.ceil(patterns.loads.sum(axis=0).max() / smallest - 1e-9)))
    best = np.inf
    order = np.lexsort((*patterns.positions.T, patterns.sizes, *patterns.loads.T[::-1]))
    for cells in range(1, max(2, min(3 * units, len(patterns))) + 1):
        dollars = 0.0
        for members in halved(patterns, order, cells):
            peak, size = patterns.loads[members].sum(axis=0).max(), patterns.sizes[members].sum()
            fitting = [
                kind.dollars_per_hour
                for kind in types
                if peak <= utilisation * kind.requests_per_second * (1 + 1e-9) and size <= kind.bytes * (1 + 1e-9)
            ]
            dollars += min(fitting, default=np.inf)
        best = min(best, dollars)
    return best


def halved(patterns, members, cells):
    """Partitions of each cell: cut across the longer side so that each part has its share of the bytes."""
    cells = min(cells, len(members))
    if cells <= 1:
        return [members]
    places = patterns.positions[members]
    sides = np.ptp(places, axis=0)
    order = members[np.argsort(places[:, 1 if sides[1] > sides[0] else 0], kind="stable")]
    weights = patterns.sizes if patterns.sizes.any() else np.ones(len(patterns))
    low = cells // 2
    goal, held, cut = weights[order].sum() * low / cells, 0.0, 0
    while cut < len(order):
        held += weights[order[cut]]
        cut += 1
        if held >= goal * (1 - 1e-12):
            break
    cut = min(max(cut, low), len(order) - (cells - low))
    return [*halved(patterns, order[:cut], low), *halved(patterns, order[cut:], cells - low)]
