"""``dtoss put``: rows of files, or of stdin, told to a server."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar

import typer

from dtoss.errors import InputError
from dtoss.option import Option
from dtoss.snapshots.source_columns import Columns
from pipelines.command.query.one_place import token_of
from pipelines.command.terminal.options import Json
from pipelines.options.reading import SaidOf
from pipelines.options.said_amounts import duration

PATIENCE = 60.0
"""Seconds for which rows are sent again."""


@dataclass(frozen=True)
class Receiver:
    """Where rows go."""

    title: ClassVar[str] = "Where rows go"
    to: Annotated[str, Option("URL of dtoss serve with --allow-positions.", "URL")]
    token_file: Annotated[str | None, Option("Holds the token that --to wants; DTOSS_TOKEN may, too.", "FILE")] = None
    patience: Annotated[
        float | None,
        Option(
            "How long rows are sent again while a server is away or busy; 1min if not given.", "TIME", parse=duration()
        ),
    ] = None


@dataclass(frozen=True)
class Rows:
    """What is read of rows."""

    title: ClassVar[str] = "What is read"
    columns: Annotated[Mapping[str, Any], SaidOf(Columns)] = field(default_factory=dict)


def put(
    receiver: Receiver,
    rows: Rows,
    files: Annotated[
        list[str] | None,
        typer.Argument(help="Files, directories or globs, as of rebuild; stdin, JSON lines or CSV, is -, or none."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Tell a server rows of positions; they are on its disk then, and in its answers a second later."""
    import dtoss
    from pipelines.command.told_rows import Told, most_said, tell_files
    from pipelines.engines.progress import work_shown

    index = dtoss.connect(receiver.to, token_of(receiver.token_file))
    patience = PATIENCE if receiver.patience is None else receiver.patience
    told = Told()
    with ExitStack() as stack:
        paths = files or ["-"]
        if "-" in paths:
            if len(paths) > 1:
                raise InputError("- is all of stdin: files beside it are another command's")
            paths = [stack.enter_context(_stdin())]

        def show() -> None:
            stack.enter_context(work_shown("rows are sent"))

        tell_files(paths, index, rows.columns, patience, told, show)
    if told.read and not told.taken:
        raise InputError(f"none of {told.read:,} rows could be used: {most_said(told.reasons)}")
    print(json.dumps(told.facts() | {"reasons": dict(told.reasons)}) if as_json else str(told))


@contextmanager
def _stdin() -> Iterator[str]:
    """Give the path of a file of what comes on stdin, as long as the ``with`` lasts."""
    with tempfile.TemporaryDirectory(prefix="dtoss-put-") as folder:
        text = sys.stdin.read()
        kind = "jsonl" if text.lstrip("\ufeff \t\r\n")[:1] in ("{", "[") else "csv"
        path = Path(folder) / f"stdin.{kind}"
        path.write_text(text, encoding="utf-8")
        yield str(path)
