"""``dtoss warm``: compile before anyone waits for it."""

from __future__ import annotations

import os
import sys


def warm() -> None:
    """Compile everything for this processor now, not when it is first needed; what is compiled is kept."""
    os.environ.update(DTOSS_KERNELS="native", DTOSS_QUIET="1")
    print("compiling for this processor: about a minute where nothing is compiled yet", file=sys.stderr, flush=True)
    from dtoss.warm import warm as run

    kernels = run(lambda line: print(line, file=sys.stderr, flush=True))
    print(f"{kernels} kernels are compiled")
