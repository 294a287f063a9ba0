"""``dtoss warm``: compile before anyone waits for it."""

from __future__ import annotations

from dtoss.compiled.kept_places import only_native
from dtoss.compiled.notice import COMPILING_SAID, QUIET, quiet
from pipelines.command.notes import note

KERNELS: tuple[str, ...] = ()
"""Modules of jobs that hold kernels of their own."""


def warm() -> None:
    """Compile everything for this processor now, not when it is first needed; what is compiled is kept."""
    note("compiling for this processor: two minutes where nothing is compiled yet")
    with only_native(**({} if quiet() else {QUIET: COMPILING_SAID})):
        from ceps.warm import warm as warm_planning
        from dtoss.warm import warm as run

        kernels = run(note, also=KERNELS)
        note("and those of planning")
        warm_planning()
    print(f"{kernels} kernels of the index and of jobs are compiled, and those of planning")
