"""Figures 9 and 16, and section 7.7: rows a second by what is consolidated and by how many operators are fused."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from bench.windows.enorm.channels import Carry
from bench.windows.enorm.figures import beside
from bench.windows.enorm.figures.drawing import Figure
from bench.windows.enorm.figures.simple import (
    BY_KEY,
    KEY,
    MINUTE,
    SIX,
    TWO,
    apart,
    by_socket,
    combined,
    least,
    placed,
    running,
    uniform,
)
from bench.windows.enorm.jobs import chain
from bench.windows.enorm.operators import COUNT, Compute, Map, Row
from bench.windows.enorm.placing import Configuration
from bench.windows.enorm.spans import every

KEYS = (100, 200, 400, 800, 1_600)
"""Of a pane; the paper's numbers are lost with its figure. With 150,000 rows a key has 50 to 3 of them in a pane."""
MINUTES = 30


def _run(start: Configuration, rows: Sequence[Row], carry: Carry = bytes) -> None:
    running(start, rows, carry=carry).run()


def consolidating(rows: int, times: int, sizes: Sequence[int] = KEYS) -> Figure:
    """Figure 9: throughput by the keys of a pane, for two and six windows, combined and split."""
    ways = {"combined, 2 windows": combined(TWO), "combined, 6 windows": combined(SIX)}
    ways |= {"split, 2 windows": apart(TWO), "split, 6 windows": apart(SIX)}
    minutes = {f"dtoss.windows, {len(some)} windows": [one.length // MINUTE for one in some] for some in (TWO, SIX)}
    lines: dict[str, dict[float, float]] = {name: {} for name in (*ways, *minutes)}
    for keys in sizes:
        held = uniform(rows, keys, MINUTES)
        for some in minutes.values():
            beside.run(some, keys, held[:100])  # kernels are compiled
        works: dict[str, Callable[[], object]] = {name: partial(_run, start, held) for name, start in ways.items()}
        works |= {name: partial(beside.run, some, keys, held) for name, some in minutes.items()}
        for name, spent in least(works, times).items():
            lines[name][keys] = rows / spent
    first, last = sizes[0], sizes[-1]
    lost = {name: 1 - (lines[name][last] / lines[name][first]) ** (1 / 4) for name in ways}
    gain = [
        lines[f"dtoss.windows, {n} windows"][keys] / lines[f"combined, {n} windows"][keys]
        for n in "26"
        for keys in sizes
    ]
    behind = [
        1 - lines[f"split, {n} windows"][keys] / lines[f"combined, {n} windows"][keys] for n in "26" for keys in sizes
    ]
    more = [
        1 - lines[f"{way}, 6 windows"][keys] / lines[f"{way}, 2 windows"][keys]
        for way in ("combined", "split")
        for keys in sizes
    ]
    said = [
        "paper: doubling what is consolidated costs very little, more of it where split; "
        + "here a doubling costs " + ", ".join(f"{share:.1%} ({name})" for name, share in lost.items()),
        f"paper: split is lower throughout; here by {min(behind):.1%} to {max(behind):.1%}",
        f"paper: the number of windows has little impact; here six cost {min(more):.1%} to {max(more):.1%} against two",
    ]  # fmt: skip
    said.append(f"beside: dtoss.windows has {min(gain):.1f} to {max(gain):.1f} times the rows of combined")
    return Figure("9", "consolidation overhead", "keys a pane", "rows a second", lines, said)


def one_or_two_components(rows: int, keys: int, times: int) -> str:
    """Section 7.7: seconds of the simple job as one component and as two; the paper has 456 and 512."""
    held = uniform(rows, keys, MINUTES)
    spent = least({"one": partial(_run, combined(), held), "two": partial(_run, apart(), held)}, times)
    more = spent["two"] / spent["one"] - 1
    return (
        f"Section 7.7: {rows:,} rows, {keys:,} keys: one component {spent['one']:.2f} s, two {spent['two']:.2f} s, "
        f"{more:+.1%}; the paper: 18,000,000 rows, 456 and 512 s, +12.3 %"
    )


def fast(*components: str) -> Configuration:
    """Return the fast job: four computes of 1, 5, 10 and 20 minutes, rows sent along at once."""
    names = "abcd"
    computes = [
        Compute(name, KEY, BY_KEY, COUNT, windows=(every(MINUTE * minutes),))
        for name, minutes in zip(names, (1, 5, 10, 20), strict=True)
    ]
    return placed(chain(*computes, Map("end", KEY, BY_KEY, lambda row: ())), *components[:-1], [*components[-1], "end"])


def fused(rows: int, keys: int, times: int) -> Figure:
    """Figure 16: completion of the fast job with 0, 2, 3 and 4 operators fused."""
    held = uniform(rows, keys, MINUTES)
    ways = {0: fast("a", "b", "c", "d"), 2: fast("ab", "c", "d"), 3: fast("abc", "d"), 4: fast("abcd")}
    lines: dict[str, dict[float, float]] = {}
    with by_socket() as through:
        for name, carry in {"rows as bytes": bytes, "each through a socket": through}.items():
            works: dict[str, Callable[[], object]] = {
                str(count): partial(_run, start, held, carry) for count, start in ways.items()
            }
            lines[name] = {float(count): spent for count, spent in least(works, times).items()}
    gains = [f"{points[0] / points[4]:.2f} times ({name})" for name, points in lines.items()]
    said = [f"paper: more than 3 times the throughput with four fused; here {' and '.join(gains)}"]
    return Figure("16", f"completion of {rows:,} rows", "operators fused", "processor seconds", lines, said)
