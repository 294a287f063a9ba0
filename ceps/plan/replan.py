"""Replanning: what is expected in the coming 24 hours, whether the plan in force is repaired for it, and why."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ceps.model.argument_checks import number, whole
from ceps.model.number_text import how_many
from ceps.model.patterns import DAY, Patterns
from ceps.model.problem import InfeasibleError
from ceps.model.servers import ServerType
from ceps.plan.planning import plan
from ceps.plan.plans import Plan, diff

DAY_SECONDS = 86_400.0
MARGIN = 0.5
"""Of the headroom above the target utilisation: so much of it has to be used up before anything is moved."""


MENDED = 1.2
"""Expected utilisation up to which a plan is repaired; one for more than that is made afresh."""


WORTH = 0.8
"""Of what is above the target utilisation: so much may be left by a change that does not save money, at the most."""


@dataclass(frozen=True)
class Replanning:
    """When a plan is changed."""

    servers: Sequence[ServerType]  # Types that may be rented
    # Target utilisation u in (0, 1]. A plan is repaired when a server is expected to be fuller than u and half of the
    # headroom above it, or, where u is 1, than it can be at all
    utilisation: float = 0.9
    move_share: float = 0.03  # Share of all bytes that may move within 24 hours
    dwell: float = 3600.0  # Seconds between two changes, at the least

    def __post_init__(self) -> None:
        number("utilisation", self.utilisation, "above 0 and at most 1", above=0, most=1)
        number("move_share", self.move_share, "a share from 0 to 1", least=0, most=1)
        number("dwell", self.dwell, "seconds, 0 or more", least=0)

    @property
    def full(self) -> float:
        """Expected utilisation from which on a plan is repaired."""
        return self.utilisation + MARGIN * (1.0 - self.utilisation)


@dataclass(frozen=True)
class Past:
    """What was decided before."""

    # Seconds and bytes moved of each change of the last 24 hours, the oldest first
    changes: tuple[tuple[float, float], ...] = ()
    # Since when a cheaper plan has been found at each look, seconds; None where the last look found none
    saving_since: float | None = None


@dataclass(frozen=True)
class Decision:
    """What is done, and why."""

    made: Plan | None  # The plan from now on; None where the one in force stays
    why: str
    moved: float  # Bytes that move
    before: float  # Dollars a day
    after: float  # Dollars a day
    fullest: float  # The largest expected utilisation of a server by the plan in force
    expected: float  # The same by the plan from now on
    past: Past  # What to say at the next decision


def decide(rules: Replanning, in_force: Plan, expected: Forecast, now: float, past: Past | None = None) -> Decision:
    """Decide whether the plan in force is changed.

    It is repaired where a server is expected to be too full (:attr:`Replanning.full`), with as few bytes as that takes
    and no more than may move; and replaced by a cheaper one where that was possible at each look for a day. Between two
    changes lies the dwell time.

    ``rules``: when plans are changed; ``expected``: the coming 24 hours (:func:`ceps.plan.replan.forecast`);
    ``now``: seconds, of any clock that goes on; ``past``: of the decision before; None for the first.
    """
    past = past or Past()
    recent = tuple(one for one in past.changes if one[0] > now - DAY_SECONDS)
    current = in_force.under(expected.patterns)
    fullest = float(current.utilisation_by_slot.max(initial=0.0))
    whole = float(in_force.bytes.sum())
    left = rules.move_share * whole - sum(size for _, size in recent)
    cost = in_force.cost_per_day

    def stays(why: str, since: float | None = past.saving_since) -> Decision:
        return Decision(None, why, 0.0, cost, cost, fullest, fullest, Past(recent, since))

    try:
        return _decided(rules, in_force, expected, now, recent, past.saving_since, fullest, left, stays)
    except InfeasibleError as error:
        return stays(f"a server is expected to be {100 * fullest:.0f} % full, and there is no plan: {error}")


def _decided(
    rules: Replanning, in_force: Plan, expected: Forecast, now: float, recent: tuple[tuple[float, float], ...],
    saving_since: float | None, fullest: float, left: float, stays: Callable[..., Decision],
) -> Decision:  # fmt: skip
    current, cost = in_force.under(expected.patterns), in_force.cost_per_day
    waits = rules.dwell - (now - recent[-1][0]) if recent else 0.0
    if fullest > rules.full:
        server = int(
            in_force.server_ids[np.unravel_index(current.utilisation_by_slot.argmax(), current.loads.shape)[0]]
        )
        what = f"server {server} is expected to be {100 * fullest:.0f} % full, {100 * rules.full:.0f} % is the limit"
        if waits > 0:
            return stays(f"{what}; the last change was {(now - recent[-1][0]) / 60:.0f} minutes ago, it is waited")
        # a repair tries move by move: where much has to move, a plan made afresh is as good and sooner there
        budget = 0.0 if fullest <= MENDED else None
        made = plan(
            expected.patterns, servers=rules.servers, utilisation=rules.utilisation, previous=in_force,
            move_budget=budget, copies=in_force.copies, prove=0.0,
        )  # fmt: skip
        return _changed(rules, in_force, made, expected.patterns, what, left, now, recent, fullest, stays)
    cheaper = plan(
        expected.patterns, servers=rules.servers, utilisation=rules.utilisation, previous=in_force,
        move_budget=max(left, 0.0), copies=in_force.copies, prove=0.0,
    )  # fmt: skip
    if cheaper.cost_per_day >= cost * (1 - 1e-9):
        return stays(f"no server is expected to be fuller than {100 * fullest:.0f} %, and no plan is cheaper", None)
    since = now if saving_since is None else saving_since
    saving = f"{cost - cheaper.cost_per_day:.2f} dollars a day could be saved"
    if now - since < DAY_SECONDS:
        return stays(f"{saving}, for {(now - since) / 3600:.1f} hours by now: it is waited for a day", since)
    if waits > 0:
        return stays(f"{saving}; the last change was {(now - recent[-1][0]) / 60:.0f} minutes ago", since)
    return _changed(
        rules, in_force, cheaper, expected.patterns, f"{saving}, for a day", left, now, recent, fullest, stays
    )


def _changed(
    rules: Replanning, in_force: Plan, made: Plan, patterns: Patterns, what: str, left: float, now: float,
    recent: tuple[tuple[float, float], ...], fullest: float, stays: Callable[..., Decision],
) -> Decision:  # fmt: skip
    whole = max(float(in_force.bytes.sum()), 1e-300)
    moved = float(diff(made, in_force).bytes_moved)
    if moved > left:
        wanted = moved
        made = within_bytes(made, in_force, max(left, 0.0), patterns, rules.utilisation)
        moved = float(diff(made, in_force).bytes_moved)
        what += f"; of {100 * wanted / whole:.1f} % of the bytes that would move {100 * moved / whole:.1f} % may"
    after = float(made.utilisation_by_slot.max(initial=0.0))
    before = _too_much(in_force.under(patterns), rules.utilisation)
    if made.cost_per_day >= in_force.cost_per_day and _too_much(made, rules.utilisation) > WORTH * before:
        return stays(f"{what}, and no plan within that is much better")
    past = Past((*recent, (now, moved)), None)
    return Decision(made, what, moved, in_force.cost_per_day, made.cost_per_day, fullest, after, past)


def _too_much(made: Plan, utilisation: float) -> float:
    """Return the requests/s above the target utilisation, of all slots."""
    return float(np.maximum(made.loads - utilisation * made.capacity_by_slot, 0.0).sum())


def within_bytes(made: Plan, in_force: Plan, most: float, patterns: Patterns, utilisation: float) -> Plan:
    """Return the plan that is as near to another one as so many moved bytes allow.

    Of the moves from the plan in force, those come first that take most requests a byte off servers with too many, or
    that move most at the fullest moment: whichever leaves less above the target. A server that the new plan gives back
    stays for what it holds. O(P log P).

    ``in_force``: the plan that is; of the same partitions and copies; ``most``: bytes that may move.
    """
    ids = [*made.server_ids.tolist(), *(one for one in in_force.server_ids.tolist() if one not in made.server_ids)]
    place = {number: at for at, number in enumerate(ids)}
    kinds = {kind.name: at for at, kind in enumerate(made.servers)}
    kept = dict(zip(in_force.server_ids.tolist(), in_force.types, strict=True))
    types = [*made.type_of.tolist(), *(kinds[kept[number].name] for number in ids[len(made) :])]
    row = {number: at for at, number in enumerate(in_force.partitions.tolist())}
    old = np.array([[place[one] for one in in_force.server_ids[in_force.replicas[row[number]]].tolist()]
                    for number in made.partitions.tolist()])  # fmt: skip
    coming = np.array([len(set(new) - set(was)) for new, was in zip(made.replicas.tolist(), old.tolist(), strict=True)])
    size = coming * made.sizes
    found = []
    for asked in (_relief(in_force, made, patterns, utilisation), _at_peak(in_force, made, patterns)):
        replicas, left = old.copy(), most
        for at in np.argsort(-asked / np.maximum(size, 1e-300), kind="stable").tolist():
            if coming[at] and asked[at] > 0 and size[at] <= left:
                replicas[at], left = made.replicas[at], left - size[at]
        found.append(_with_replicas(made, replicas, ids, types, patterns))
    return min(found, key=lambda one: _too_much(one, utilisation))


def _with_replicas(
    made: Plan, replicas: NDArray[np.int64], ids: list[int], types: list[int], patterns: Patterns
) -> Plan:
    """Return a plan whose partitions lie elsewhere, on servers with these numbers and types."""
    used = np.unique(replicas)
    used = used[np.argsort(np.array(ids)[used])]
    renamed = np.full(len(ids), -1)
    renamed[used] = np.arange(len(used))
    found = replace(
        made,
        replicas=renamed[replicas],
        server_ids=np.array(ids, np.int64)[used],
        type_of=np.array(types, np.int64)[used],
        spare=0,
        zones=None,
        variation=None,
        risk=None,
        loads=np.zeros((len(used), made.loads.shape[1])),
    )
    cost = 24.0 * sum(kind.dollars_per_hour for kind in found.types)
    return replace(found, cost_per_day=cost, growth=1.0).under(patterns)


def _at_peak(in_force: Plan, made: Plan, patterns: Patterns) -> NDArray[np.float64]:
    """Return what is asked of each partition in the slot in which a server is fullest, float64 (P,), requests/s."""
    slot = int(in_force.under(patterns).utilisation_by_slot.max(axis=0).argmax())
    asked = dict(zip(patterns.partitions.tolist(), patterns.loads[:, slot].tolist(), strict=True))
    return np.array([asked[number] for number in made.partitions.tolist()])


def _relief(in_force: Plan, made: Plan, patterns: Patterns, utilisation: float) -> NDArray[np.float64]:
    """Return what of each partition's requests its server has too many of, float64 (P,), requests/s over all slots."""
    current = in_force.under(patterns)
    excess = np.maximum(current.loads - utilisation * current.capacity_by_slot, 0.0)
    asked = dict(zip(patterns.partitions.tolist(), patterns.loads, strict=True))
    row = {number: at for at, number in enumerate(in_force.partitions.tolist())}
    held = [in_force.replicas[row[number]] for number in made.partitions.tolist()]
    return np.array(
        [
            sum(float(np.minimum(asked[number], excess[server]).sum()) for server in servers)
            for number, servers in zip(made.partitions.tolist(), held, strict=True)
        ]
    )


Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Forecast:
    """What is expected."""

    # The coming 24 hours, each slot at its time of the day: what is left of today at today's level, and tomorrow's
    # first hours as usual
    patterns: Patterns
    level: float  # Today's requests over the usual ones, of all partitions, shrunk towards 1
    levels: Floats  # float64 (P,). Of each partition, shrunk towards the level of all
    slots: int  # How many slots of today were seen


