"""The list of commands, each with its options: `python docs/commands.py > docs/commands.md`."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import fill
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

HEAD = """# Commands

`dtoss COMMAND --help` says the same in a terminal, from which `python docs/commands.py` makes this page. Results go to
stdout, progress to stderr: what takes over two seconds says what it does, and how far it is where that is known.
`--quiet` leaves out progress and notes, and `DTOSS_PROGRESS_AFTER=10` waits for ten seconds. `dtoss
--install-completion` teaches commands and options to your shell. [The tutorial](tutorial.md) has most of them in their
order.
"""
MORE = {
    "Store": "[inputs.md](inputs.md) says what is read, [cycles.md](cycles.md) which row counts after a cycle, "
    "[erasure.md](erasure.md) what `forget` leaves.",
    "Ask": "[queries.md](queries.md) says what each question means, [zones.md](zones.md) and [sql.md](sql.md) have "
    "examples, [history.md](history.md) those of the past.",
    "Serve": "[serve.md](serve.md) has routes, limits, tokens, and many servers by a plan.",
    "Follow": "[watch.md](watch.md) says what a subscription is and what once means, [deliver.md](deliver.md) where "
    "events may go, [balance.md](balance.md) what "
    "`rehearse` compares, [windows.md](windows.md) what windows count.",
    "Plan": "[renting.md](renting.md) says what to give and reads a plan, [servers.md](servers.md) "
    "what `servers.toml` holds.",
}
"""Where more is said of each group."""


def cell(text: str) -> str:
    """Return a text as a cell of a table has it."""
    return " ".join(text.split()).replace("|", "\\|")


def options(command: Any, context: Any) -> dict[str, list[tuple[str, str]]]:
    """Return the arguments and options of a command by their groups: how each is written, and what it means."""
    found: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
    for param in command.params:
        record = param.get_help_record(context)
        if record is not None and param.name != "quiet":
            group = "Arguments" if param.param_type_name == "argument" else param.rich_help_panel or "Options"
            found.setdefault(group, []).append((cell(record[0]), cell(record[1])))
    return {group: records for group, records in found.items() if records}


def written(name: str, command: Any, context: Any) -> Iterator[str]:
    """Yield the lines of a command."""
    from pipelines.command.terminal.option_objects import first_sentence

    usage = " ".join(command.collect_usage_pieces(context))
    yield f"### dtoss {name}\n\n{first_sentence(command.help)}\n\n`dtoss {name} {usage}`\n"
    groups = options(command, context)
    if groups:
        yield "\n| | option | |\n|---|---|---|\n"
    for group, records in groups.items():
        for number, (option, meaning) in enumerate(records):
            yield f"| {'' if number else group} | `{option}` | {meaning} |\n"
    yield "\n"


def page() -> str:
    """Return the document."""
    import typer

    from pipelines.command.app import COMMANDS, command_line
    from pipelines.command.terminal.option_objects import first_sentence

    program = command_line()
    context = typer.Context(program, info_name="dtoss")
    lines, sections = [HEAD], []
    for group, names in COMMANDS.items():
        lines.append(f"\n{fill(f'**{group}.** {MORE[group]}', 120)}\n\n| command | does |\n|---|---|\n")
        sections.append(f"## {group}\n\n")
        for name in names:
            command = program.commands[name]
            inner = getattr(command, "commands", {None: command})
            for below, one in inner.items():
                whole = name if below is None else f"{name} {below}"
                at = re.sub(r"[^a-z-]", "", f"dtoss {whole}".replace(" ", "-"))
                lines.append(f"| [`dtoss {whole}`](#{at}) | {cell(first_sentence(one.help))} |\n")
                sections += written(whole, one, context)
    return "".join([*lines, "\n", *sections]).rstrip() + "\n"


if __name__ == "__main__":
    print(page(), end="")
