"""``dtoss history``: the commands of the history of positions."""

from __future__ import annotations

import typer

from pipelines.command.history import append_files, maintain_history, query_history
from pipelines.command.terminal.option_objects import GroupedCommands, add_commands

history = typer.Typer(
    cls=GroupedCommands,
    help="Where was everything? Every row kept, asked by place and time.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
add_commands(
    history,
    {
        "append": append_files.append,
        "range": query_history.range_,
        "within": query_history.within,
        "knn": query_history.knn,
        "count": query_history.count,
        "trajectory": query_history.trajectory,
        "at": query_history.at,
        "settle": maintain_history.settle,
        "report": maintain_history.report,
        "info": maintain_history.info,
        "files": maintain_history.files,
        "log": maintain_history.log,
        "verify": maintain_history.verify,
        "gc": maintain_history.gc,
        "forget": maintain_history.forget,
        "export": maintain_history.export,
        "adapt": maintain_history.adapt,
        "calibrate": maintain_history.calibrate,
    },
)
