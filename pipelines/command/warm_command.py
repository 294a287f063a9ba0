"""``dtoss warm``: compile before anyone waits for it."""

from __future__ import annotations

import subprocess
import sys

from dtoss.compiled.kept_places import only_native
from dtoss.compiled.notice import COMPILING_SAID, QUIET, quiet
from dtoss.locks import processors
from pipelines.command.terminal.notes import note

_FROM_THE_END = """
from ceps.warm_planners import warm as warm_planning
from dtoss.warm import kernels, warm
warm_planning()
warm(names=kernels()[::-1])
"""


def warm() -> None:
    """Compile everything for this processor now, not when it is first needed; what is compiled is kept.

    Two processes do it where there are two cores: kernels of the index from their first on, and those of planning,
    then of the index from their last on. Who comes to a kernel that the other compiles takes what that one made.
    """
    note("compiling for this processor: two minutes of it where nothing is compiled yet")
    with only_native(**({} if quiet() else {QUIET: COMPILING_SAID})):
        code = [sys.executable, "-c", _FROM_THE_END]
        other = subprocess.Popen(code) if processors() > 1 else None
        try:
            from dtoss.warm import warm as warm_index

            count = warm_index(note)
            note("and those of planning")
            if other is None or other.wait() != 0:
                from ceps.warm_planners import warm as warm_planning

                warm_planning()
        finally:
            if other is not None and other.poll() is None:
                other.kill()
                other.wait()
    print(f"{count} kernels of the index are compiled, and those of planning")
