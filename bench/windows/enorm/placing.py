"""Components, key groups and where they are: a configuration, and the changes of one (sections 4.4 and 4.5)."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from bench.windows.enorm.jobs import Job
from bench.windows.enorm.operators import Key
from bench.windows.enorm.spans import FOREVER, Window, longest


@dataclass(frozen=True)
class Component:
    """Operators that run together, divided by the same attributes.

    Parameters
    ----------
    operators : their names.
    by : attributes whose values make the key group, a subset of PA of each; none make one group.
    nodes : the node of each key group.
    """

    operators: frozenset[str]
    by: tuple[str, ...]
    nodes: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.by and len(self.nodes) != 1:
            raise ValueError(
                f"{sorted(self.operators)}: without attributes there is one key group, not {len(self.nodes)}"
            )


@dataclass
class Entry:
    """Who has the windows that begin at ``since`` or later, for the keys of one operator."""

    since: int
    component: str
    by: tuple[str, ...]
    nodes: tuple[int, ...]
    schema: tuple[str, ...]
    known: dict[Key, int] = field(default_factory=dict, repr=False)

    def group_of(self, key: Key) -> int:
        """Return the key group: a hash that is the same in every process."""
        if not self.by:
            return 0
        part = tuple(key[self.schema.index(name)] for name in self.by)
        return zlib.crc32(repr(part).encode()) % len(self.nodes)

    def node_of(self, key: Key) -> int:
        """Return the node of a key."""
        node = self.known.get(key)
        if node is None:
            node = self.known[key] = self.nodes[self.group_of(key)]
        return node

    def same(self, other: Entry) -> bool:
        """Whether every key is at the same place."""
        return (self.by, self.nodes) == (other.by, other.nodes)


@dataclass(frozen=True)
class Configuration:
    """What runs where.

    Parameters
    ----------
    job : the operators.
    components : by name.
    number : of the change that made it.
    spreads : of each operator its entries, by their time; more than one while a smooth migration lasts.
    reach : of each operator the windows by which a row goes to more than one node meanwhile.
    settled_at : the time from which on spreads have one entry, and no key is at two nodes.
    """

    job: Job
    components: Mapping[str, Component]
    number: int = 0
    spreads: Mapping[str, tuple[Entry, ...]] = field(default_factory=dict)
    reach: Mapping[str, tuple[Window, ...]] = field(default_factory=dict)
    settled_at: int = -FOREVER

    def component_of(self, operator: str) -> str:
        """Return the name of the component that has an operator."""
        return next(name for name, one in self.components.items() if operator in one.operators)

    def entry(self, operator: str, since: int = -FOREVER) -> Entry:
        """Return an operator's entry, of its component as it is."""
        name = self.component_of(operator)
        one = self.components[name]
        return Entry(since, name, one.by, one.nodes, self.job.by_name[operator].schema)

    def settled(self) -> Configuration:
        """Return it once a smooth migration is over."""
        spreads = {name: (replace(entries[-1], since=-FOREVER),) for name, entries in self.spreads.items()}
        return replace(self, spreads=spreads, reach={}, settled_at=-FOREVER)


def common(job: Job, operators: Iterable[str]) -> frozenset[str]:
    """Return PA of a component: what the partition attributes of its operators have in common (section 4.4)."""
    return frozenset.intersection(*(job.by_name[name].attributes for name in operators))


def configured(job: Job, components: Mapping[str, Component]) -> Configuration:
    """Return the configuration that a job starts with.

    Raises
    ------
    ValueError
        If an operator is in no component or in two, or a component is divided by what is no attribute of all of it.
    """
    held = [name for one in components.values() for name in one.operators]
    if sorted(held) != sorted(one.name for one in job.operators):
        raise ValueError(f"components hold {sorted(held)}, the job has {[one.name for one in job.operators]}")
    for name, one in components.items():
        if not set(one.by) <= common(job, one.operators):
            raise ValueError(
                f"{name} is divided by {one.by}, which are no attributes of all of {sorted(one.operators)}"
            )
    bare = Configuration(job, components)
    return replace(bare, spreads={one.name: (bare.entry(one.name),) for one in job.operators})


def repartition(now: Configuration, component: str, nodes: Sequence[int]) -> Configuration:
    """RePartition(C, N, N'): the same key groups on other nodes, fewer or more (section 4.5)."""
    one = now.components[component]
    if len(nodes) != len(one.nodes):
        raise ValueError(f"{component} has {len(one.nodes)} key groups, not {len(nodes)}")
    return configured(now.job, {**now.components, component: replace(one, nodes=tuple(nodes))})


def migrate(now: Configuration, operator: str, target: str, fresh: Component | None = None) -> Configuration:
    """Migrate(O, C, C'): an operator goes to another component, or to a fresh one (section 4.5).

    The target is divided by those of its attributes that the operator has too. PA of what it leaves can only grow, and
    its groups stay as they are.
    """
    source = now.component_of(operator)
    if source == target or (target in now.components) == (fresh is not None):
        raise ValueError(f"{operator} of {source} goes to another component, or to a fresh one with a name of its own")
    components = dict(now.components)
    left = components[source].operators - {operator}
    if left:
        components[source] = replace(components[source], operators=left)
    else:
        del components[source]
    if fresh is not None:
        components[target] = replace(fresh, operators=frozenset([operator]))
        return configured(now.job, components)
    one = components[target]
    by = tuple(name for name in one.by if name in now.job.by_name[operator].attributes)
    if one.by and not by:
        raise ValueError(f"{operator} has none of {one.by}, by which {target} is divided")
    components[target] = Component(one.operators | {operator}, by, one.nodes)
    return configured(now.job, components)


def split(now: Configuration, consolidate: str) -> Configuration:
    """Return what a combined component becomes: its consolidate goes to the component after it (section 5.1)."""
    after = {now.component_of(name) for name in now.job.after(consolidate)} - {now.component_of(consolidate)}
    if len(after) != 1:
        raise ValueError(f"{consolidate} is followed by {sorted(after) or 'no other component'}: one is needed")
    return migrate(now, consolidate, after.pop())


def combine(now: Configuration, consolidate: str) -> Configuration:
    """Return the opposite of a split: the consolidate goes back to its compute (section 5.1)."""
    before = {now.component_of(name) for name in now.job.before(consolidate)} - {now.component_of(consolidate)}
    if len(before) != 1:
        raise ValueError(f"{consolidate} follows {sorted(before) or 'no other component'}: one is needed")
    return migrate(now, consolidate, before.pop())


def smoothly(before: Configuration, after: Configuration, since: int) -> Configuration:
    """Return ``after`` in which windows that begin before ``since`` stay where they were."""
    spreads, reach, lasts = dict(after.spreads), {}, 0
    going = {
        one.name
        for one in after.job.operators
        if not before.spreads[one.name][-1].same(after.entry(one.name))
        or before.component_of(one.name) != after.component_of(one.name)
    }
    for name in going:
        spreads[name] = (before.spreads[name][-1], after.entry(name, since))
        reach[name] = _reached(after, name, going)
        lasts = max(lasts, longest(reach[name]))
    return replace(after, spreads=spreads, reach=reach, settled_at=since + lasts + after.job.held_back)


def _reached(now: Configuration, name: str, going: set[str]) -> tuple[Window, ...]:
    """Return the windows of an operator, and of those that it feeds in its component and that go with it."""
    inside = now.components[now.component_of(name)].operators & going
    found = {*now.job.units(name)}
    for other in now.job.after(name):
        if other in inside:
            found |= {*_reached(now, other, going)}
    return tuple(found)
