"""Figures 9 and 16, and section 7.7: rows a second by what is consolidated and by how many operators are fused."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from bench.windows.enorm.channels import Carry
from bench.windows.enorm.figures import beside
from bench.windows.enorm.figures.simple import (
    BY_KEY,
    KEY,
    MINUTE,
    SIX,
    TWO,
    Lines,
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


def consolidating(rows: int, times: int, sizes: Sequence[int] = KEYS) -> Lines:
    """Figure 9: rows a second by the keys of a pane, for two and six windows, combined and split."""
    ways = {"combined, 2 windows": combined(TWO), "combined, 6 windows": combined(SIX)}
    ways |= {"split, 2 windows": apart(TWO), "split, 6 windows": apart(SIX)}
    minutes = {f"dtoss.windows, {len(some)} windows": [one.length // MINUTE for one in some] for some in (TWO, SIX)}
    lines: Lines = {name: {} for name in (*ways, *minutes)}
    for keys in sizes:
        held = uniform(rows, keys, MINUTES)
        for some in minutes.values():
            beside.run(some, keys, held[:100])  # kernels are compiled
        works: dict[str, Callable[[], object]] = {name: partial(_run, start, held) for name, start in ways.items()}
        works |= {name: partial(beside.run, some, keys, held) for name, some in minutes.items()}
        for name, spent in least(works, times).items():
            lines[name][keys] = rows / spent
    return lines


def one_or_two_components(rows: int, keys: int, times: int) -> dict[str, float]:
    """Section 7.7: seconds of the simple job as one component and as two."""
    held = uniform(rows, keys, MINUTES)
    return least({"one": partial(_run, combined(), held), "two": partial(_run, apart(), held)}, times)


def fast(*components: str) -> Configuration:
    """Return the fast job: four computes of 1, 5, 10 and 20 minutes, rows sent along at once."""
    names = "abcd"
    computes = [
        Compute(name, KEY, BY_KEY, COUNT, windows=(every(MINUTE * minutes),))
        for name, minutes in zip(names, (1, 5, 10, 20), strict=True)
    ]
    return placed(chain(*computes, Map("end", KEY, BY_KEY, lambda row: ())), *components[:-1], [*components[-1], "end"])


def fused(rows: int, keys: int, times: int) -> Lines:
    """Figure 16: seconds of the fast job with 0, 2, 3 and 4 operators fused."""
    held = uniform(rows, keys, MINUTES)
    ways = {0: fast("a", "b", "c", "d"), 2: fast("ab", "c", "d"), 3: fast("abc", "d"), 4: fast("abcd")}
    lines: Lines = {}
    with by_socket() as through:
        for name, carry in {"rows as bytes": bytes, "each through a socket": through}.items():
            works: dict[str, Callable[[], object]] = {
                str(count): partial(_run, start, held, carry) for count, start in ways.items()
            }
            lines[name] = {float(count): spent for count, spent in least(works, times).items()}
    return lines
