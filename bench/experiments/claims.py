"""Claims of the papers (`bench/claims.toml`) held to tables of results: a value, a rule, a verdict."""

from __future__ import annotations

import math
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np

from bench.experiments.results import PAPERS, Results, markdown

CLAIMS = Path(__file__).parents[1] / "claims.toml"
BACK, BETTER, NOT, UNTESTED, OPEN = "comes back", "better", "does not", "cannot be tested here", "open"
VERDICTS = (BACK, BETTER, NOT, UNTESTED, OPEN)
FOLDS: dict[str, Callable[[list[float]], float]] = {
    "mean": lambda values: float(np.mean(values)),
    "median": lambda values: float(np.median(values)),
    "least": min,
    "most": max,
    "first": lambda values: values[0],
    "last": lambda values: values[-1],
    "growth": lambda values: values[-1] / values[0],
    "range": lambda values: max(values) / min(values),
    "share below 1": lambda values: float(np.mean([value < 1 - 1e-9 for value in values])),
}
"""From y in the order of x to one number."""
HEAD = ("place", "what is claimed", "the paper", "held to", "as written", "as we do it", "verdict", "why", "command")


@dataclass(frozen=True)
class Claim:
    """A headline of a paper, in our own words.

    Parameters
    ----------
    number : the paper's own.
    experiment : which table it is held to; none where nothing here can test it.
    written, ours : which value of the table is the method as written, and what dtoss does: see `value_of`.
    least, most : the rule.
    form : how values are written.
    section : of a document, which speaks of it while there is no table.
    """

    paper: str
    place: str
    claim: str
    number: str
    why: str
    experiment: str = ""
    written: Mapping[str, Any] | None = None
    ours: Mapping[str, Any] | None = None
    least: float = -math.inf
    most: float = math.inf
    form: str = "{:.2f} times"
    section: str = ""

    @property
    def rule(self) -> str:
        """What a value is held to."""
        bounds = {"at least": self.least, "at most": self.most}
        return " and ".join(
            f"{word} {self.form.format(value)}" for word, value in bounds.items() if math.isfinite(value)
        )

    def holds(self, value: float | None) -> bool:
        """Whether a value is within the rule; none, and what is no number, is not."""
        return value is not None and self.least <= value <= self.most


def claims() -> list[Claim]:
    """Return all of them, paper by paper."""
    read = tomllib.loads(CLAIMS.read_text(encoding="utf-8"))
    return [Claim(paper, **row) for paper, rows in read.items() for row in rows]


def value_of(chosen: Mapping[str, Any], results: Results) -> float:
    """Return one number of a table.

    ``of``, ``unit``: a series. ``over``: another one that it is divided by, at the same x; ``x``: patterns of those
    that count. ``saving``: one less that ratio. ``fold``: what is made of all of them. With ``over_x`` both series,
    which may be the same, are folded first.
    """
    fold, unit = FOLDS[chosen.get("fold", "mean")], chosen.get("unit")
    points = _at(results.of(chosen["of"], unit), chosen.get("x", "*"))
    if "over_x" in chosen:
        return fold([*points.values()]) / fold([*_at(results.of(chosen["over"], unit), chosen["over_x"]).values()])
    if "over" in chosen:
        below = results.of(chosen["over"], unit)
        points = {x: _ratio(y, below[x]) for x, y in points.items() if x in below}
    if chosen.get("saving"):
        points = {x: 1 - y for x, y in points.items()}
    return fold([*points.values()])


def _at(points: Mapping[str, float], patterns: str | list[str]) -> dict[str, float]:
    wanted = [patterns] if isinstance(patterns, str) else patterns
    found = {x: y for x, y in points.items() if any(fnmatchcase(x, one) for one in wanted)}
    if not found:
        raise KeyError(f"no x is {patterns!r}: there are {', '.join(points)}")
    return found


def _ratio(y: float, below: float) -> float:
    return y / below if math.isfinite(below) else (math.nan if math.isinf(y) else 0.0)


def judge(claim: Claim, tables: Mapping[str, Results]) -> tuple[str, float | None, float | None]:
    """Return a verdict, and the values as written and as we do it."""
    if not claim.experiment:
        return OPEN if claim.section else UNTESTED, None, None
    if claim.experiment not in tables:
        return OPEN, None, None
    written, ours = (
        value_of(chosen, tables[claim.experiment]) if chosen else None for chosen in (claim.written, claim.ours)
    )
    return BACK if claim.holds(written) else BETTER if claim.holds(ours) else NOT, written, ours


def rows_of(some: Iterable[Claim], tables: Mapping[str, Results]) -> list[list[str]]:
    """Return rows of the document."""
    rows = []
    for claim in some:
        verdict, *values = judge(claim, tables)
        if verdict == OPEN and claim.section:
            verdict = f"[open]({claim.section})"
        command = f"`python -m bench.run {claim.experiment}`" if claim.experiment else ""
        shown = ["" if value is None else _text(claim, value) for value in values]
        rows.append([claim.place, claim.claim, claim.number, claim.rule, *shown, verdict, claim.why, command])
    return rows


def _text(claim: Claim, value: float) -> str:
    return claim.form.format(value) if math.isfinite(value) else "no end" if value > 0 else "neither keeps up"


def tables_by_paper(tables: Mapping[str, Results]) -> str:
    """Return all claims, with a count of verdicts before them."""
    known = claims()
    counts = {name: Counter(judge(one, tables)[0] for one in known if one.paper == name) for name in PAPERS}
    said = [
        markdown(["paper", *VERDICTS], ([PAPERS[name], *(counts[name][one] for one in VERDICTS)] for name in PAPERS))
    ]
    for name, title in PAPERS.items():
        said.append(f"## {title}\n\n{markdown(HEAD, rows_of((c for c in known if c.paper == name), tables))}")
    return "\n\n".join(said)
