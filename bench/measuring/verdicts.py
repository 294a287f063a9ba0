"""What a benchmark's goals came to: each beside its figure, and exit code 1 where one is missed."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field

EXACT = 1 + 1e-9


@dataclass(frozen=True)
class Goals:
    """Goals of one run, as they are asked for; `ask` adds one, `end` ends the program.

    Parameters
    ----------
    missed
        The names of those that were missed, each with its figure and what was wanted.
    met
        How many were met.
    """

    missed: list[str] = field(default_factory=list)
    met: list[str] = field(default_factory=list)

    def ask(self, name: str, figure: float, *, most: float | None = None, least: float | None = None) -> str:
        """Text for the figure's line: the goal, and MISSED where `figure` is above `most` or below `least`.

        A goal that no figure can meet is missed: not a number is neither above nor below.
        """
        above = "" if most is None else f"at most {most:g}"
        below = "" if least is None else f"at least {least:g}"
        wanted = " and ".join(part for part in (below, above) if part)
        good = (most is None or figure <= most * EXACT) and (least is None or figure >= least / EXACT)
        if good and wanted:
            self.met.append(name)
            return f"(goal: {wanted})"
        self.missed.append(f"{name}: {figure:.6g}, wanted {wanted or 'a goal'}")
        return f"(goal: {wanted}, MISSED)"

    def end(self) -> None:
        """Say how many goals were met, and exit with 1 and their names where some were missed."""
        print(f"goals met: {len(self.met)} of {len(self.met) + len(self.missed)}")
        for line in self.missed:
            print(f"missed: {line}", file=sys.stderr)
        if self.missed:
            sys.exit(1)
