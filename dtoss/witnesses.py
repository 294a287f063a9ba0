"""Witnesses: how many objects have to reach a time before it is the time. One wrong clock moves nothing.

Windows, watches and cycles ask here what time it is by their rows. They give the last time of each object, and get the
time that enough of them have reached.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

USUAL_WITNESSES = "1%"
FEWEST_WITNESSES = 3
"""Of a share; all objects where there are fewer."""
SILENT_SPANS = 2
"""Once half of the objects have gone on for so many spans while the time stood, those that hold it up do so no more."""
_SHARE = re.compile(r"[0-9]{1,18}(\.[0-9]{1,18})?%?")
"""A share or a count, without an exponent: 1e999999999 is a number that takes forever to write down."""


def checked_witnesses(text: str) -> str:
    """Return how many witnesses are wanted as a share over 0% and up to 100%, or a count from 1 on."""
    said = text.strip()
    number = Fraction(said.removesuffix("%")) if _SHARE.fullmatch(said) else Fraction(0)
    if not (0 < number <= 100 if said.endswith("%") else number >= 1 and number.denominator == 1):
        raise ValueError(f"--witnesses is {text!r}: a share such as 1%, or a count from 1 on, is wanted")
    return said if said.endswith("%") else str(int(number))


def witnesses_of(witnesses: str, objects: int) -> int:
    """Return how many of so many objects have to reach a time: a share is at least 3, and never more than there are.

    Examples
    --------
    >>> [witnesses_of("1%", n) for n in (0, 2, 100, 526, 100_000)], witnesses_of("5", 3)
    ([0, 2, 3, 6, 1000], 3)
    """
    if witnesses.endswith("%"):
        share = Fraction(witnesses[:-1]) / 100
        return min(objects, max(FEWEST_WITNESSES, math.ceil(share * objects)))
    return min(objects, int(witnesses))


def enough_of(witnesses: str) -> int:
    """Return how many witnesses are believed for good: 3, or the count that is asked for."""
    return FEWEST_WITNESSES if witnesses.endswith("%") else int(witnesses)


@dataclass(frozen=True)
class Lasts:
    """The last times of objects."""

    times: NDArray[np.int64] | NDArray[np.float64]  # int64 or float64 (n,), rising
    objects: NDArray[np.int64]  # int64 (n,). How many objects have each
    more: int = 0  # How many other objects there are, all of which are earlier than any that may be asked for

    @property
    def count(self) -> int:
        """How many objects there are."""
        return int(self.objects.sum()) + self.more

    def reached(self, wanted: int) -> int | float:
        """Return the latest time that so many objects have reached; at least one is wanted, and there are enough."""
        ahead = np.cumsum(self.objects[::-1])
        found: int | float = self.times[::-1][np.searchsorted(ahead, wanted)].item()
        return found

    def after(self, time: float) -> Lasts:
        """Return those that are later than a time."""
        there = self.times > time
        return Lasts(self.times[there], self.objects[there])

    def and_others(self, other: Lasts) -> Lasts:
        """Return these objects and others."""
        times = np.concatenate([self.times, other.times])
        order = np.argsort(times, kind="stable")
        return Lasts(times[order], np.concatenate([self.objects, other.objects])[order], self.more + other.more)


@dataclass(frozen=True)
class Moment:
    """What time it is by the rows so far, in the unit of their times."""

    now: int | float  # The time; it goes back only where :func:`overrule` says so
    # The latest time that enough objects have reached, which were not all of a few; None for none
    sure: int | float | None
    held: int | float  # The time that the witnesses have reached among all that count, the silent ones too
    waits: int | float  # For how long others have gone on since that has moved last


def move_clock(before: Moment | None, lasts: Lasts, gone_on: float, witnesses: str, span: float) -> Moment | None:
    """Return what time it is after a batch of rows; None where no object was ever heard of.

    ``before``: what time it was; None before the first rows; ``gone_on``: for how long one of them has gone on in the
    batch, the longest: the sum of its steps past ``held`` from time to time, without those of more than ``span``.

    Of two or three objects all are wanted. One that has fallen silent would hold the time up for ever, and would never
    expire: so it holds nothing up once others, half of all at least, have gone on for ``SILENT_SPANS`` spans. A clock
    that jumps has not gone on. Cost O(n).

    Examples
    --------
    >>> def lasts(*times): return Lasts(np.sort(times), np.ones(len(times), np.int64))
    >>> one = move_clock(None, lasts(60, 60, 60, 60, 9000), 0, "1%", 900)
    >>> one.now, move_clock(one, lasts(60, 70, 80, 9000), 20, "1%", 900).now
    (60, 70)
    >>> move_clock(None, lasts(7), 0, "1%", 900).now
    7
    """
    if lasts.count == 0:
        return before
    wanted = witnesses_of(witnesses, lasts.count)
    held = lasts.reached(wanted)
    stands = before is not None and before.held == held
    waits = before.waits + gone_on if before is not None and stands else 0
    now, sure = held, held if wanted >= enough_of(witnesses) else None
    others = lasts.after(held)
    if waits >= SILENT_SPANS * span and 2 * others.count >= lasts.count:
        now = others.reached(witnesses_of(witnesses, others.count))
    if before is not None:
        now = max(now, before.now)
        sure = before.sure if sure is None else sure if before.sure is None else max(sure, before.sure)
    return Moment(now, sure, held, waits)


def overrule(before: Moment | None, lasts: Lasts, behind: Lasts, witnesses: str) -> Moment | None:
    """Return what time it is where too few objects said that it is later; None where that stands.

    A lone object says what time it is. Where its clock was wrong, the rows of all others come too late. Once enough of
    them do so at once, they are right.
    """
    if before is None or behind.count == 0 or (before.sure is not None and before.sure >= before.now):
        return None
    whole = lasts.and_others(behind)
    wanted = witnesses_of(witnesses, whole.count)
    if wanted < enough_of(witnesses) or lasts.count >= wanted:
        return None
    now = whole.reached(wanted)
    now = now if before.sure is None else max(now, before.sure)
    return Moment(now, now, now, 0)
