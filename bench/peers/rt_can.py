"""RT-CAN (Wang et al. 2010), which the dissertation competes with: local R-trees under an overlay of zones (CAN).

Nodes have equal zones of the box of all objects, and an R-tree of libspatialindex of what lies in their own, loaded at
once. A node knows those 1, 2, 4 and so on zones ahead on each axis, round the torus, so that a question comes to its
zone within log N messages; from there it goes to all zones that its circle meets. All is real but the network: trees
are in one process, and messages are counted. What R-trees publish lies in the zones of their objects, that is with the
nodes themselves: to find it costs nothing here, which favours RT-CAN; to tell of a change costs what 3.4.6 says.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from rtree.index import Index

from bench.peers.by_ranges import Floats, Found, Ints, nearest_by_ranges, within


@dataclass(frozen=True)
class Messages:
    """Of updates: to find the node, and to tell others of its changed R-tree."""

    finding: float
    telling: float


def messages_by_3_4_6(updates: float, nodes: int) -> Messages:
    """Return them as the dissertation counts: log N for each update, and 3 log(N / 4) afterwards."""
    return Messages(updates * np.log2(nodes), updates * 3 * np.log2(nodes / 4))


class RtCan:
    """Objects in the R-trees of nodes, a power of two; ids are the rows of ``objects``, float64 (n, 2)."""

    def __init__(self, objects: Floats, nodes: int) -> None:
        self.objects, self.nodes = objects.copy(), nodes
        bits = nodes.bit_length() - 1
        if nodes != 1 << bits:
            raise ValueError(f"{nodes} nodes: zones are halves of halves, so their number is a power of two")
        self.shape = np.array([1 << (bits + 1) // 2, 1 << bits // 2])
        self.low = objects.min(axis=0)
        self.side = np.maximum(np.ptp(objects, axis=0), 1e-9) / self.shape
        self.found = self.moved = 0
        """Messages that found the nodes of updates; updates."""
        zone = self.zone_of(objects)
        self.trees = []
        for mine in np.split(np.argsort(zone, kind="stable"), np.cumsum(np.bincount(zone, minlength=nodes))[:-1]):
            self.trees.append(Index((mine, objects[mine], objects[mine])) if len(mine) else Index())

    def cell_of(self, at: Floats) -> Ints:
        """Return column and row of the zones that places lie in, int64 (n, 2), or of the nearest one."""
        return np.clip((at - self.low) / self.side, 0, self.shape - 1).astype(np.int64)

    def zone_of(self, at: Floats) -> Ints:
        """Return the zones of places, int64 (n,)."""
        return self.cell_of(at) @ np.array([1, self.shape[0]])

    def hops(self, source: Ints, target: Ints) -> Ints:
        """Return how many messages lead from a zone to another one."""
        away = np.stack(
            [target % self.shape[0] - source % self.shape[0], target // self.shape[0] - source // self.shape[0]]
        )
        return np.bitwise_count(away % self.shape[:, None]).sum(axis=0).astype(np.int64)

    def zones_met(self, at: Floats, radius: Floats) -> tuple[Ints, Ints]:
        """Return pairs of a query and a zone that its circle meets; its home is always there."""
        far = radius[:, None]
        first, last = self.cell_of(at - far), self.cell_of(at + far)
        wide, high = (last - first + 1).T
        query = np.repeat(np.arange(len(at)), wide * high)
        number = np.arange(len(query)) - np.repeat(np.cumsum(wide * high) - wide * high, wide * high)
        cell = first[query] + np.stack([number % wide[query], number // wide[query]], axis=1)
        begin = self.low + cell * self.side
        gap = at[query] - np.clip(at[query], begin, begin + self.side)
        met = (np.hypot(*gap.T) <= radius[query] + 1e-9 * self.side.max()) | (cell == self.cell_of(at)[query]).all(
            axis=1
        )
        return query[met], cell[met] @ np.array([1, self.shape[0]])

    def range(self, at: Floats, radius: Floats) -> Found:
        """Return all objects within the radius of each place; questions come to the nodes in turns."""
        hops = self.hops(np.arange(len(at)) % self.nodes, self.zone_of(at))
        query, zone = self.zones_met(at, radius)
        messages = int(hops.sum() + (hops > 0).sum() + 2 * (len(query) - len(at)))
        order = np.argsort(zone, kind="stable")
        queries, rows = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        for mine in np.split(order, np.cumsum(np.bincount(zone, minlength=self.nodes))[:-1]):
            if len(mine):
                asked = query[mine]
                ids, counts = self.trees[zone[mine[0]]].intersection_v(
                    at[asked] - radius[asked, None], at[asked] + radius[asked, None]
                )
                queries.append(np.repeat(asked, counts.astype(np.int64)))
                rows.append(ids)
        return within(np.concatenate(queries), np.concatenate(rows), at, radius, self.objects, messages)

    def knn(self, at: Floats, k: int) -> Found:
        """Return the k nearest objects of each place."""
        return nearest_by_ranges(self.range, at, k, self.objects)

    def move(self, ids: Ints, new: Floats) -> None:
        """Move objects one by one: a deletion and an insertion, in another tree where the zone is another."""
        old = self.objects[ids]
        source, target = self.zone_of(old), self.zone_of(new)
        entry = np.arange(len(ids)) % self.nodes
        self.found += int((self.hops(entry, source) + self.hops(source, target)).sum())
        rows = zip(ids.tolist(), source.tolist(), target.tolist(), old.tolist(), new.tolist(), strict=True)
        for number, here, there, (x, y), (u, v) in rows:
            self.trees[here].delete(number, (x, y, x, y))
            self.trees[there].insert(number, (u, v, u, v))
        self.objects[ids] = new
        self.moved += len(ids)
