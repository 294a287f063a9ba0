"""What commands say of tables: their commits, and what was found wrong with them; one form for all."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pipelines.command.terminal.output import print_columns, print_table

if TYPE_CHECKING:
    from dtoss.commits.verify_report import VerifyReport

_COLUMNS = ("table", "number", "time", "what", "writer")


def print_log(commits: Sequence[Mapping[str, Any]], as_json: bool) -> None:
    """Print commits, each with its table, number, time, writer, what it did, and facts of that."""
    if as_json:
        print(json.dumps(commits))
        return
    rows = []
    for one in commits:
        facts = _facts_text({name: value for name, value in one.items() if name not in _COLUMNS})
        said = {**one, "what": f"{one['what']}: {facts}" if facts else one["what"]}
        rows.append([str(said[name]) for name in _COLUMNS])
    print_columns(_COLUMNS, rows)


def _facts_text(facts: Mapping[str, Any]) -> str:
    parts = []
    for name, value in facts.items():
        if isinstance(value, Mapping):
            parts.append(_facts_text(value))
        elif isinstance(value, int | float):
            parts.append(f"{value:,} {name}")
        elif value is not None:
            parts.append(str(value))
    return ", ".join(filter(None, parts))


def print_reports(reports: Mapping[str, VerifyReport], as_json: bool, **more: Any) -> int:
    """Print what was looked at and what is wrong, and return the exit code: 2 of damage, 1 of what could not be read.

    ``reports``: of each table by its name; ``more``: facts that the JSON has besides.
    """
    from dtoss.commits.verify_report import added_reports

    found = added_reports(list(reports.values()))
    if as_json:
        tables = {name: one.as_json() for name, one in reports.items()}
        print(json.dumps(found.as_json() | ({"tables": tables} if len(reports) > 1 else {}) | more))
    else:
        for line in [*found.damaged, *found.unread]:
            print(line, file=sys.stderr)
        nothing = "nothing of what could be read" if found.unread else "nothing"
        rows = _rows(found)
        if len(reports) > 1:
            rows = [(name, ", ".join(f"{many} {what}" for what, many in _rows(one))) for name, one in reports.items()]
        rows.append(("damaged", _count_text(found.damaged) or nothing))
        print_table([*rows, ("could not be read", _count_text(found.unread))] if found.unread else rows)
    return 2 if found.damaged else 1 if found.unread else 0


def _rows(found: VerifyReport) -> list[tuple[str, str]]:
    held = {name: ", ".join(held) if isinstance(held, list) else f"{held:,}" for name, held in found.held.items()}
    return [("commits", f"{found.commits:,}"), ("files", f"{found.files:,} of {found.bytes:,} bytes"), *held.items()]


def _count_text(lines: Sequence[str]) -> str:
    return f"{len(lines):,} things, named on stderr" if lines else ""
