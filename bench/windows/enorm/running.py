"""A job that runs: sources, nodes, one message after the other in an order that a seed decides, changes meanwhile."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from time import process_time_ns

from bench.windows.enorm.changing import DIRECT, INSTANT, SMOOTH, check, lasting
from bench.windows.enorm.channels import Carry, Channel, Modification, Timestamp
from bench.windows.enorm.instances import Edge, Instance
from bench.windows.enorm.operators import Consolidate, Row
from bench.windows.enorm.placing import Configuration, configured, smoothly
from bench.windows.enorm.rules import Rules
from bench.windows.enorm.spans import FOREVER, longest


@dataclass(frozen=True)
class Source:
    """Where rows come from.

    Parameters
    ----------
    rows : in the order of their arrival.
    grace : how far a row may be behind the newest one; what is further is counted and left out.
    each : rows between two timestamps.
    """

    rows: Sequence[Row]
    grace: int = 0
    each: int = 1


class Feeding:
    """A source while it runs: its rows, then the last timestamp."""

    def __init__(self, source: Source, edges: list[Edge]) -> None:
        self.source, self.edges = source, edges
        self.rows: Iterator[Row] = iter(source.rows)
        self.newest = self.promised = -FOREVER
        self.count = self.late = 0
        self.ended = False
        self.sent: list[Row] = []

    def step(self) -> None:
        """Send a row, and a timestamp if one is due."""
        row = next(self.rows, None)
        if row is None:
            self.ended = True
            self._promise(FOREVER)
            return
        self.count += 1
        if row[3] - 1 < self.promised:
            self.late += 1
        else:
            self.newest = max(self.newest, row[3] - 1)
            for edge in self.edges:
                if len(edge.entries) == 1:
                    edge.channels[edge.entries[0].node_of(row[0])].put(row)
                else:
                    for node in edge.destinations(row, "", -1):
                        edge.channels[node].put(row)
        if self.count % self.source.each == 0 and self.newest - self.source.grace > self.promised:
            self._promise(self.newest - self.source.grace)

    def _promise(self, time: int) -> None:
        self.promised = time
        for edge in self.edges:
            for channel in edge.channels:
                channel.put(Timestamp(time))

    def change(self, change: Modification) -> None:
        """Send a modification, and follow it."""
        for edge in self.edges:
            edge.configure(change.after, "")
            for channel in edge.channels:
                channel.put(change)


class Run:
    """A job on nodes.

    Parameters
    ----------
    start : the first configuration.
    sources : each feeds every operator that nothing flows to.
    nodes : how many there are.
    rules : by which reading of the paper.
    seed : of the order in which connections are served and sources send.
    carry : what brings the bytes of a row to another component; None where rows go as they are.
    most : messages of a connection at a time.
    """

    def __init__(
        self,
        start: Configuration,
        sources: Iterable[Source],
        nodes: int,
        *,
        rules: Rules | None = None,
        seed: int = 0,
        carry: Carry | None = None,
        most: int = 1,
    ) -> None:
        self.now, self.rules, self.most = start, rules or Rules(), most
        self.random = random.Random(seed)
        self.ready: list[Channel] = []
        self.steps = 0
        self.node_ns: dict[int, int] = defaultdict(int)
        self.source_ns = 0
        self.results: list[Row] = []
        self.carry = carry
        job = start.job
        self.instances = {
            one.name: [Instance(one, job, node, self.rules) for node in range(nodes)]  # type: ignore[arg-type]
            for one in job.operators
        }
        for name, instances in self.instances.items():
            for instance in instances:
                instance.edges = [self._edge(other, job.kept_for(other)) for other in job.after(name)]
                if not instance.edges:
                    instance.out = self.results
                for other in instances:
                    if other is not instance:
                        channel = instance.to_others[other.node] = Channel(other, other.node, self.ready, None)
                        channel.block()
                        other.moves[instance.node] = channel
        firsts = [one.name for one in job.operators if not job.before(one.name)]
        self.sources = [Feeding(one, [self._edge(name, 0) for name in firsts]) for one in sources]
        for source in self.sources:
            for edge in source.edges:
                edge.configure(start, "")
        for instances in self.instances.values():
            for instance in instances:
                instance.begin(start)

    def _edge(self, name: str, kept: int) -> Edge:
        receivers = self.instances[name]
        channels = [Channel(one, one.node, self.ready, self.carry) for one in receivers]
        for one, channel in zip(receivers, channels, strict=True):
            one.inputs.append(channel)
        partial = isinstance(receivers[0].operator, Consolidate)
        return Edge(name, channels, partial, kept if self.rules.resent and partial else 0)

    def change(self, after: Configuration, how: str) -> Configuration:
        """Tell all sources of another configuration, and return it as it counts from now on.

        Raises
        ------
        ValueError
            If it cannot be made in this way, or an earlier one lasts still.
        """
        before = self.now
        check(before, after, how)
        promised = min(one.promised for one in self.sources)
        if before.settled_at > promised:
            if how != INSTANT or any(len(entries) > 1 for entries in before.spreads.values()):
                raise ValueError(f"the change before lasts until {before.settled_at}, rows are at {promised}")
        elif before.settled_at > -FOREVER:
            before = before.settled()
        newest = max(one.newest for one in self.sources)
        after = replace(configured(after.job, after.components), number=before.number + 1)
        if how == SMOOTH:
            after = smoothly(before, after, newest + 1)
        elif how == INSTANT:
            after = replace(after, settled_at=max(lasting(before, after, newest), before.settled_at))
        elif how != DIRECT:
            raise ValueError(f"{how!r} is none of {INSTANT}, {DIRECT}, {SMOOTH}")
        self.now = after
        for source in self.sources:
            source.change(Modification(after, how))
        return after

    def step(self) -> bool:
        """Let a source send a row or a connection hand over messages; return whether anything is left."""
        self.steps += 1
        feeding = [one for one in self.sources if not one.ended]
        choice = self.random.randrange(len(feeding) + len(self.ready)) if feeding or self.ready else -1
        if choice < 0:
            return False
        if choice < len(feeding):
            begin = process_time_ns()
            for _ in range(self.most):
                if not feeding[choice].ended:
                    feeding[choice].step()
            self.source_ns += process_time_ns() - begin
            return True
        at = choice - len(feeding)
        self.ready[at], self.ready[-1] = self.ready[-1], self.ready[at]
        channel = self.ready.pop()
        channel.listed = False
        begin = process_time_ns()
        channel.handle(self.most)
        channel.list()
        self.node_ns[channel.node] += process_time_ns() - begin
        return True

    def run(self) -> list[Row]:
        """Run to the end, and return what came out."""
        while self.step():
            pass
        return self.results

    def drain(self) -> None:
        """Hand over all that was sent, while sources wait."""
        while self.ready:
            channel = self.ready.pop()
            channel.listed = False
            channel.handle(1 << 40)

    @property
    def late(self) -> int:
        """Rows that came after their time had been promised."""
        return sum(one.late for one in self.sources)

    @property
    def lost(self) -> int:
        """Rows that came to a window that was complete; none unless a rule is read as it is written."""
        return sum(getattr(one.work, "lost", 0) for instances in self.instances.values() for one in instances)

    def total(self, what: str) -> int:
        """Return the sum over all instances of what they or their work count."""
        return sum(
            getattr(one, what, 0) or getattr(one.work, what, 0)
            for instances in self.instances.values()
            for one in instances
        )

    def unit(self) -> int:
        """Return the longest window of all."""
        return max(longest(self.now.job.units(one.name)) for one in self.now.job.operators)
