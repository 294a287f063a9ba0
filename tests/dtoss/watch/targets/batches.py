"""Batches of events without a watch."""

from __future__ import annotations

import json

from dtoss.watch.events.event_lines import line_parts
from dtoss.watch.events.event_log import EventPart
from dtoss.watch.events.readers import Cursor
from dtoss.watch.targets.target import Batch
from tests.dtoss.watch.events.made import SETTINGS, event, table_of


def batches(count, each=3, first=1):
    """So many batches of a few events of two subscriptions."""
    made = []
    for number in range(first, first + count):
        table = table_of([event(f"s{row % 2}", "enter", row, row) for row in range(each)], number, 1)
        last = table.column("number")[-1].as_py()
        (lines,) = line_parts(iter([EventPart(table, Cursor(number, last))]), lambda: SETTINGS, each + 1)
        made.append(Batch(lines))
    return made


def ids(batch):
    """The ids of the events of a batch."""
    return [json.loads(line)["id"] for piece in batch.lines.pieces for line in piece.splitlines()]
