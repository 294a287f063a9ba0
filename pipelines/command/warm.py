"""``dtoss warm``: compile before anyone waits for it."""

from __future__ import annotations

import sys

from dtoss.compiled.kept_places import only_native

KERNELS: tuple[str, ...] = ()
"""Modules of jobs that hold kernels of their own."""


def warm() -> None:
    """Compile everything for this processor now, not when it is first needed; what is compiled is kept."""
    print("compiling for this processor: two minutes where nothing is compiled yet", file=sys.stderr, flush=True)
    with only_native(DTOSS_QUIET="1"):
        from ceps.warm import warm as warm_planning
        from dtoss.warm import warm as run

        kernels = run(lambda line: print(line, file=sys.stderr, flush=True), also=KERNELS)
        print("and those of planning", file=sys.stderr, flush=True)
        warm_planning()
    print(f"{kernels} kernels of the index and of jobs are compiled, and those of planning")
