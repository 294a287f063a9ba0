"""The ``dtoss`` command. Spark, plots and servers are imported inside the commands that need them."""

from __future__ import annotations

import os
import re
import sys
import traceback
from collections.abc import Sequence
from typing import Annotated, NoReturn

import typer

import dtoss
from dtoss.errors import DtossError
from pipelines import cli_ceps, cli_queries, cli_store
from pipelines.cli_export import export

_UsageError: type[Exception] = typer.BadParameter.__mro__[2]  # what the parser raises for bad arguments

app = typer.Typer(
    help="Who is near? Exact answers over millions of moving objects, from an index rebuilt every cycle.",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)


@app.callback(invoke_without_command=True)
def _version(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    if version:
        print(f"dtoss {dtoss.__version__}")
        raise typer.Exit


app.command()(cli_store.rebuild)
app.command()(cli_queries.knn)
app.command("range")(cli_queries.range_)
app.command()(cli_queries.within)
app.command()(cli_store.info)
app.command()(cli_store.rollback)
app.command()(export)
app.command()(cli_ceps.patterns)
app.command()(cli_ceps.plan)
app.command()(cli_ceps.report)
app.command()(cli_ceps.calibrate)


def _fail(message: str, code: int) -> NoReturn:
    print(f"error: {' '.join(message.split())}", file=sys.stderr)
    raise SystemExit(code)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command and exit: 0 on success, 2 for bad arguments or input, 1 for a failure inside."""
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    try:
        code = _run(list(arguments) or ["--help"])
        sys.stdout.flush()
        raise SystemExit(code)
    except typer.Exit as done:
        raise SystemExit(done.exit_code) from None
    except (typer.Abort, KeyboardInterrupt):
        _fail("interrupted", 1)
    except _UsageError as error:
        message = error.format_message() if hasattr(error, "format_message") else str(error)
        _fail(message.rstrip(".") + _several_numbers(message), 2)
    except BrokenPipeError:
        # whoever read our output has gone; that is no failure
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(0) from None
    except (DtossError, ValueError) as error:
        _fail(str(error), 2)
    except Exception as error:
        if os.environ.get("DTOSS_DEBUG"):
            traceback.print_exc()
        text = str(error).strip()
        if ours := re.search(r"^\s*dtoss\.errors\.\w+: (.*)", text, re.MULTILINE):
            _fail(ours[1], 2)  # raised in a task of Spark's
        _fail(f"{_first_cause(type(error).__name__, text)} (DTOSS_DEBUG=1 shows where)", 1)


def _several_numbers(message: str) -> str:
    """Return how to write several numbers, where a message of the parser's is about an option that takes them."""
    for option, value in (("--at", "LON LAT"), ("--box", "W S E N"), ("--bounds", "XMIN YMIN XMAX YMAX")):
        if f"'{option}'" in message:
            return f"; write {option} {value}: numbers with blanks between them, no commas"
    return ""


def _run(arguments: list[str]) -> int:
    try:
        code = app(args=arguments, standalone_mode=False)
    except SystemExit:
        # Typer ends the process itself in one case only: nobody reads what is written
        raise BrokenPipeError from None
    return code if isinstance(code, int) else 0


def _first_cause(kind: str, text: str) -> str:
    """Return the line of an error's text that says most: of Spark's, what was raised in a task or in Java."""
    raised = re.findall(r"^(?:[\w.]*\.)?(\w+(?:Error|Exception|Interrupt)): (.+)", text, re.MULTILINE)
    if raised and kind in ("PythonException", "Py4JJavaError", "SparkException"):
        return ": ".join(raised[-1] if kind == "PythonException" else raised[0])
    if java := re.search(r"^: (.+)", text, re.MULTILINE):
        return java[1]
    return f"{kind}: {(text.splitlines() or [''])[0]}"


def run_script(command: str) -> None:
    """Run one command as a script for spark-submit."""
    main([command, *sys.argv[1:]])
