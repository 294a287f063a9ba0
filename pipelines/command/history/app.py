"""``dtoss history``: the commands of the history of positions."""

from __future__ import annotations

import typer

from pipelines.command.history import adapting, appending, asking, care, reporting, settling

history = typer.Typer(
    help="Where was everything? Every row kept, asked by place and time.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
history.command()(appending.append)
history.command("range")(asking.range_)
history.command()(asking.within)
history.command()(asking.knn)
history.command()(asking.count)
history.command()(asking.trajectory)
history.command()(asking.at)
history.command()(settling.settle)
history.command()(reporting.report)
history.command()(care.info)
history.command()(care.files)
history.command()(care.log)
history.command()(care.verify)
history.command()(care.gc)
history.command()(care.forget)
history.command()(care.export)
history.command()(adapting.adapt)
history.command()(adapting.calibrate)
