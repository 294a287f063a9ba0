"""What windows are asked for, once and for all batches: lengths, slide, keys, measures, and when a row is late.

A window (w, e) holds the rows with ``e - w <= t < e``; e is a multiple of the slide. Pane p holds those with
``p * pane <= t < (p + 1) * pane``. All times are whole microseconds since 1970.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from dtoss.errors import StoreError
from dtoss.geometry.space import Space
from dtoss.windows.durations import duration_of, duration_text
from dtoss.windows.measures import MEASURES, PERCENTILES
from dtoss.witnesses import USUAL_WITNESSES, checked_witnesses, witnesses_of

KEY_KINDS = ("partition", "sites:FILE", "polygons:FILE.geojson", "h3:RES")
MOST_PANES = 100_000
"""Panes of the longest window."""
LAST_TIME = 1 << 60
"""The latest legal time and, negated, the earliest, in microseconds since 1970: a row beyond is no row."""
FURTHEST_MM = 1 << 43
"""The longest move, 8.8 million kilometres: sums and speeds of longer ones may not be whole numbers of 64 bits."""
MM_OF_METRE = 1_000
FINEST_RES = 15
"""Of H3."""
_SUMS = ("rows", "arrivals", "departures", "distance_mm", "moving_us", "here", "objects")
"""Columns that are sums, in the order in which patches have them."""


@dataclass(frozen=True)
class Spec:
    """The windows of one name. :func:`spec_of` makes and checks one."""

    lengths: tuple[int, ...]  # Microseconds, ascending, none twice
    names: tuple[str, ...]  # The same as the user wrote them; columns of results end with them
    slide: int  # Microseconds from one end to the next
    measures: tuple[str, ...]  # Names of some of :data:`MEASURES`, in that order
    by: str  # What the keys are, one of :data:`KEY_KINDS`
    late: int  # Microseconds behind the watermark up to which a row counts
    delay: int  # Microseconds that the watermark stays behind the time that the witnesses have reached
    max_gap: int  # The longest time between two rows of an object that are a move, in microseconds
    expire: int | None  # Microseconds for which an object is where its latest row says; None for ever
    witnesses: str  # How many objects move the watermark: a share such as "1%", or a count such as "3"
    max_ahead: int  # Microseconds that a row may be ahead of the clock
    max_speed: int | None  # The greatest speed of a move, in whole millimetres a second; None where any is one
    space: Space
    keys: str  # The digest of what the keys are made of

    @property
    def pane(self) -> int:
        """Microseconds of a pane: the greatest that divides all lengths and the slide."""
        return math.gcd(*self.lengths, self.slide)

    @property
    def longest(self) -> int:
        """The longest length, in panes."""
        return self.lengths[-1] // self.pane

    @property
    def moves(self) -> bool:
        """Whether any measure needs the moves of objects."""
        return any(MEASURES[name].moves for name in self.measures)

    @property
    def bins(self) -> bool:
        """Whether a percentile of speeds is asked for."""
        return not PERCENTILES.keys().isdisjoint(self.measures)

    @property
    def sums(self) -> tuple[str, ...]:
        """The columns of sums in patches that the measures need, in their order."""
        needed = {column for name in self.measures for column in MEASURES[name].columns}
        found = [name for name in _SUMS if name in needed]
        if found[-1:] == ["objects"]:
            found[-1:] = [f"objects_{i}" for i in range(len(self.lengths))]
        return tuple(found)

    @property
    def notes(self) -> tuple[str, ...]:
        """What is legal and may not be meant, a sentence each."""
        return tuple(
            f"the slide of {duration_text(self.slide)} is longer than the window of {name}: rows between windows are "
            "in none"
            for length, name in zip(self.lengths, self.names, strict=True)
            if length < self.slide
        )

    def witnesses_of(self, objects: int) -> int:
        """Return how many of so many objects have to reach a time for the watermark to follow.

        A share is at least 3 objects; never more than there are.

        Examples
        --------
        >>> spec = spec_of("5min", "1min", "rows", "partition", Space("none", "plane"), "")
        >>> [spec.witnesses_of(n) for n in (0, 2, 100, 526, 100_000)]
        [0, 2, 3, 6, 1000]
        """
        return witnesses_of(self.witnesses, objects)

    def as_json(self) -> dict[str, Any]:
        """Return what the folder of the windows holds of it."""
        said = asdict(self)
        said["lengths"], said["names"], said["measures"] = list(self.lengths), list(self.names), list(self.measures)
        return said

    @classmethod
    def of(cls, said: Any) -> Spec:
        """Return the spec that :meth:`as_json` has made."""
        try:
            space = Space(said["space"]["crs"], said["space"]["metric"], bool(said["space"]["to_lonlat"]))
            whole = {field.name: said[field.name] for field in fields(cls)}
            for name in ("lengths", "names", "measures"):
                whole[name] = tuple(whole[name])
            found = cls(**{**whole, "space": space})
            if not (found.lengths and all(isinstance(length, int) and length > 0 for length in found.lengths)):
                raise ValueError("lengths")
            if not isinstance(found.slide, int) or found.slide <= 0 or set(found.measures) - MEASURES.keys():
                raise ValueError("slide and measures")
        except (KeyError, TypeError, ValueError) as error:
            raise StoreError(f"the spec of the windows is damaged: {error}") from None
        return found

    def difference(self, other: Spec) -> str:
        """Return what differs between this spec and another one, in a line; empty where nothing does."""
        mine, theirs = _told(self), _told(other)
        return "; ".join(
            f"{name} is {mine[name]} and {theirs[name]} is asked for" for name in mine if mine[name] != theirs[name]
        )


def _told(spec: Spec) -> Mapping[str, str]:
    """Return the parts of a spec as texts, by the names of options."""
    speed = "off" if spec.max_speed is None else f"{spec.max_speed / MM_OF_METRE:g}m/s"
    return {
        "--lengths": ",".join(map(duration_text, spec.lengths)),
        "--slide": duration_text(spec.slide),
        "--measures": ",".join(spec.measures),
        "--by": spec.by,
        "--late": duration_text(spec.late),
        "--delay": duration_text(spec.delay),
        "--max-gap": duration_text(spec.max_gap),
        "--expire": "never" if spec.expire is None else duration_text(spec.expire),
        "--witnesses": spec.witnesses,
        "--max-ahead": duration_text(spec.max_ahead),
        "--max-speed": speed,
        "the CRS": f"{spec.space.crs} ({spec.space.metric})",
        "the digest of the keys": spec.keys,
    }


def spec_of(
    lengths: str,
    slide: str,
    measures: str,
    by: str,
    space: Space,
    keys: str,
    *,
    late: str = "10min",
    delay: str = "0s",
    max_gap: str = "10min",
    expire: str | None = None,
    witnesses: str = USUAL_WITNESSES,
    max_ahead: str = "5min",
    max_speed: float | None = None,
) -> Spec:
    """Return the spec of windows as a user writes it.

    ``expire``: A duration; None for ever; ``witnesses``: A share over 0% and up to 100%, or a count from 1 on;
    ``max_speed``: metres a second (units of a CRS in a plane), which is rounded to whole mm/s, half to even; None where
    any speed is a move.

    Examples
    --------
    >>> spec = spec_of("1h,5min", "1min", "speed,rows", "partition", Space("EPSG:4326", "sphere"), "")
    >>> spec.names, spec.pane, spec.measures, spec.sums
    (('5min', '1h'), 60000000, ('rows', 'speed'), ('rows', 'distance_mm', 'moving_us'))
    """
    wanted = _named_lengths(lengths)
    spec = Spec(
        tuple(length for length, _ in wanted),
        tuple(name for _, name in wanted),
        duration_of(slide, "--slide"),
        _measures(measures),
        _by(by),
        duration_of(late, "--late", zero=True),
        duration_of(delay, "--delay", zero=True),
        duration_of(max_gap, "--max-gap"),
        None if expire is None else duration_of(expire, "--expire"),
        checked_witnesses(witnesses),
        duration_of(max_ahead, "--max-ahead", zero=True),
        _max_speed(max_speed),
        space,
        keys,
    )
    if spec.longest > MOST_PANES:
        raise ValueError(
            f"the longest window of {spec.names[-1]} has {spec.longest:,} panes of {duration_text(spec.pane)}, and at "
            f"most {MOST_PANES:,} are legal: a longer --slide, or lengths that are multiples of it, have fewer"
        )
    return spec


def _named_lengths(text: str) -> list[tuple[int, str]]:
    """Return the lengths with their names, ascending."""
    found: dict[int, str] = {}
    for part in text.split(","):
        name = "".join(part.split())
        length = duration_of(part, "--lengths")
        if length in found:
            raise ValueError(f"--lengths has {found[length]} and {name}, which are the same: each is wanted once")
        found[length] = name
    return sorted(found.items())


def _measures(text: str) -> tuple[str, ...]:
    wanted = [part.strip() for part in text.split(",")]
    for name in wanted:
        if name not in MEASURES:
            raise ValueError(f"--measures has {name!r}: there are {', '.join(MEASURES)}")
    return tuple(name for name in MEASURES if name in wanted)


def is_resolution(text: str) -> bool:
    """Return whether a text is a resolution of H3.

    Examples
    --------
    >>> is_resolution("8"), is_resolution("16"), is_resolution("-1")
    (True, False, False)
    """
    return re.fullmatch("[0-9]{1,2}", text) is not None and int(text) <= FINEST_RES


def _by(text: str) -> str:
    """Return what the keys are, checked as far as a text can be."""
    kind, colon, rest = text.partition(":")
    if kind == "partition" and not colon:
        return text
    if kind in ("sites", "polygons") and rest:
        return text
    if kind == "h3" and is_resolution(rest):
        return text
    if kind == "h3":
        raise ValueError(f"--by is {text!r}: a resolution of H3 from 0 to {FINEST_RES} is wanted, as in h3:8")
    raise ValueError(f"--by is {text!r}: there are {', '.join(KEY_KINDS)}")


def _max_speed(metres: float | None) -> int | None:
    if metres is None:
        return None
    mm = metres * MM_OF_METRE
    if not 1.0 <= mm <= FURTHEST_MM:
        raise ValueError(
            f"--max-speed is {metres:g}: metres a second from 0.001 to {FURTHEST_MM // MM_OF_METRE} are wanted"
        )
    return round(mm)
