"""Whether progress and notes are wanted."""

from __future__ import annotations

import os

QUIET = "DTOSS_QUIET"
"""The variable that forbids progress and notes."""
COMPILING_SAID = "compiling"
"""Its value where only what is told of compiling is to stay away, because somebody else tells it."""


def quiet() -> bool:
    """Return whether progress and notes are unwanted."""
    return os.environ.get(QUIET, "") not in ("", COMPILING_SAID)
