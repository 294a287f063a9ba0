"""An operator at a node: progress by timestamps, changes by modifications, rows to where they belong."""

from __future__ import annotations

import pickle
from collections import defaultdict
from time import process_time_ns

from bench.windows.enorm.changing import DIRECT, INSTANT, SMOOTH, doubled
from bench.windows.enorm.channels import Channel, Message, Modification, Moved, Timestamp
from bench.windows.enorm.jobs import Job
from bench.windows.enorm.operators import Compute, Consolidate, Key, Map, Row
from bench.windows.enorm.placing import Configuration, Entry
from bench.windows.enorm.rules import Rules
from bench.windows.enorm.spans import FOREVER, Span, Window
from bench.windows.enorm.works import ComputeWork, ConsolidateWork, MapWork


class Edge:
    """To one operator after this one: its channels to each node, and what was sent to it, if it may be asked for again.

    Parameters
    ----------
    name : of the operator that is sent to.
    channels : to each of its nodes.
    partial : it is a consolidate.
    longest : how long what is sent is kept; 0 for not at all.
    """

    def __init__(self, name: str, channels: list[Channel], partial: bool, longest: int) -> None:
        self.name, self.channels, self.partial, self.longest = name, channels, partial, longest
        self.kept: dict[Span, list[Row]] = defaultdict(list)
        self.entries: tuple[Entry, ...] = ()
        self.reach: tuple[Window, ...] = ()
        self.near = False

    def configure(self, now: Configuration, component: str, apart: bool = False) -> None:
        """Follow a configuration; ``apart`` while the sender is at other nodes than its component."""
        self.entries, self.reach = now.spreads[self.name], now.reach.get(self.name, ())
        self.near = not apart and len(self.entries) == 1 and self.entries[0].component == component

    def destinations(self, row: Row, component: str, node: int) -> set[int]:
        """Return the nodes that have windows of a row, while a smooth migration lasts."""
        begins = {row[3] - 1}.union(span[0] for window in self.reach for span in window.touching(row[2], row[3]))
        if self.partial:
            begins = {span[0] for window in self.reach for span in window.holding(row[2], row[3])}
        if not begins:
            return set()
        old, new = self.entries
        found = [old] * (min(begins) < new.since) + [new] * (max(begins) >= new.since)
        return {node if entry.component == component else entry.node_of(row[0]) for entry in found}


