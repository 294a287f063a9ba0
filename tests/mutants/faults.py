"""Faults as lines of a file: where, which text, what stands there instead, what that breaks, who should see it."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
LISTS = {"hand": HERE / "by_hand.tsv", "drawn": HERE / "drawn.tsv"}
JUDGED = HERE / "judged.tsv"
VERDICTS = ("caught", "equivalent", "harmless")
"""Of a drawn fault: a test sees it; no input can show it; it changes nothing that anybody is promised."""


class Fault(NamedTuple):
    """A text of a file that is replaced by another one."""

    name: str
    file: str
    text: str
    other: str
    promise: str
    tests: tuple[str, ...]

    def applied(self, source: str) -> str:
        """Return a file's text with the fault in it; raises ValueError if its text does not occur exactly once."""
        if source.count(self.text) != 1:
            raise ValueError(f"{self.name}: {self.text!r} occurs {source.count(self.text)} times in {self.file}")
        return source.replace(self.text, self.other)


def escape(text: str) -> str:
    """Return a text as one field of a line."""
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace("\t", "\\t")


def unescape(field: str) -> str:
    """Return what :func:`escape` was given."""
    return field.replace("\\\\", "\0").replace("\\n", "\n").replace("\\t", "\t").replace("\0", "\\")


class Judgement(NamedTuple):
    """What became of a drawn fault: one of :data:`VERDICTS`, and the test that sees it, or why none has to."""

    name: str
    verdict: str
    why: str


def judgements() -> list[Judgement]:
    """Return what became of the drawn faults, in order."""
    return [Judgement(*line.split("\t")) for line in JUDGED.read_text().splitlines()]


def faults_of(kind: str) -> list[Fault]:
    """Return the faults of a list, in order: those made by hand, or those drawn."""
    seen_by = {one.name: one.why for one in judgements() if one.verdict == "caught"}
    found = []
    for number, line in enumerate(LISTS[kind].read_text().splitlines(), 1):
        file, text, other, promise, *tests = line.split("\t")
        name = f"{kind}-{number}"
        named = tuple(" ".join(tests).split()) or tuple(seen_by.get(name, "").split())
        found.append(Fault(name, file, unescape(text), unescape(other), promise, named))
    return found
