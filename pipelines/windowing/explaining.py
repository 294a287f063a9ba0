"""What a job of windows does, before it runs: its operators, what splits them, which run together, what is shuffled.

Rows that agree on an attribute of an operator may be kept in one task. `ceps.streams.fusion` gives each operator one of
its attributes as a witness, so that fewest rows go from one component to another; what is left is shuffled.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from dtoss.buckets import BUCKETS
from dtoss.geometry.space import Space
from dtoss.snapshots.store import Store
from dtoss.windows.migration.migration_text import under_way
from dtoss.windows.spec import Spec
from dtoss.windows.storage.group_placement import Placement, placement_of
from dtoss.windows.storage.sets import current_of, sets_of
from dtoss.windows.storage.window_document import Document, Home, head_of
from pipelines.windowing.begin_windows import stands_for
from pipelines.windowing.window_batches import Moving

if TYPE_CHECKING:
    from ceps.streams.fusion import Fusion

READ, PANES, WINDOWS, COMMIT = "read", "panes", "windows", "commit"
FILE, OBJECT, KEY = "file", "object", "key"
ROWS = 1_000.0
"""Rows that are read, of which rates are told."""
CELLS = 0.5
"""Cells of panes that a row changes, where no commit tells; a guess."""


@dataclass(frozen=True)
class Operator:
    """A step of the job."""

    by: tuple[str, ...] | None  # What it may be split by; empty in one place, None by anything
    why: str  # In a few words


@dataclass(frozen=True)
class Explained:
    """The operators of a job, and what is shuffled between them."""

    operators: Mapping[str, Operator]  # By name, in the order of the job
    rates: Mapping[tuple[str, str], float]  # Rows or cells from one to another, of 1,000 rows that are read
    fusion: Fusion


def explain(spec: Spec, cells: float = CELLS) -> Explained:
    """Return the operators of a job, and which run together; exact, without running any.

    Takes some milliseconds: an integer program of about ten operators.
    """
    from ceps.streams.fusion import fuse

    operators = {
        READ: Operator((FILE,), "rows lie as their files do; each is screened alone"),
        "distinct": Operator((OBJECT,), "of rows of one object and time one counts, also of those of before"),
    }
    steps = [READ, "distinct"]
    operators["keys"] = Operator(None, f"each row alone: --by {spec.by.partition(':')[0]}")
    steps.append("keys")
    if spec.moves or "here" in spec.measures:
        operators["moves"] = Operator((OBJECT,), "needs the row before and the row after")
        steps.append("moves")
    if "objects" in spec.measures:
        operators["visits"] = Operator((OBJECT, KEY), "the next visit of an object to a key")
        steps.append("visits")
    operators[PANES] = Operator(None, "sums are signed whole numbers, and add up in any order")
    operators[WINDOWS] = Operator((KEY,), "entering less leaving panes of a key")
    operators["results"] = Operator((KEY,), "changed keys of each end")
    steps += [PANES, WINDOWS, "results"]
    many = spec.witnesses + (" of all objects have" if spec.witnesses.endswith("%") else " objects have")
    by, who = (None, "one object has") if spec.witnesses == "1" else ((OBJECT,), many)
    operators["watermark"] = Operator(by, f"the time that {who} reached")
    operators[COMMIT] = Operator((), "one for each batch")
    rates = dict.fromkeys(pairwise(steps), ROWS)
    rates[PANES, WINDOWS] = rates[WINDOWS, "results"] = cells * ROWS
    rates["distinct", "watermark"] = ROWS
    rates["results", COMMIT] = rates["watermark", COMMIT] = 1.0
    found = fuse({name: one.by for name, one in operators.items()}, rates)
    return Explained(operators, rates, found)


def told_of(
    store: str,
    name: str,
    wanted: Mapping[str, Any] | None,
    space: Space | None,
    moving: Moving,
    replacing: bool = False,
) -> list[str]:
    """Return what a user is told of a job that would run now; nothing is run, and nothing is written."""
    home = Home(Store(store).absolute.path, name)
    stands = stands_for(home, wanted, space, replacing)
    spec = stands.asked
    sets = sets_of(home)
    head = head_of(current_of(home, sets))
    cells = cells_of(head)
    workers = "as many workers as there are cores" if moving.workers is None else f"{moving.workers} workers"
    stood = None if head is None else placement_of(head.commit.document)
    lines = lines_of(explain(spec, CELLS if cells is None else cells), cells, stood, workers)
    if stands.coming is not None:
        lines.append("takes over: it would begin beside the windows that are there, and each batch be counted in both")
    elif (told := under_way(sets)) is not None:
        lines.append(f"under way: {told}")
    return lines


def cells_of(head: Document | None) -> float | None:
    """Return the cells of panes that a row has changed in a commit; None where none says it."""
    rows = 0 if head is None else head.counts.get("rows", 0)
    if head is None or not rows:
        return None
    return sum(part.file.rows for part in head.files["patches"]) / rows


def lines_of(found: Explained, cells: float | None, placement: Placement | None, workers: str) -> list[str]:
    """Return what a user is told of it.

    ``cells``: of panes that a row has changed; None where that is a guess; ``placement``: where groups of objects are;
    None before the first batch.
    """
    wide = max(map(len, found.operators))
    lines = ["operator, what it may be split by, and why:"]
    for name, one in found.operators.items():
        by = "anything" if one.by is None else " or ".join(one.by) or "one place"
        lines.append(f"  {name:{wide}s}  {by:13s}  {one.why}")
    lines.append(f"together, where one split suits all{'' if found.fusion.proven else ' (not proven)'}:")
    order = list(found.operators)
    parts = zip(found.fusion.components, found.fusion.attributes, strict=True)
    for names, shared in sorted(parts, key=lambda part: min(map(order.index, part[0]))):
        witness = next((one for one in (FILE, OBJECT, KEY) if one in shared), "one place")
        lines.append(f"  by {witness}: {', '.join(sorted(names, key=order.index))}")
    lines.append(f"what is sent, of {ROWS:,.0f} rows that are read:")
    for (source, target), rate in found.rates.items():
        if not found.fusion.together(source, target):
            lines.append(f"  {source} -> {target}: {_amount(found, source, rate, cells)}")
    stands = "" if placement is None else f"; {placement.workers} in the last batch"
    lines.append(f"groups of objects: {BUCKETS}, on {workers}{stands}")
    return lines


def _amount(found: Explained, source: str, rate: float, cells: float | None) -> str:
    if source == PANES:
        told = "as in the last batch" if cells is not None else "a guess, before the first batch"
        return f"{rate:,.0f} cells, combined in each task, as files of the second step ({told})"
    if rate < ROWS:
        return "a few words for each task"
    why = ", ".join(name for name, one in found.operators.items() if one.by == (OBJECT,))
    return f"{rate:,.0f} rows, a shuffle: {why} need all rows of an object in one task"
