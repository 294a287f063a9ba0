"""The commands and their options. A command's module is loaded when it is asked for."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pkgutil import resolve_name
from typing import Annotated, Any, get_args, get_origin

import typer

import dtoss
from dtoss.errors import InputError
from dtoss.kinds.all_kinds import ALL_KINDS
from dtoss.kinds.kind import Kind
from dtoss.names import DEFAULT_NAME, near_name
from dtoss.plain_numbers import is_number, is_whole
from pipelines.command.terminal.notes import hush
from pipelines.command.terminal.option_objects import GroupedCommands, add_commands
from pipelines.command.terminal.options import UNITS

_ParserError: type[Exception] = typer.BadParameter.__mro__[2]  # what the parser raises for bad arguments
_PLAIN: dict[Any, tuple[Callable[[str], bool], str]] = {
    str: (lambda _: True, "a text"),
    int: (is_whole, "a whole number"),
    float: (is_number, "a number"),
}
"""What texts and numbers are, and how they are called."""
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
            "--quiet",
            "-q",
            help="No progress and no notes on stderr; warnings and errors all the same.",
            callback=_hush,
            expose_value=False,
        ),
    ] = False,
) -> None:
    if version:
        print(f"dtoss {dtoss.__version__}")
        raise typer.Exit


COMMANDS: dict[str, dict[str, str | Kind[Any]]] = {
    "Store": {
        "rebuild": "store_commands:rebuild",
        "run": "store_commands:run",
        "info": "store_commands:info",
        "verify": "maintenance:verify",
        "log": "maintenance:log",
        "rollback": "store_commands:rollback",
        "gc": "maintenance:gc",
        "forget": "maintenance:forget",
        "export": "export_command:export",
        "warm": "maintenance:warm",
    },
    "Ask": {
        "knn": "query.knn_and_range:knn",
        "range": "query.knn_and_range:range_",
        **{name.replace("_", "-"): kind for name, kind in ALL_KINDS.items() if kind.command is not None},
        "within": "query.knn_and_range:within",
        "sql": "query.sql:sql",
        "history": "history.app:history",
    },
    "Serve": {
        "serve": "serve:serve",
        "put": "ingest_command:put",
        "ingest": "ingest_command:ingest",
        "route": "plans.plan_commands:route",
    },
    "Follow": {
        "subscribe": "watch.subscribe:subscribe",
        "unsubscribe": "watch.subscribe:unsubscribe",
        "subscriptions": "watch.subscribe:subscriptions",
        "watch": "watch.watch_command:watch",
        "events": "watch.events_command:events",
        "deliver": "watch.events_command:deliver",
        "rehearse": "watch.rehearse_command:rehearse",
        "windows": "windows_commands:windows",
    },
    "Plan": {
        "patterns": "planner:patterns",
        "calibrate": "calibrate_command:calibrate",
        "catalogue": "plans.plan_commands:catalogue",
        "plan": "planner:plan",
        "report": "planner:report",
        "replan": "plans.replanning:replan",
        "bill": "plans.plan_commands:bill",
    },
}
"""By what one wants, in the order in which help lists them: where each is, below ``pipelines.command``."""


class _Commands(Mapping[str, Any]):
    """The parsers of commands by their names, each made when it is first asked for; all know some options."""

    def __init__(self, known: list[Any]) -> None:
        self.known = known
        self.made: dict[str, Any] = {}

    def __iter__(self) -> Iterator[str]:
        return (name for commands in COMMANDS.values() for name in commands)

    def __len__(self) -> int:
        return sum(map(len, COMMANDS.values()))

    def __getitem__(self, name: str) -> Any:
        if name not in self.made:
            self.made[name] = _parser_of(name)
            for one in (self.made[name], *getattr(self.made[name], "commands", {}).values()):
                for param in one.params:
                    _take_plain_values(param)
                one.params += self.known
        return self.made[name]


def _parser_of(name: str) -> Any:
    """Return the parser of a command; a KeyError where there is none of the name."""
    title, found = {name: (title, one) for title, group in COMMANDS.items() for name, one in group.items()}[name]
    if isinstance(found, Kind):
        from pipelines.command.query.kind_commands import command_of

        command: Any = command_of(found)
    else:
        command = resolve_name(f"pipelines.command.{found}")
    alone = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False)
    if isinstance(command, typer.Typer):
        alone.add_typer(command, name=name, rich_help_panel=title)
    else:
        add_commands(alone, {name: command}, title)
    alone.callback()(lambda: None)  # or a lone command stands for the whole
    parser: Any = typer.main.get_command(alone)
    return parser.commands[name]


@cache
def command_line() -> Any:
    """Return the parser of all commands; each of them knows the options that stand before a command, too."""
    group: Any = typer.main.get_command(app)
    for param in group.params:
        _take_plain_values(param)
    group.commands = _Commands([option for option in group.params if option.name == "quiet"])
    return group


def _take_plain_values(param: Any) -> None:
    """Let a parameter take no other numbers than those of :mod:`dtoss.plain_numbers`, and read what is plain itself.

    For all else its parser loads pydantic, which takes longer than a question.
    """
    told, process = param.type_descriptor, param.process_value
    hint, more = told.annotation, told.parameter_info
    several = get_args(hint) if get_origin(hint) is tuple else (hint,)
    plain = more.parser is None and param.callback is None and all(kind in _PLAIN for kind in several)
    least, most = (getattr(more, bound, None) for bound in ("min", "max"))

    def process_value(ctx: Any, value: Any) -> Any:
        if value is None and param.default is None and not param.required and get_origin(hint) is not list:
            return param.callback and param.callback(ctx, param, None)
        if told.is_choice and value in get_args(hint):
            return value
        if more.parser is not None and isinstance(value, str):
            try:
                return more.parser(value)
            except ValueError as error:
                raise typer.BadParameter(str(error), ctx=ctx, param=param) from None
        if not plain or value is None:
            return process(ctx, value)
        read = []
        for kind, text in zip(several, value if param.nargs > 1 else [value], strict=True):
            if isinstance(text, str) and not _PLAIN[kind][0](text):
                raise typer.BadParameter(f"{text!r} is not {_PLAIN[kind][1]}", ctx=ctx, param=param)
            read.append(kind(text))
        if (least is not None and read[0] < least) or (most is not None and read[0] > most):
            return process(ctx, value)  # says so
        return tuple(read) if param.nargs > 1 else read[0]

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
        message = _said(error)
        raise InputError(message.rstrip(".") + _several_numbers(message) + _unit_alone(message)) from None
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


def _several_numbers(message: str) -> str:
    """Return how to write several numbers, where a message of the parser's is about an option that takes them."""
    for option, value in (("--at", "LON LAT"), ("--box", "W S E N"), ("--bounds", "XMIN YMIN XMAX YMAX")):
        if f"'{option}'" in message:
            return f"; write {option} {value}: numbers with blanks between them, no commas"
    return ""


def _unit_alone(message: str) -> str:
    """Return how to write a length, where a message of the parser's is about a unit that stands by itself."""
    words = message.rstrip(")").rpartition("extra argument(s) (")[2].split()
    return f"; write 5{words[0]}, without a blank" if len(words) == 1 and words[0].lower() in UNITS else ""