def forecast(usual: Patterns, today: ArrayLike, seen: int, window: int = 0) -> Forecast:
    """Return what is expected of the coming 24 hours.

    The level of all partitions is what was asked today over what usually is; each partition's own is shrunk towards it,
    and it towards 1, the more the fewer requests it rests on: by the variance that counting has (Poisson, each event
    `requests_per_event` requests) beside that by which levels differ as such.

    ``usual``: the usual day, with slots of a day; ``today``: float (P, T), requests/s of each partition in each slot of
    today; those that were not seen yet do not count; ``seen``: slots of today that have ended; 0 expects the usual day.

    O(P T). Where a partition is never asked as usual, today's requests over the window are expected to go on.

    Examples
    --------
    >>> import numpy as np, ceps
    >>> usual = ceps.Patterns(np.full((2, 24), 100.0))
    >>> found = forecast(usual, np.full((2, 24), 200.0), seen=12)
    >>> round(found.level, 2), found.patterns.loads[0, [0, 23]].round().tolist()
    (2.0, [100.0, 200.0])
    """
    if usual.slots * usual.slot_seconds != DAY:
        raise ValueError(
            f"the usual patterns have {how_many(usual.slots, 'slot')}, those of a week; give those of one weekday"
        )
    loads = np.asarray(today, np.float64)
    if loads.shape != usual.loads.shape:
        raise ValueError(f"today has shape {loads.shape} but the usual patterns have {usual.loads.shape}")
    if not (np.isfinite(loads).all() and (loads >= 0).all()):
        raise ValueError("today has requests/s that are negative or not finite")
    seen = whole("seen", seen, 0, usual.slots)
    window = whole("window", window, 0, usual.slots)
    if seen == 0:
        return Forecast(usual, 1.0, np.ones(len(loads)), 0)
    part = slice(max(seen - window, 0) if window else 0, seen)
    events = usual.slot_seconds / number("requests_per_event", usual.requests_per_event, "a number above 0", above=0)
    asked, expected = loads[:, part].sum(axis=1) * events, usual.loads[:, part].sum(axis=1) * events
    level = float(_level(asked.sum(), expected.sum(), 1.0, usual.days))
    levels = _shrunk(asked, expected, level, usual.days)
    coming = usual.loads * levels[:, None]
    never = usual.loads.sum(axis=1) <= 0
    coming[never] = loads[never, part].mean(axis=1)[:, None]
    whole_day = usual.loads.copy()
    whole_day[:, seen:] = coming[:, seen:]
    return Forecast(replace(usual, loads=whole_day), level, levels, seen)


