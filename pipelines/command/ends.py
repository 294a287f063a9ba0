"""What ends a command, and how errors look."""

from __future__ import annotations

import os
import sys
import traceback
import warnings
from typing import Any, NoReturn

from dtoss.errors import DtossError, Undelivered, Unreadable
from pipelines.command.terminal.signals import interruptible, was_interrupted


def fail(message: str, code: int) -> NoReturn:
    """Say what is wrong in one line, and end."""
    print(f"error: {' '.join(message.split())}", file=sys.stderr)
    raise SystemExit(code)


def run_command(arguments: list[str]) -> NoReturn:
    """Run the command and exit, as :func:`pipelines.command.main.main` says."""
    with interruptible(), warnings.catch_warnings():
        warnings.filterwarnings("default", category=UserWarning, module="pipelines")
        warnings.showwarning = _warn
        _ending(arguments)


def _warn(message: Warning | str, *_: Any, **__: Any) -> None:
    """Tell of a warning as of an error: what Python shows of one names a line of ours."""
    print(f"warning: {' '.join(str(message).split())}", file=sys.stderr)


def _ending(arguments: list[str]) -> NoReturn:
    try:
        code = _run(arguments)
        sys.stdout.flush()
        raise SystemExit(code)
    except KeyboardInterrupt:
        # loaded now, it might find libraries that the interruption has left half loaded
        if session := sys.modules.get("pipelines.spark.session"):
            session.end_spark()
        fail("interrupted", 1)
    except BrokenPipeError:
        # whoever read our output has gone; that is no failure
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(0) from None
    except (DtossError, ValueError) as error:
        fail(str(error), 1 if isinstance(error, (Undelivered, Unreadable)) else 2)
    except Exception as error:
        if os.environ.get("DTOSS_DEBUG"):
            traceback.print_exc()
        from pipelines.spark.session import cause_of, cause_text

        if ours := cause_of(error):
            fail(ours, 2)  # raised in a task of Spark's
        fail(f"{cause_text(error)} (DTOSS_DEBUG=1 shows where)", 1)


def _run(arguments: list[str]) -> int:
    try:
        from pipelines.command.app import run

        code = run(arguments or ["--help"])
    except Exception:
        # what fails because of an interruption is none of the user's concern
        if was_interrupted():
            raise KeyboardInterrupt from None
        raise
    if was_interrupted():
        raise KeyboardInterrupt  # Typer has made an exit code of it, or an import has gone on
    return code
