"""What ends a command, and how errors look. The parser is loaded where a quick answer will not do."""

from __future__ import annotations

import os
import sys
import traceback
import warnings
from typing import Any, NoReturn

from dtoss.errors import DtossError, Undelivered, Unreadable
from pipelines.command.fast_commands import UsageError, answer_quickly
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
    except UsageError as error:
        message = str(error)
        fail(message.rstrip(".") + _several_numbers(message) + _unit_alone(message), 2)
    except BrokenPipeError:
        # whoever read our output has gone; that is no failure
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(0) from None
    except (DtossError, ValueError) as error:
        fail(str(error), 1 if isinstance(error, (Undelivered, Unreadable)) else 2)
    except Exception as error:
        if os.environ.get("DTOSS_DEBUG"):
            traceback.print_exc()
        from pipelines.spark.causes import cause_of, cause_text

        if ours := cause_of(error):
            fail(ours, 2)  # raised in a task of Spark's
        fail(f"{cause_text(error)} (DTOSS_DEBUG=1 shows where)", 1)


def _several_numbers(message: str) -> str:
    """Return how to write several numbers, where a message of the parser's is about an option that takes them."""
    for option, value in (("--at", "LON LAT"), ("--box", "W S E N"), ("--bounds", "XMIN YMIN XMAX YMAX")):
        if f"'{option}'" in message:
            return f"; write {option} {value}: numbers with blanks between them, no commas"
    return ""


def _unit_alone(message: str) -> str:
    """Return how to write a length, where a message of the parser's is about a unit that stands by itself."""
    from pipelines.command.terminal.lengths import UNITS

    words = message.rstrip(")").rpartition("extra argument(s) (")[2].split()
    return f"; write 5{words[0]}, without a blank" if len(words) == 1 and words[0].lower() in UNITS else ""


def _run(arguments: list[str]) -> int:
    try:
        if answer_quickly(arguments):
            code = 0
        else:
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
