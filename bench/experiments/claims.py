"""Claims of the papers (`bench/claims.toml`) held to tables of results: a value, a rule, a verdict."""

from __future__ import annotations

import math
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np

from bench.experiments.results import PAPERS, Results, markdown

CLAIMS = Path(__file__).parents[1] / "claims.toml"
BACK, BETTER, NOT, UNTESTED, OPEN = "comes back", "better", "does not", "cannot be tested here", "open"
VERDICTS = (BACK, BETTER, NOT, UNTESTED, OPEN)
EDGE = "on the edge"
"""What a verdict is as well, where not all runs would say the same."""
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


def values_of(chosen: Mapping[str, Any] | None, results: Results) -> tuple[float, ...]:
    """Return one number of each run of a table; none where none is chosen."""
    return tuple(value_of(chosen, one) for one in results.each_run) if chosen else ()


def value_of(chosen: Mapping[str, Any], results: Results) -> float:
    """Return one number of a run.

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


@dataclass(frozen=True)
class Judged:
    """What became of a claim.

    Parameters
    ----------
    on_the_edge : whether a run alone would have another verdict.
    written, ours : the value of each run, as written and as we do it.
    """

    verdict: str
    on_the_edge: bool = False
    written: tuple[float, ...] = ()
    ours: tuple[float, ...] = ()


def judge(claim: Claim, tables: Mapping[str, Results]) -> Judged:
    """Return the verdict of the medians, and the values."""
    if not claim.experiment:
        return Judged(OPEN if claim.section else UNTESTED)
    if claim.experiment not in tables:
        return Judged(OPEN)
    written, ours = (values_of(chosen, tables[claim.experiment]) for chosen in (claim.written, claim.ours))
    verdict = _verdict(claim, *(float(np.median(values)) if values else None for values in (written, ours)))
    on_the_edge = any(_verdict(claim, *pair) != verdict for pair in zip_longest(written, ours))
    return Judged(verdict, on_the_edge, written, ours)


def _verdict(claim: Claim, written: float | None, ours: float | None) -> str:
    return BACK if claim.holds(written) else BETTER if claim.holds(ours) else NOT


def rows_of(some: Iterable[Claim], tables: Mapping[str, Results]) -> list[list[str]]:
    """Return rows of the document."""
    rows = []
    for claim in some:
        judged = judge(claim, tables)
        verdict = f"{judged.verdict}, {EDGE}" if judged.on_the_edge else judged.verdict
        if verdict == OPEN and claim.section:
            verdict = f"[open]({claim.section})"
        again = f" --repeat {runs}" if (runs := max(len(judged.written), len(judged.ours))) > 1 else ""
        command = f"`python -m bench.run {claim.experiment}{again}`" if claim.experiment else ""
        shown = [_text(claim.form, values) for values in (judged.written, judged.ours)]
        rows.append([claim.place, claim.claim, claim.number, claim.rule, *shown, verdict, claim.why, command])
    return rows


def _text(form: str, values: Sequence[float]) -> str:
    """Return the median of some runs, and between which they lie if they differ."""
    if not values:
        return ""
    middle = float(np.median(values))
    if not math.isfinite(middle):
        return "no end" if middle > 0 else "neither keeps up"
    number = form[: form.index("}") + 1]
    least, most = number.format(min(values)), number.format(max(values))
    return form.format(middle) + (f", {least} to {most}" if least != most else "")


def tables_by_paper(tables: Mapping[str, Results]) -> str:
    """Return all claims, with a count of verdicts before them."""
    known, counted = claims(), []
    for name, title in PAPERS.items():
        judged = [judge(one, tables) for one in known if one.paper == name]
        counts = Counter(one.verdict for one in judged)
        edge = sum(one.on_the_edge for one in judged)
        counted.append([title, *(counts[one] for one in VERDICTS), edge])
    said = [markdown(["paper", *VERDICTS, EDGE], counted)]
    for name, title in PAPERS.items():
        said.append(f"## {title}\n\n{markdown(HEAD, rows_of((c for c in known if c.paper == name), tables))}")
    return "\n\n".join(said)
