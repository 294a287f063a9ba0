"""How updates are merged with what stands: what the time is, what goes, and when partitions are made anew."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from dtoss.option import Option
from pipelines.options.said_amounts import WITNESSES, duration


@dataclass(frozen=True)
class Merging:
    """What a cycle does with updates, :func:`pipelines.cycle.cycle`; amounts of time are seconds."""

    title: ClassVar[str] = "How updates are merged"
    deleted_for: Annotated[
        float | None,
        Option("For how long a deletion is remembered: 1h, 2d, or ever.", "TIME", parse=duration("ever"), shown="1h"),
    ] = 3600.0
    expire: Annotated[
        float | None,
        Option("Drop objects that were not heard of for so long: 15min, 1h.", "TIME", parse=duration()),
    ] = None
    now: Annotated[Any, Option("What the time is, for replays; the clock's if not given.", written=str)] = None
    clock: Annotated[
        str,
        Option("What tells the time: this machine, or what witnesses say.", written=Literal["wall", "data"]),
    ] = "wall"
    witnesses: Annotated[str | None, WITNESSES] = None
    max_ahead: Annotated[
        float | None,
        Option("Rows so long after now are set aside: 5min, or off.", "TIME", parse=duration(), shown="5min"),
    ] = 300.0
    missing: Annotated[
        str, Option("What a column of the store that updates lack does.", written=Literal["error", "null"])
    ] = "error"
    pivots: Annotated[
        str | None,
        Option(
            "keep them, choose new ones, or choose when they are good no more: auto if not given.",
            written=Literal["keep", "balanced", "auto"],
        ),
    ] = None
    in_place_until: Annotated[float, Option("Share of the objects from which on a cycle builds everything.")] = 1.0

    def __post_init__(self) -> None:
        for name in ("deleted_for", "expire", "max_ahead"):
            seconds = getattr(self, name)
            if seconds is not None and not 0.0 <= seconds < math.inf:
                raise ValueError(f"{name} is {seconds!r}: seconds that are not negative are wanted")
        words = (("clock", ("wall", "data")), ("missing", ("error", "null")), ("pivots", ("keep", "balanced", "auto")))
        for name, legal in words:
            if (word := getattr(self, name)) not in legal and not (name == "pivots" and word is None):
                raise ValueError(f"{name} is {word!r}: {', '.join(legal[:-1])} or {legal[-1]} is wanted")
        if self.witnesses is not None:
            from dtoss.witnesses import checked_witnesses

            checked_witnesses(self.witnesses)
        if not self.in_place_until >= 0.0:
            raise ValueError(f"in_place_until is {self.in_place_until!r}: a share that is not negative is wanted")

    @property
    def by_data(self) -> bool:
        """Whether rows tell the time."""
        return self.now is None and self.clock == "data"

    def check_witnesses(self) -> None:
        """Check that nobody is asked for witnesses whom nothing asks what time it is."""
        if self.witnesses is not None and not self.by_data:
            raise ValueError(
                f"--witnesses {self.witnesses} is for --clock data without --now: else no rows are asked what time it "
                "is"
            )