class Instance:
    """An operator at a node. All operators are at all nodes; entries say which keys are where.

    Parameters
    ----------
    operator, job, node, now, rules : what, where, under which configuration, by which reading.
    """

    def __init__(self, operator: Map | Compute | Consolidate, job: Job, node: int, rules: Rules) -> None:
        self.operator, self.job, self.node, self.rules = operator, job, node, rules
        self.may_rekey = not isinstance(operator, Compute)
        self.inputs: list[Channel] = []
        self.moves: dict[int, Channel] = {}
        """From the same operator at other nodes, for its state."""
        self.to_others: dict[int, Channel] = {}
        self.edges: list[Edge] = []
        self.out: list[Row] | None = None
        """Where the results of an operator at the end go."""
        self.arrived: set[Channel] = set()
        self.expected: set[Channel] = set()
        self.time = -FOREVER
        self.active_at: dict[int, int] = {}
        """Of each change the time here: windows that end later were active then."""
        self.moved_bytes = self.resent = 0
        self.paused_ns = self.resending_ns = 0
        """Processor time in which changes held rows up here; in which what was kept was sent again."""

    def begin(self, now: Configuration) -> None:
        """Make the work, under the first configuration."""
        self.work: MapWork | ComputeWork | ConsolidateWork
        if isinstance(self.operator, Map):
            self.work = MapWork(self.operator, self, False)
        elif isinstance(self.operator, Compute):
            self.work = ComputeWork(self.operator, self.job, self, self.rules.closes)
        else:
            self.work = ConsolidateWork(self.operator, self.job, self, self.rules.closes, self.rules.on_arrival)
        self.to_consolidates = [edge for edge in self.edges if edge.partial]
        self.to_others_at_once = [edge for edge in self.edges if not edge.partial]
        self.configure(now)

    def configure(self, now: Configuration) -> None:
        """Follow a configuration."""
        self.now = now
        self.entries = now.spreads[self.operator.name]
        self.component = now.component_of(self.operator.name)
        for edge in self.edges:
            edge.configure(now, self.component, len(self.entries) > 1)
        if isinstance(self.work, ComputeWork):
            self.work.merges_along = any(len(now.spreads[name]) > 1 for name in self.job.merged_by(self.operator.name))
        if isinstance(self.work, MapWork):
            self.work.doubled = doubled(now, self.operator.name)

    def chooses(self) -> bool:
        """Whether windows of a key are at two nodes now."""
        return len(self.entries) > 1

    def has(self, key: Key, begin: int) -> bool:
        """Whether the windows of a key that begin there are this node's."""
        entries = self.entries
        entry = entries[-1] if entries[-1].since <= begin else entries[0]
        return entry.node_of(key) == self.node

    def emit(self, row: Row, *, partial: bool, inside_only: bool = False) -> None:
        """Send a row on: partial results to consolidates, others to what is none."""
        for edge in self.to_consolidates if partial else self.to_others_at_once:
            if edge.longest and (len(self.entries) == 1 or self.has(row[0], row[2])):
                edge.kept[row[2], row[3]].append(row)
            if edge.near:
                if self.may_rekey and edge.entries[0].by and edge.entries[0].node_of(row[0]) != self.node:
                    raise ValueError(f"{self.operator.name} changes attributes by which {self.component} is divided")
                edge.channels[self.node].put(row, True)
            elif len(edge.entries) == 1:
                if not inside_only:
                    edge.channels[edge.entries[0].node_of(row[0])].put(row)
            elif any(entry.component == self.component for entry in edge.entries):
                self._emit_smoothly(edge, row)
            elif not inside_only:
                for node in edge.destinations(row, self.component, self.node):
                    edge.channels[node].put(row)
        if self.out is not None and not partial and not inside_only:
            self.out.append(row)

    def _emit_smoothly(self, edge: Edge, row: Row) -> None:
        if all(entry.component == self.component for entry in edge.entries):
            edge.channels[self.node].put(row, True)
            return
        for node in edge.destinations(row, self.component, self.node):
            edge.channels[node].put(row, node == self.node and edge.entries[-1].component == self.component)

    def receive(self, channel: Channel, message: Message) -> None:
        """Handle a message."""
        if type(message) is tuple:
            self.work.take(message)
        elif type(message) is Timestamp:
            channel.time = message.time
            if self.time < channel.time and (least := min(one.time for one in self.inputs)) > self.time:
                self.advance(least)
        elif type(message) is Modification:
            self._modification(channel, message)
        else:
            self._state_came(channel, message)

    def advance(self, time: int) -> None:
        """Process all windows that end until then, and say so to those after."""
        self.time = time
        if isinstance(self.work, ComputeWork):
            time -= self.work.held_back
        self.work.close(time)
        if self.now.settled_at <= time and self.now.settled_at > -FOREVER:
            self.configure(self.now.settled())
        for edge in self.edges:
            for span in [span for span in edge.kept if span[0] <= time - edge.longest]:
                del edge.kept[span]
            for channel in edge.channels:
                channel.put(Timestamp(time), channel.node == self.node and edge.near)

    def _modification(self, channel: Channel, change: Modification) -> None:
        if not self.rules.aligned:
            if change.after.number > self.now.number:
                self._apply(change)
            return
        self.arrived.add(channel)
        channel.block()
        if len(self.arrived) == len(self.inputs):
            self.arrived.clear()
            self._apply(change)
            if not self.expected:
                self._go_on()

    def _go_on(self) -> None:
        for channel in self.inputs:
            channel.unblock()

    def _apply(self, change: Modification) -> None:
        """Change to another configuration: state goes to where it belongs, and the word to those after."""
        begin = process_time_ns()
        before, after, how = self.now, change.after, change.how
        name = self.operator.name
        old, new = before.spreads[name][-1], after.spreads[name][-1]
        self.active_at[after.number] = self.time
        near = [edge.near for edge in self.edges]
        self.configure(after)
        if isinstance(self.work, ConsolidateWork):
            self.work.forget_windows()
        if not old.same(new):
            if how == DIRECT:
                self._send_state(old, new)
            elif how == INSTANT and isinstance(self.work, ConsolidateWork):
                if self.node in new.nodes:
                    self.work.taken_out(key for key in self.work.held_keys() if new.node_of(key) != self.node)
                else:
                    self.work.states = {}
        self.paused_ns += process_time_ns() - begin
        for edge, was_near in zip(self.edges, near, strict=True):
            for channel in edge.channels:
                channel.put(change, channel.node == self.node and was_near)
            if how != SMOOTH and self.rules.resent:
                self._send_again(edge, before, after, how)

    def _send_again(self, edge: Edge, before: Configuration, after: Configuration, how: str) -> None:
        """Send what consolidates lack that were moved without their state."""
        old, new = before.spreads[edge.name][-1], after.spreads[edge.name][-1]
        if not edge.partial or how != INSTANT or old.same(new):
            return
        begin = process_time_ns()
        for rows in edge.kept.values():
            for row in rows:
                if old.node_of(row[0]) != new.node_of(row[0]):
                    edge.channels[new.node_of(row[0])].put(row)
                    self.resent += 1
        self.resending_ns += process_time_ns() - begin

    def _send_state(self, old: Entry, new: Entry) -> None:
        """Pause, and send the state of keys that go to each other node (direct migration)."""
        going: dict[int, list[Key]] = {node: [] for node in self.to_others}
        for key in self.work.held_keys():
            if old.node_of(key) == self.node != new.node_of(key):
                going[new.node_of(key)].append(key)
        for node, keys in going.items():
            packed = pickle.dumps(self.work.taken_out(keys), -1)
            self.moved_bytes += len(packed) if keys else 0
            self.to_others[node].messages.append(Moved(packed))
            self.to_others[node].list()
        self.expected = set(self.moves.values())
        for channel in [*self.inputs, *self.expected]:
            (channel.block if channel in self.inputs else channel.unblock)()

    def _state_came(self, channel: Channel, message: Moved) -> None:
        begin = process_time_ns()
        self.work.put_in(pickle.loads(message.states))
        self.paused_ns += process_time_ns() - begin
        channel.block()
        self.expected.remove(channel)
        if not self.expected:
            self._go_on()
