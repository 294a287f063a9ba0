"""``dtoss windows``: the commands of windows."""

from __future__ import annotations

import typer

from pipelines.command.terminal.option_objects import GroupedCommands, add_commands
from pipelines.command.windows import run_windows, show

windows = typer.Typer(
    cls=GroupedCommands,
    help="What happened in each place in the last minutes, hour and day? Exact, over several lengths at once.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
add_commands(windows, {"run": run_windows.run, "show": show.show})
