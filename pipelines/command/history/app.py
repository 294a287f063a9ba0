"""``dtoss history``: the commands of the history of positions."""

from __future__ import annotations

import typer

from pipelines.command.history import append_files, maintain_history, query_history

history = typer.Typer(
    help="Where was everything? Every row kept, asked by place and time.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
history.command()(append_files.append)
history.command("range")(query_history.range_)
history.command()(query_history.within)
history.command()(query_history.knn)
history.command()(query_history.count)
history.command()(query_history.trajectory)
history.command()(query_history.at)
history.command()(maintain_history.settle)
history.command()(maintain_history.report)
history.command()(maintain_history.info)
history.command()(maintain_history.files)
history.command()(maintain_history.log)
history.command()(maintain_history.verify)
history.command()(maintain_history.gc)
history.command()(maintain_history.forget)
history.command()(maintain_history.export)
history.command()(maintain_history.adapt)
history.command()(maintain_history.calibrate)
