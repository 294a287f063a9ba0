"""Notes on stderr: what a command tells beside its answer, and what quiet means.

``--quiet``, before a command or behind it, is ``DTOSS_QUIET=1`` for one run: no progress and no notes. Warnings, what
is said of bad data, and errors are told all the same.
"""

from __future__ import annotations

import os
import sys

from dtoss.compiled.notice import QUIET, quiet


def hush() -> None:
    """Keep quiet from now on, also in the processes that this one starts."""
    os.environ[QUIET] = "1"


def note(line: str) -> None:
    """Print a line on stderr at once, unless notes are unwanted."""
    if not quiet():
        print(line, file=sys.stderr, flush=True)


def warn(line: str) -> None:
    """Print a warning on stderr at once, quiet or not."""
    print(f"warning: {line}", file=sys.stderr, flush=True)
