"""The commands and their options. Spark, plots and servers are imported inside the commands that need them."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from typing import Annotated, Any, get_args

import typer

import dtoss
from dtoss.names import DEFAULT_NAME, near_name
from dtoss.plain_numbers import is_number, is_whole
from pipelines.command import cycles, maintenance, planner, store_commands
from pipelines.command.calibrate_command import calibrate
from pipelines.command.export_command import export
from pipelines.command.fast_commands import QUIETLY, UsageError
from pipelines.command.history.app import history
from pipelines.command.ingest_command import ingest, put
from pipelines.command.maintenance import forget, verify, warm
from pipelines.command.plans.plan_commands import bill, catalogue, route
from pipelines.command.plans.replanning import replan
from pipelines.command.query import knn_and_range
from pipelines.command.query.kind_commands import commands_of_kinds
from pipelines.command.query.sql import sql
from pipelines.command.query.within import within
from pipelines.command.serve import serve
from pipelines.command.terminal.notes import hush
from pipelines.command.terminal.option_objects import GroupedCommands, add_commands
from pipelines.command.watch import watch_command
from pipelines.command.watch.deliver_command import deliver
from pipelines.command.watch.events_command import events
from pipelines.command.watch.rehearse_command import rehearse
from pipelines.command.watch.subscribe import subscribe, subscriptions, unsubscribe
from pipelines.command.windows.app import windows

_ParserError: type[Exception] = typer.BadParameter.__mro__[2]  # what the parser raises for bad arguments
_NUMBERS = frozenset((int, float))
PROGRAM = "dtoss"
"""How it is called in what it says, also where ``python -m dtoss`` has begun it."""
COMPLETE = "_DTOSS_COMPLETE"
"""The variable by which a shell asks how a line may go on."""

app = typer.Typer(
    cls=GroupedCommands,
    help="Who is near? Exact answers over millions of moving objects, from an index rebuilt every cycle.",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)


def _hush(wanted: bool) -> None:
    if wanted:
        hush()


@app.callback(invoke_without_command=True)
def _version(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
    quiet: Annotated[
        bool,
        typer.Option(
            *QUIETLY,
            help="No progress and no notes on stderr; warnings and errors all the same.",
            callback=_hush,
            expose_value=False,
        ),
    ] = False,
) -> None:
    if version:
        print(f"dtoss {dtoss.__version__}")
        raise typer.Exit


COMMANDS: dict[str, dict[str, Callable[..., Any] | typer.Typer]] = {
    "Store": {
        "rebuild": store_commands.rebuild,
        "run": cycles.run,
        "info": store_commands.info,
        "verify": verify,
        "log": maintenance.log,
        "rollback": store_commands.rollback,
        "gc": maintenance.gc,
        "forget": forget,
        "export": export,
        "warm": warm,
    },
    "Ask": {
        "knn": knn_and_range.knn,
        "range": knn_and_range.range_,
        **commands_of_kinds(),
        "within": within,
        "sql": sql,
        "history": history,
    },
    "Serve": {"serve": serve, "put": put, "ingest": ingest, "route": route},
    "Follow": {
        "subscribe": subscribe,
        "unsubscribe": unsubscribe,
        "subscriptions": subscriptions,
        "watch": watch_command.watch,
        "events": events,
        "deliver": deliver,
        "rehearse": rehearse,
        "windows": windows,
    },
    "Plan": {
        "patterns": planner.patterns,
        "calibrate": calibrate,
        "catalogue": catalogue,
        "plan": planner.plan,
        "report": planner.report,
        "replan": replan,
        "bill": bill,
    },
}
"""By what one wants, in the order in which help lists them."""
for _group, _commands in COMMANDS.items():
    for _name, _command in _commands.items():
        if isinstance(_command, typer.Typer):
            app.add_typer(_command, name=_name, rich_help_panel=_group)
        else:
            add_commands(app, {_name: _command}, _group)


@cache
def command_line() -> Any:
    """Return the parser of all commands; each of them knows the options that stand before a command, too."""
    group: Any = typer.main.get_command(app)
    quiet = next(option for option in group.params if option.name == "quiet")
    for command in group.commands.values():
        for one in (command, *getattr(command, "commands", {}).values()):
            for param in one.params:
                _take_digits(param)
            one.params.append(quiet)
    return group


def _take_digits(param: Any) -> None:
    """Let a parameter take no other numbers than those of :mod:`dtoss.plain_numbers`, before its parser sees them."""
    told, process = param.type_descriptor, param.process_value
    kinds = {told.annotation, *get_args(told.annotation)}
    if told.parameter_info.parser is not None or not kinds & _NUMBERS:
        return
    legal, wanted = (is_number, "a number") if float in kinds else (is_whole, "a whole number")

    def process_value(ctx: Any, value: Any) -> Any:
        for text in value if isinstance(value, (list, tuple)) else [value]:
            if isinstance(text, str) and not legal(text):
                raise typer.BadParameter(f"{text!r} is not {wanted}", ctx=ctx, param=param)
        return process(ctx, value)

    param.process_value = process_value


def run(arguments: list[str]) -> int:
    """Run a command and return the exit code of its process."""
    named = arguments[:1] == ["--show-completion"] and len(arguments) == 2
    if named:
        # the parser's own option prints the script of the shell that has begun it, whatever shell is named
        os.environ[COMPLETE] = f"source_{arguments[1]}"
    try:
        arguments = _with_name(arguments)
        code = command_line()(args=arguments, prog_name=PROGRAM, complete_var=COMPLETE, standalone_mode=False)
    except typer.Exit as done:
        return int(done.exit_code)
    except typer.Abort:
        raise KeyboardInterrupt from None
    except _ParserError as error:
        raise UsageError(_said(error)) from None
    except SystemExit as end:
        if COMPLETE in os.environ or not end.code:
            return int(end.code or 0)  # a shell has its answer
        # Typer ends the process itself in one other case only: nobody reads what is written
        raise BrokenPipeError from None
    finally:
        if named:
            del os.environ[COMPLETE]
    return code if isinstance(code, int) else 0


def _with_name(arguments: list[str]) -> list[str]:
    """Return arguments in which ``verify --watch`` says which watch is meant where it names none."""
    if "verify" not in arguments[:2] or "--watch" not in arguments:
        return arguments
    behind = arguments.index("--watch") + 1
    if behind < len(arguments) and not arguments[behind].startswith("-"):
        return arguments
    return [*arguments[:behind], DEFAULT_NAME, *arguments[behind:]]


def _said(error: Any) -> str:
    """Return what the parser has to say, and the option that may be meant by one that is not known."""
    message = error.format_message() if hasattr(error, "format_message") else str(error)
    if hasattr(error, "possibilities") and error.ctx is not None:
        known = [name[2:] for option in error.ctx.command.params for name in option.opts if name.startswith("--")]
        near = near_name(error.option_name.lstrip("-"), known)
        return str(error.message) + ("" if near is None else f"; did you mean --{near}?")
    return str(message).replace(": Value error, ", ": ")
