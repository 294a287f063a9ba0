"""``dtoss put``: rows of files, or of stdin, told to a server."""

from __future__ import annotations

import json
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from dtoss.errors import InputError
from dtoss.option import Option
from dtoss.snapshots.source_columns import Columns
from pipelines.command.query.one_place import token_of
from pipelines.command.terminal.options import Json
from pipelines.options.reading import SaidOf
from pipelines.options.said_amounts import duration

if TYPE_CHECKING:
    import pyarrow as pa

    from dtoss.client.put_rows import Put
    from dtoss.client.remote_index import RemoteIndex
    from pipelines.rows.position_frame import Positions

PATIENCE = 60.0
"""Seconds for which rows are sent again."""
NAMED_BAD = 20
"""Bad rows that are printed; of more the count is said."""


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
    from pipelines.engines.progress import work_shown
    from pipelines.local_joins.first_look import look_at
    from pipelines.rows.read_files import read_positions

    index = dtoss.connect(receiver.to, token_of(receiver.token_file))
    named = Columns(**rows.columns)
    if index.string_ids and named.id_type is None:
        named = replace(named, id_type="text")
    patience = PATIENCE if receiver.patience is None else receiver.patience
    done, reasons = _Done(), Counter[str]()
    with ExitStack() as stack:
        paths = files or ["-"]
        if "-" in paths:
            if len(paths) > 1:
                raise InputError("- is all of stdin: files beside it are another command's")
            paths = [stack.enter_context(_stdin())]
        positions = read_positions(None, look_at(paths, named), named)
        if not positions.timed:
            raise InputError("rows that are told need a time, which says which counts: name its column (--time)")
        stack.enter_context(work_shown("rows are sent"))
        for table, local in _tables(positions, index, rows.columns):
            answer = index.put(table, patience=patience) if len(table) else None
            done.add(answer, local, len(table), reasons)
    if done.read and not done.taken:
        raise InputError(f"none of {done.read:,} rows could be used: {_say(reasons)}")
    if as_json:
        print(json.dumps(done.facts() | {"reasons": dict(reasons)}))
        return
    counts = {"late": done.late, "unchanged": done.unchanged, "bad": done.bad}
    more = ", ".join(f"{count:,} {name}" for name, count in counts.items() if count)
    print(f"{done.taken:,} rows up to {done.seq:,}{f' ({more})' if more else ''}" if done.taken else "no rows")


@dataclass
class _Done:
    """What became of rows so far."""

    read: int = 0
    taken: int = 0
    seq: int = 0
    late: int = 0
    unchanged: int = 0
    bad: int = 0

    def add(self, put: Put | None, bad: list[tuple[int, str]], sent: int, reasons: Counter[str]) -> None:
        """Add what became of rows of a batch; ``bad``: the place in it of those that were not sent, and why."""
        count = sent + len(bad)
        if put is not None:
            self.taken, self.seq = self.taken + put.taken, put.seq or self.seq
            self.late, self.unchanged = self.late + put.late, self.unchanged + put.unchanged
            kept = sorted({*range(count)} - {row for row, _ in bad}) if put.refused else []
            bad = sorted([*bad, *((kept[row], reason) for row, reason in put.refused)])
        for row, reason in bad:
            if sum(reasons.values()) < NAMED_BAD:
                print(f"bad: row {self.read + row + 1}: {reason}", file=sys.stderr)
            reasons[reason] += 1
        if unnamed := 0 if put is None else put.bad - len(put.refused):
            reasons["not told by the server"] += unnamed
        self.bad = sum(reasons.values())
        self.read += count

    def facts(self) -> dict[str, int]:
        """Return the counts."""
        return {name: getattr(self, name) for name in ("read", "taken", "seq", "late", "unchanged", "bad")}


def _say(reasons: Counter[str]) -> str:
    return ", ".join(f"{reason} ({count:,})" for reason, count in reasons.most_common(3))


def _tables(
    positions: Positions, index: RemoteIndex, said: Mapping[str, Any]
) -> Iterator[tuple[pa.Table, list[tuple[int, str]]]]:
    """Yield rows batch by batch as a server takes them, and which rows of the batch cannot be used, and why.

    Columns have the names of the input; those that an option names have the usual ones, which a server takes as well.
    """
    import numpy as np
    import pyarrow as pa

    from dtoss.names import position_names
    from dtoss.partition import numbers as arrow_of
    from dtoss.partition import values_of
    from dtoss.rows.input_columns import DELETED, REASON, attribute_column
    from pipelines.engines.local_rows import LocalRows

    source = positions.source or Columns()
    x, y = position_names(index.space.geographic)
    roles = {
        "id": "id" if "id" in said else source.id or "id", "x": x, "y": y,
        "t": "t" if "time" in said else source.time or "t",
    }  # fmt: skip
    rows = positions.frame.all_rows()
    assert isinstance(rows, LocalRows)
    for batch in (batch for task in rows.tasks for batch in task()):
        bad = values_of(batch.column(REASON).is_valid())
        at = np.flatnonzero(bad)
        reasons = batch.column(REASON).take(arrow_of(at)).to_pylist()
        good = batch.take(arrow_of(np.flatnonzero(~bad))) if len(at) else batch
        found = {name: good.column(column) for column, name in roles.items()}
        if DELETED in good.schema.names:
            found[DELETED] = good.column(DELETED)
        for name in positions.attributes:
            found.setdefault(name, good.column(attribute_column(name)))
        yield pa.table(found), list(zip(at.tolist(), reasons, strict=True))


@contextmanager
def _stdin() -> Iterator[str]:
    """Give the path of a file of what comes on stdin, as long as the ``with`` lasts."""
    with tempfile.TemporaryDirectory(prefix="dtoss-put-") as folder:
        text = sys.stdin.read()
        kind = "jsonl" if text.lstrip("\ufeff \t\r\n")[:1] in ("{", "[") else "csv"
        path = Path(folder) / f"stdin.{kind}"
        path.write_text(text, encoding="utf-8")
        yield str(path)
