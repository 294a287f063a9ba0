"""Figures 10 to 12: what migrations pause, how long split and combine take, and what they cost in all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from bench.windows.enorm.changing import DIRECT, INSTANT, SMOOTH
from bench.windows.enorm.figures.simple import MINUTE, TWO, Lines, apart, combined, least, running, uniform, until
from bench.windows.enorm.operators import Row
from bench.windows.enorm.placing import Configuration, combine, repartition, split
from bench.windows.enorm.running import Run
from bench.windows.enorm.spans import every, longest

SIZES = (1_000, 5_000, 10_000, 25_000, 50_000, 100_000)
"""Keys of a key group."""
SHARES = (0, 20, 40, 60, 80, 100)
"""Per cent of the key groups that move in Figure 12."""


def paused_ms(run: Run, operator: str) -> float:
    """Return for how long an operator's instances have not processed: state as bytes and back, or none."""
    return sum(one.paused_ns for one in run.instances[operator]) / 1e6


def one_group(keys: int, start: Configuration) -> Run:
    """Return a run in the fifth minute, in which a single key group has that many keys."""
    rows = [((key,), 1, at, at + 1) for at in (10, 4 * MINUTE + 30) for key in range(keys)]
    run = running(start, [*rows, ((0,), 1, 4 * MINUTE + 50, 4 * MINUTE + 51)], nodes=2)
    until(run, 4 * MINUTE + 50)
    return run


def elsewhere(now: Configuration, component: str = "C1", share: int = 100) -> Configuration:
    """Return it with a share of a component's key groups at the next node."""
    nodes = now.components[component].nodes
    moved = len(nodes) * share // 100
    return repartition(now, component, [(node + (at < moved)) % (max(nodes) + 1) for at, node in enumerate(nodes)])


def moved_in(keys: int, how: str, times: int) -> float:
    """Return the least pause of moving one key group of the split job, in ms."""
    found = []
    for _ in range(times):
        run = one_group(keys, apart(groups=1, nodes=1))
        run.change(repartition(run.now, "C1", (1,)), how)
        run.drain()
        found.append(paused_ms(run, "compute"))
    return min(found)


def pauses(times: int, sizes: Sequence[int] = SIZES) -> Lines:
    """Figure 10: the pause of a migration in ms by the size of the key group."""
    return {
        name: {float(keys): moved_in(keys, how, times) for keys in sizes}
        for name, how in (("disruptive", DIRECT), ("instant", INSTANT))
    }


def split_and_combine(times: int, sizes: Sequence[int] = SIZES) -> tuple[Lines, Lines]:
    """Figure 11: the pause in ms and the seconds of split, and of combine in both ways, by the size of the group.

    A split sends the panes of the longest window again, which the paper does not count: nothing waits for it.
    """
    changes: dict[str, tuple[Configuration, Callable[[Configuration], Configuration], str]] = {
        "split, instant": (_two(combined), lambda now: split(now, "consolidate"), INSTANT),
        "combine, disruptive": (_two(apart), lambda now: combine(now, "consolidate"), DIRECT),
        "combine, smooth": (_two(apart), lambda now: combine(now, "consolidate"), SMOOTH),
    }
    pause: Lines = {name: {} for name in changes}
    done: Lines = {name: {} for name in changes}
    for name, (start, change, how) in changes.items():
        for keys in sizes:
            found = []
            for _ in range(times):
                run = one_group(keys, start)
                run.change(change(run.now), how)
                run.drain()
                again = sum(one.resending_ns for one in run.instances["compute"]) / 1e6
                found.append((paused_ms(run, "consolidate"), again))
            pause[name][keys], again = min(found)
            done[name][keys] = longest(TWO) if how == SMOOTH else (pause[name][keys] + again) / 1e3
    return pause, done


def _two(way: Callable[..., Configuration]) -> Configuration:
    """Return the job with one key group, whose second component is at another node than the first."""
    return repartition(way(groups=1, nodes=1), "C2", (1,))


def _with_a_move(rows: list[Row], start: Configuration, how: str, share: int) -> None:
    run = running(start, rows)
    until(run, 20 * MINUTE + 30)
    if share:
        run.change(elsewhere(run.now, share=share), how)
    run.run()


def overhead(rows: int, keys: int, times: int, shares: Sequence[int] = SHARES) -> Lines:
    """Figure 12: by how many per cent the completion grows where a share of the groups moves in the 21st minute."""
    held = uniform(rows, keys, 30)
    start = apart([every(5 * MINUTE)])
    ways = [(how, share) for how in (INSTANT, DIRECT) for share in shares if share]
    works: dict[str, Callable[[], object]] = {"": partial(_with_a_move, held, start, INSTANT, 0)}
    works |= {f"{how} {share}": partial(_with_a_move, held, start, how, share) for how, share in ways}
    spent = least(works, times)
    lines: Lines = {"instant": {0: 0.0}, "disruptive": {0: 0.0}}
    for how, share in ways:
        name = "instant" if how == INSTANT else "disruptive"
        lines[name][share] = 100 * (spent[f"{how} {share}"] / spent[""] - 1)
    return lines
