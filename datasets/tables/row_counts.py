"""What became of the rows of a file: how many were read, kept and dropped, and why."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import reduce
from types import MappingProxyType

__all__ = ["Counts", "add_up"]


@dataclass(frozen=True)
class Counts:
    """Rows read, kept and dropped; ``a + b`` adds two files or two parts of one.

    Examples
    --------
    >>> a = Counts(read=2, kept=1, dropped={"no position": 1})
    >>> (a + a).read, (a + a).dropped["no position"]
    (4, 2)
    """

    read: int = 0  # Rows in the source, header lines left out
    kept: int = 0  # Rows with a legal position, passed on
    dropped: Mapping[str, int] = field(default_factory=dict)  # Rows left out, by reason; together they are read - kept
    # Rows kept although something in them could not be used (a time that is null now), by reason; a row may have
    # several
    flawed: Mapping[str, int] = field(default_factory=dict)
    examples: Mapping[str, str] = field(default_factory=dict)  # For each reason, the first row it happened to
    notes: tuple[str, ...] = ()  # What to check about a whole file

    def __post_init__(self) -> None:
        if self.read != self.kept + sum(self.dropped.values()):
            raise ValueError(f"{self.read} rows read, but {self.kept} kept and {dict(self.dropped)} dropped")
        for name in ("dropped", "flawed", "examples"):
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(
            read=self.read + other.read,
            kept=self.kept + other.kept,
            dropped=_sum(self.dropped, other.dropped),
            flawed=_sum(self.flawed, other.flawed),
            examples={**other.examples, **self.examples},
            notes=tuple(dict.fromkeys(self.notes + other.notes)),
        )

    def report(self) -> str:
        """Return the lines for stderr: totals, then one line for each reason, most frequent first."""
        dropped = sum(self.dropped.values())
        lines = [f"{self.read:,} rows read, {self.kept:,} kept, {dropped:,} dropped"]
        for what, reasons in (("dropped", self.dropped), ("kept with a flaw", self.flawed)):
            for reason, rows in sorted(reasons.items(), key=lambda item: (-item[1], item[0])):
                example = self.examples.get(reason)
                lines.append(f"  {what} {rows:,}: {reason}" + (f" (first: {example})" if example else ""))
        return "\n".join(lines + [f"  note: {note}" for note in self.notes])


def add_up(counts: Iterable[Counts]) -> Counts:
    """Return the sum."""
    return reduce(Counts.__add__, counts, Counts())


def _sum(a: Mapping[str, int], b: Mapping[str, int]) -> dict[str, int]:
    return {reason: a.get(reason, 0) + b.get(reason, 0) for reason in {**a, **b}}
