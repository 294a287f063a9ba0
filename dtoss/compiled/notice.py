"""The line on stderr that says that compiling has begun, as early as it can be known."""

from __future__ import annotations

import os
import sys

from dtoss.compiled.kept_places import is_anywhere
from dtoss.compiled.mode import CHECKED

LINE = "dtoss: compiling for this processor, once; up to a minute. `dtoss warm` compiles everything beforehand"
FIRST_KERNELS = {
    "build": "dtoss.cells.cell_kernel.cut_cells",
    "open": "dtoss.snapshots.structure._first_bad",
    "windows": "dtoss.windows.trajectories.fold_horizon.merge",
}
"""A kernel that whatever follows a function needs: building cells, checking what a file holds, counting in windows."""
QUIET = "DTOSS_QUIET"
"""The variable that forbids progress and notes, this line among them."""
COMPILING_SAID = "compiling"
"""Its value where only this line is to stay away, because it was said."""
_SAID: list[bool] = []


def quiet() -> bool:
    """Return whether progress and notes are unwanted."""
    return os.environ.get(QUIET, "") not in ("", COMPILING_SAID)


def say() -> None:
    """Say, once a process, that compiling has begun: it may take half a minute, in silence."""
    if _SAID or os.environ.get(QUIET):
        return
    _SAID.append(True)
    print(LINE, file=sys.stderr, flush=True)


def say_early(function: str) -> bool:
    """Say it before numba is loaded, which takes a second by itself, where no code of what comes first is anywhere.

    Where there is some of another version or processor, it is said when that is found not to fit. Returns whether this
    process has said it by now.
    """
    if not CHECKED and not is_anywhere(FIRST_KERNELS[function]):
        say()
    return bool(_SAID)
