"""The colours of pages, light and dark, and how well they stand out."""

from __future__ import annotations

from collections.abc import Mapping

LIGHT: Mapping[str, str] = {
    "ground": "#f2f4f7", "paper": "#ffffff", "card": "#f6f8fa", "chosen": "#e8f1fa", "ink": "#18222d",
    "quiet": "#515d6a", "rule": "#d3dae2", "frame": "#7a8694", "accent": "#1c5fa3", "limit": "#b3261e",
    "warn": "#8a4b08", "sea": "#eef2f6",
}  # fmt: skip
"""Colours by role on a light page: grounds, texts, rules and marks."""

DARK: Mapping[str, str] = {
    "ground": "#0d1217", "paper": "#151b22", "card": "#1b232c", "chosen": "#1a2b3d", "ink": "#e8edf2",
    "quiet": "#a9b4c0", "rule": "#323d49", "frame": "#788694", "accent": "#6fb1ee", "limit": "#ff8a80",
    "warn": "#f0b36b", "sea": "#10161c",
}  # fmt: skip
"""The same roles on a dark page."""

GROUNDS = ("ground", "paper", "card", "chosen")
TEXTS = ("ink", "quiet", "accent", "limit", "warn")
"""Roles that text is written in; each is read on each of `GROUNDS`."""

SERIES_LIGHT = (
    "#1f6fb2", "#c25a12", "#2a7d4f", "#8357bd", "#bf3d3a", "#17808f", "#82701a", "#66717c", "#b84a90", "#3f6558",
    "#567d1a", "#8b5330",
)  # fmt: skip
SERIES_DARK = (
    "#62a9e6", "#f0954f", "#5fc08a", "#b394e0", "#ef7f78", "#55c1d2", "#cdb74c", "#a9b4bf", "#e58cc4", "#8fb5a6",
    "#a5cf5c", "#c99068",
)  # fmt: skip
"""Colours of series, such as servers; a thirteenth series has that of the first."""

HEAT_LIGHT = ("#e3ebf3", "#bcd3e8", "#8ab4d9", "#4f8dc2", "#23659f", "#0f3c66", "#c4302b")
HEAT_DARK = ("#22303d", "#2b465e", "#2f6590", "#4189c0", "#6fb0e2", "#bfe0fb", "#ff8a65")
"""Shades of shares, from nothing to full, and one for more than full."""

HEAT_STEPS = (0.2, 0.4, 0.6, 0.8, 0.9, 1.0)
"""Shares at which the next shade begins; the last one begins above 1."""


def series(number: int) -> str:
    """Return the CSS colour of a series by its number, 0 or more."""
    return f"var(--s{number % len(SERIES_LIGHT)})"


def css() -> str:
    """Return the style sheet's variables: `--ink` and so on, `--s0` of series, `--h0` of shades; print is light."""
    light = _variables(LIGHT, SERIES_LIGHT, HEAT_LIGHT)
    dark = _variables(DARK, SERIES_DARK, HEAT_DARK)
    return (
        f":root {{ color-scheme: light dark; {light} }}\n"
        f"@media screen and (prefers-color-scheme: dark) {{ :root {{ {dark} }} }}\n"
    )


def _variables(roles: Mapping[str, str], marks: tuple[str, ...], shades: tuple[str, ...]) -> str:
    named = [
        *roles.items(),
        *((f"s{n}", c) for n, c in enumerate(marks)),
        *((f"h{n}", c) for n, c in enumerate(shades)),
    ]
    return " ".join(f"--{name}: {colour};" for name, colour in named)
