"""Which change of a configuration may be made in which of the three ways (sections 4.5 and 5)."""

from __future__ import annotations

from bench.windows.enorm.operators import Compute, Consolidate, Map, is_flexible, is_stateful
from bench.windows.enorm.placing import Configuration
from bench.windows.enorm.spans import longest

INSTANT, DIRECT, SMOOTH = "instant", "direct", "smooth"


def kind(now: Configuration, component: str) -> str:
    """Return what a component is, as section 5 names it: flexible or rigid, stateless or stateful."""
    held = [now.job.by_name[name] for name in now.components[component].operators]
    flexible = all(is_flexible(one) for one in held)
    stateful = any(is_stateful(one) for one in held)
    return f"{'flexible' if flexible else 'rigid'} {'stateful' if stateful else 'stateless'}"


def moved(before: Configuration, after: Configuration) -> list[str]:
    """Return the operators of which a key is elsewhere or that are in another component, in the order of the flow."""
    return [
        one.name
        for one in before.job.operators
        if before.component_of(one.name) != after.component_of(one.name)
        or not before.entry(one.name).same(after.entry(one.name))
    ]


def lasting(now: Configuration, after: Configuration, newest: int) -> int:
    """Return the time until which an instant change leaves halves of a pane at two nodes."""
    units = [now.job.units(name) for name in moved(now, after) if isinstance(now.job.by_name[name], Compute)]
    lasts = longest(window for windows in units for window in windows) + now.job.held_back
    return newest + 1 + lasts if units else -(1 << 60)


def check(before: Configuration, after: Configuration, how: str) -> None:
    """Refuse a change that cannot be made in a way.

    Raises
    ------
    ValueError
        With the component, what it is, and the ways that are left.
    """
    for name in moved(before, after):
        if how == INSTANT:
            _check_instant(before, after, name)
        elif how == SMOOTH:
            _check_smooth(before, after, name)


def _check_instant(before: Configuration, after: Configuration, name: str) -> None:
    job = before.job
    one, component = job.by_name[name], before.component_of(name)
    what = f"{name} of {component}, which is {kind(before, component)},"
    if isinstance(one, Compute):
        if one.aggregate.merge is None:
            raise ValueError(f"{what} keeps states without merge: halves of a pane make no whole; direct or smooth")
        for other in job.after(name):
            together = any(one.component_of(name) == one.component_of(other) for one in (before, after))
            if together or not isinstance(job.by_name[other], Consolidate):
                raise ValueError(
                    f"{what} is followed by {other}, which merges no halves from elsewhere; direct or smooth"
                )
    if isinstance(one, Consolidate) and any(
        is_stateful(job.by_name[other]) and after.component_of(other) == after.component_of(name)
        for other in job.before(name)
    ):
        raise ValueError(f"{what} would be combined with what is before it: direct or smooth")


def _check_smooth(before: Configuration, after: Configuration, name: str) -> None:
    job = before.job
    one, component = job.by_name[name], after.component_of(name)
    inside = [other for other in job.after(name) if after.component_of(other) == component]
    outside = [other for other in job.after(name) if other not in inside]
    if isinstance(one, Compute) and inside and outside:
        raise ValueError(f"{name} sends to {inside[0]} beside it and to {outside[0]} elsewhere: instant or direct")
    if isinstance(one, Compute) and any(not isinstance(job.by_name[other], Consolidate) for other in inside):
        raise ValueError(f"{name} sends each row on to {inside[0]} beside it, whose windows are others: direct")
    if isinstance(one, Map) and 0 < sum(after.component_of(o) == component for o in job.before(name)) < len(
        job.before(name)
    ):
        raise ValueError(f"{name} reads what is beside it and what is elsewhere: instant or direct")
    if isinstance(one, Compute) and (made := _made_beside(after, name)):
        raise ValueError(f"{name} counts what {made} beside it makes of windows, of which some are elsewhere: direct")
    for other in set(job.after(name)) & set(moved(before, after)):
        if {c.component_of(name) == c.component_of(other) for c in (before, after)} != {True}:
            raise ValueError(f"{name} and {other} would move at once, and apart: one after the other, or direct")


def _made_beside(now: Configuration, name: str) -> str | None:
    """Return a consolidate of the same component whose results an operator reads, straight or through maps."""
    for other in now.job.before(name):
        if now.component_of(other) == now.component_of(name):
            if isinstance(now.job.by_name[other], Consolidate):
                return other
            if found := _made_beside(now, other):
                return found
    return None


def doubled(now: Configuration, name: str) -> bool:
    """Whether a map gets rows twice while its component moves smoothly: so it speaks outside at one of both nodes."""
    if not isinstance(now.job.by_name[name], Map):
        return False
    before = now.job.before(name)
    component = now.component_of(name)
    return not before or any(now.component_of(one) != component or doubled(now, one) for one in before)