def _level(asked: float, expected: float, towards: float, days: float) -> float:
    """Return the level of all: the ratio, shrunk by its error towards what is usual."""
    if expected <= 0:
        return towards
    ratio = asked / expected
    error = max(asked, 1.0) / expected**2 + ratio**2 / (expected * days)
    spread = (ratio - towards) ** 2
    weight = max(spread - error, 0.0) / spread if spread > 0 else 0.0
    return towards + weight * (ratio - towards)


def _shrunk(asked: Floats, expected: Floats, level: float, days: float) -> Floats:
    """Return the level of each partition: its ratio, shrunk by its error towards the level of all."""
    safe = np.maximum(expected, 1e-300)
    ratio = np.where(expected > 0, asked / safe, level)
    # by the level of all and not by its own count: few requests must not look sure of being few
    error = np.where(expected > 0, level / safe + level**2 / (safe * days), np.inf)
    known = expected > 0
    if not known.any():
        return np.full(len(asked), level)
    weights = expected[known]
    # how much levels differ beyond what counting explains, by moments
    spread = float(np.average((ratio[known] - level) ** 2 - error[known], weights=weights))
    spread = max(spread, 0.0)
    weight = np.where(np.isfinite(error), spread / (spread + np.where(np.isfinite(error), error, 1.0)), 0.0)
    found: Floats = level + np.nan_to_num(weight) * (ratio - level)
    return np.maximum(found, 0.0)
