"""The ``dtoss`` command. Nothing is loaded before Ctrl-C has a line to end with: imports are most of what it does."""

from __future__ import annotations

import gc
import os
import sys

TYPE_CHECKING = False  # typing takes as long to load as all else here
if TYPE_CHECKING:
    from collections.abc import Sequence

LOADING = 250_000
"""New objects after which a process of ours looks for garbage; a server has Python's own number once it serves.

A question makes 160,000, and none of them is garbage.
"""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command and exit: 0 on success, 2 for bad arguments or input, 1 for a failure inside."""
    if arguments is None:
        # what is loaded stays: a sixth of the time until a server serves went to looks for garbage among it
        gc.set_threshold(LOADING)
        # else the threads of numpy's linear algebra, which has next to nothing to do here, spin while libraries load
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    try:
        from pipelines.command.ends import run_command

        run_command(sys.argv[1:] if arguments is None else list(arguments))
    except KeyboardInterrupt:
        # before the command could see to it
        print("error: interrupted", file=sys.stderr)
        raise SystemExit(1) from None
    finally:
        if arguments is None:
            import signal

            gc.freeze()  # a last look for garbage among all that is loaded takes a tenth of a second
            # all is said: what Python does at its end is not to be answered with a traceback
            signal.signal(signal.SIGINT, signal.SIG_DFL)


def run_script(*commands: str) -> None:
    """Run a command as a script for spark-submit; where a job has several, the first argument says which."""
    words = commands[0].split() if len(commands) == 1 else []
    if not words and (len(sys.argv) < 2 or sys.argv[1] not in commands):
        refuse_script(f"its first argument is {' or '.join(commands)}")
    main([*words, *sys.argv[1:]])


def refuse_script(why: str) -> None:
    """End a script that cannot go on without another word, in a line that names what to run."""
    from pipelines.command.ends import fail

    fail(f"{sys.argv[0]}: {why}", 2)
