"""``dtoss forget``: a person out of all that a store and its histories hold."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pipelines.command.terminal.options import Json

if TYPE_CHECKING:
    from pipelines.forget import Report


def forget(
    store: Annotated[
        str | None, typer.Option("--store", help="Path or URI of the store, with its watches and windows.")
    ] = None,
    history: Annotated[
        list[str] | None,
        typer.Option("--history", help="Path or URI of a history; may stand again.", metavar="H"),
    ] = None,
    id_: Annotated[list[str] | None, typer.Option("--id", help="Of an object; may stand again.", metavar="ID")] = None,
    ids: Annotated[str | None, typer.Option("--ids", help="A file with an id a line.", metavar="FILE")] = None,
    updates: Annotated[
        list[str] | None,
        typer.Option("--updates", help="Files and folders of yours to look through; may stand again.", metavar="PATH"),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would go, and change nothing.")] = False,
    allow_again: Annotated[
        bool, typer.Option("--allow-again", help="Instead: let rows of these ids count again from now on.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Remove objects from snapshots, histories, watches and windows, keep them away, and say what is left."""
    from dtoss.errors import InputError
    from pipelines.forget import allow_again as allow
    from pipelines.forget import forget as forget_objects

    named = [*(id_ or []), *_read_ids(ids)]
    if allow_again:
        if dry_run or updates:
            raise InputError("--allow-again changes who may come, and nothing else: leave --dry-run and --updates out")
        count = allow(store, named, histories=history or [])
        print(json.dumps({"ids": len(set(named)), "allowed": count}) if as_json else f"{count:,} ids may come again")
        return
    report = forget_objects(store, named, histories=history or [], updates=updates or [], dry_run=dry_run)
    if as_json:
        print(json.dumps(asdict(report)))
        return
    _print(report)


def _read_ids(file: str | None) -> list[str]:
    """Return the ids of a file, a line each."""
    from dtoss.errors import InputError

    if file is None:
        return []
    try:
        lines = Path(file).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"--ids {file} cannot be read: {error}") from None
    return [line.strip() for line in lines if line.strip()]


def _print(report: Report) -> None:
    from pipelines.command.terminal.output import print_columns

    ids = "1 id" if report.ids == 1 else f"{report.ids:,} ids"
    if report.dry:
        print(f"{ids} would be forgotten; nothing has changed")
    else:
        print(f"{ids} forgotten, {report.remembered:,} of them anew")
    if report.went:
        head = ("would go from", "what", "how many") if report.dry else ("gone from", "what", "how many")
        print_columns(head, [[one.where, one.what, f"{one.count:,}"] for one in report.went])
    else:
        print("nothing was held of them")
    if report.stays:
        print_columns(("left in", "what", "until"), [[one.where, one.what, one.until] for one in report.stays])
