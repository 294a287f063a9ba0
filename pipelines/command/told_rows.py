"""Rows of files that a server is told: in the columns that it takes, and what has become of them."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from dtoss.errors import InputError
from dtoss.snapshots.manifest_fields import Columns

if TYPE_CHECKING:
    import pyarrow as pa

    from dtoss.client.put_rows import Put
    from dtoss.client.remote_index import RemoteIndex
    from dtoss.log.read_upto import ReadUpto
    from pipelines.rows.position_frame import Positions

NAMED_BAD = 20
"""Bad rows that are printed; of more the count is said."""
LONGEST_REASON, MOST_REASONS = 200, 100
"""Characters of a reason, and reasons that are told apart: strangers write what they are made of."""
_FILE = re.compile(r"\S*dtoss-ingest-\S*")


@dataclass
class Told:
    """What became of rows so far."""

    read: int = 0
    taken: int = 0
    seq: int = 0
    late: int = 0
    unchanged: int = 0
    bad: int = 0
    reasons: Counter[str] = field(default_factory=Counter)

    def add(self, put: Put | None, bad: list[tuple[int, str]], sent: int) -> None:
        """Add what became of rows of a batch; ``bad``: the place in it of those that were not sent, and why."""
        count = sent + len(bad)
        if put is not None:
            self.taken, self.seq = self.taken + put.taken, put.seq or self.seq
            self.late, self.unchanged = self.late + put.late, self.unchanged + put.unchanged
            kept = sorted({*range(count)} - {row for row, _ in bad}) if put.refused else []
            bad = sorted([*bad, *((kept[row], reason) for row, reason in put.refused)])
        for row, reason in bad:
            if sum(self.reasons.values()) < NAMED_BAD:
                print(f"bad: row {self.read + row + 1}: {reason}", file=sys.stderr)
            self.reasons[reason] += 1
        if unnamed := 0 if put is None else put.bad - len(put.refused):
            self.reasons["not told by the server"] += unnamed
        self.bad = sum(self.reasons.values())
        self.read += count

    def refuse(self, reason: str, rows: int) -> None:
        """Add rows that cannot be read as those of a file can."""
        reason = _FILE.sub("a row", reason)[:LONGEST_REASON]
        if reason not in self.reasons and len(self.reasons) >= MOST_REASONS:
            reason = "other reasons"
        self.add(None, [(row, reason) for row in range(rows)], 0)

    def facts(self) -> dict[str, int]:
        """Return the counts."""
        return {name: getattr(self, name) for name in ("read", "taken", "seq", "late", "unchanged", "bad")}

    def __str__(self) -> str:
        """Return what has become of them, for people."""
        counts = {"late": self.late, "unchanged": self.unchanged, "bad": self.bad}
        more = ", ".join(f"{count:,} {name}" for name, count in counts.items() if count)
        return f"{self.taken:,} rows up to {self.seq:,}{f' ({more})' if more else ''}" if self.taken else "no rows"


def most_said(reasons: Counter[str]) -> str:
    """Return the reasons that were said most often."""
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


def tell_files(
    paths: Sequence[str],
    index: RemoteIndex,
    said: Mapping[str, Any],
    patience: float,
    told: Told,
    begun: Callable[[], object] = lambda: None,
    upto: ReadUpto | None = None,
) -> bool:
    """Tell a server the rows of files, and return whether ``upto``, where their source goes on, went with the last.

    ``begun``: is called once files are known to be readable.
    """
    from pipelines.local_joins.first_look import look_at
    from pipelines.rows.read_files import read_positions

    named = Columns(**said)
    if index.string_ids and named.id_type is None:
        named = replace(named, id_type="text")
    positions = read_positions(None, look_at(paths, named), named)
    if not positions.timed:
        raise InputError("rows that are told need a time, which says which counts: name its column (--time)")
    begun()
    tables, went = _tables(positions, index, said), False
    following = next(tables, None)
    while following is not None:
        (table, local), following = following, next(tables, None)
        went = upto is not None and following is None and len(table) > 0
        source, offsets = (upto.source, upto.offsets) if upto is not None and went else ("", None)
        answer = index.put(table, patience=patience, source=source, offsets=offsets) if len(table) else None
        told.add(answer, local, len(table))
    return went
