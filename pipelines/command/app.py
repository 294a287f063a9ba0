"""The commands and their options. Spark, plots and servers are imported inside the commands that need them."""

from __future__ import annotations

from typing import Annotated

import typer

import dtoss
from pipelines.command import care, cycles, planning, store
from pipelines.command.asking import near
from pipelines.command.asking.within import within
from pipelines.command.export import export
from pipelines.command.quick import UsageError
from pipelines.command.serve import serve
from pipelines.command.verify import verify
from pipelines.command.warm import warm

_ParserError: type[Exception] = typer.BadParameter.__mro__[2]  # what the parser raises for bad arguments

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


app.command()(store.rebuild)
app.command()(cycles.run)
app.command()(near.knn)
app.command("range")(near.range_)
app.command()(within)
app.command()(serve)
app.command()(store.info)
app.command()(store.rollback)
app.command()(verify)
app.command()(care.log)
app.command()(care.gc)
app.command()(export)
app.command()(warm)
app.command()(planning.patterns)
app.command()(planning.plan)
app.command()(planning.report)
app.command()(planning.calibrate)


def run(arguments: list[str]) -> int:
    """Run a command and return the exit code of its process.

    Raises
    ------
    UsageError
        If an option is not known, lacks its value, or has one of another kind.
    KeyboardInterrupt
        If the command was interrupted.
    BrokenPipeError
        If whoever read the output has gone.
    """
    try:
        code = app(args=arguments, standalone_mode=False)
    except typer.Exit as done:
        return int(done.exit_code)
    except typer.Abort:
        raise KeyboardInterrupt from None
    except _ParserError as error:
        raise UsageError(error.format_message() if hasattr(error, "format_message") else str(error)) from None
    except SystemExit:
        # Typer ends the process itself in one case only: nobody reads what is written
        raise BrokenPipeError from None
    return code if isinstance(code, int) else 0
