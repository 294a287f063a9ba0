"""Amounts as people write them in options, as what reads them: durations, or a word for none, shares, names."""

from __future__ import annotations

from collections.abc import Callable

from dtoss.option import Option
from pipelines.rows.durations_and_shares import seconds_of, share_of

WITNESSES = Option("Objects that have to say what time it is: a share, or a count; 1% if not given.", "SHARE")
"""Of a cycle, and of a watch."""


def duration(never: str | None = "off", option: str | None = None) -> Callable[[str], float | None]:
    """Return what makes seconds of a text; None of the word for never. Errors name the option where it is given."""

    def parse(text: str) -> float | None:
        if text.strip() == never:
            return None
        try:
            return seconds_of(text)
        except ValueError as error:
            raise ValueError(str(error) if option is None else f"{option}: {error}") from None

    return parse


def share(name: str) -> Callable[[str], float]:
    """Return what makes a share from 0 to 1 of a text; errors call it by that name."""
    return lambda text: share_of(text, name)


def names_of(text: str) -> tuple[str, ...]:
    """Return the names in a text that separates them by commas."""
    return tuple(name for part in text.split(",") if (name := part.strip()))
