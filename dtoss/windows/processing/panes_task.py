"""The second step of a batch: patches of all tasks into the panes of some groups, and the results of ends."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dtoss.commits.file_entry import FileEntry, write_entry
from dtoss.errors import InputError
from dtoss.windows.aggregation.columns import Columns
from dtoss.windows.aggregation.pane_cells import Incoming, incoming_of
from dtoss.windows.aggregation.pane_state import PaneState
from dtoss.windows.aggregation.reduce_step import groups_step
from dtoss.windows.durations import time_text
from dtoss.windows.state.pane_files import PanePatch, PartStep, patch_state, revised_in, to_write
from dtoss.windows.state.state_files import of_part, read_pane_layers, read_patches, write_pane_patches, write_panes
from dtoss.windows.state.state_files_merge import Change
from dtoss.windows.storage.window_document import Part
from dtoss.windows.storage.window_folder import RESULTS
from dtoss.windows.storage.window_plan import Plan

MOST_DUE = 5_000_000
"""Ends that become due at once where objects are counted that stay: an end for each minute of nine years."""


@dataclass(frozen=True)
class ReduceResult:
    """What the second step of some parts has done; small, and pickled."""

    panes: Change  # What changes in the files of the state of their panes
    results: Part | None  # Results of ends; None where there are none
    rows: int  # rows, revised: how many results there are, and how many of them are new revisions
    revised: int
    seconds: float


def tell(plan: Plan, watermark: int | None, patches: Sequence[FileEntry], parts: Sequence[int]) -> ReduceResult:
    """Return what came of a batch for some parts of the groups; files count for nothing until a commit names them."""
    begun = time.perf_counter()
    spec = plan.spec
    read = read_patches(plan.home, spec, patches)
    steps = []
    out = _ResultFile(Columns(spec))
    rows = revised = 0
    for part in parts:
        incoming = incoming_of(spec, *(of_part(one, part) for one in read))
        _check_span(plan, watermark, incoming)
        base, patched_by = read_pane_layers(plan.home, spec, plan.panes, part)
        before = PaneState.none(spec) if base is None else patch_state(spec, base, patched_by, plan.watermark)
        told: list[pa.Table] = []

        def into(table: pa.Table, told: list[pa.Table] = told) -> None:
            out.add(table)
            told.append(table)

        step = groups_step(spec, before, incoming, plan.watermark, watermark, into=into)
        came = PanePatch(incoming, revised_in(told)) if base is not None and base.base is not None else None
        steps.append(PartStep(part, None if base is None else base.cells, patched_by, came, step.after))
        rows, revised = rows + step.rows, revised + step.revised
    return ReduceResult(_written(plan, steps), out.close(plan), rows, revised, time.perf_counter() - begun)


def _written(plan: Plan, steps: Sequence[PartStep]) -> Change:
    """Write what has changed in the panes of parts."""
    files = to_write(steps, plan.panes)
    bases = [write_panes(plan.home, {part: state}) for part, state in files.bases.items()]
    patch = write_pane_patches(plan.home, files.patches) if files.patches else None
    return files.change([step.part for step in steps], bases, patch)


def _check_span(plan: Plan, watermark: int | None, incoming: Incoming) -> None:
    """Check that no row of long ago makes objects that stay be counted at each end since then."""
    spec, first = plan.spec, plan.watermark
    if first is None and incoming.first is not None:
        first = incoming.first * spec.pane
    if first is None or watermark is None or "here" not in spec.measures:
        return
    ends = (watermark - first) // spec.slide
    if ends > MOST_DUE:
        raise InputError(
            f"{ends:,} ends of windows would be due at once, from {time_text(first)} to {time_text(watermark)}, and "
            f"objects that stay (here) be counted at each: at most {MOST_DUE:,} are; mend the times of the first rows, "
            "take a longer --slide, or leave here out of --measures"
        )


class _ResultFile:
    """A file of results that is being written, in memory, compressed."""

    def __init__(self, columns: Columns) -> None:
        self._sink = pa.BufferOutputStream()
        self._writer: Any = None
        self._schema = columns.results
        self._rows = 0
        self._ends: list[int] = []

    def add(self, table: pa.Table) -> None:
        """Write some results."""
        if len(table) == 0:
            return
        if self._writer is None:
            self._writer = pq.ParquetWriter(
                self._sink, self._schema, compression="zstd", compression_level=1, write_page_checksum=True
            )
        self._writer.write_table(table)
        self._rows += len(table)
        bounds = pc.min_max(table.column("end"))
        self._ends += [bounds["min"].as_py(), bounds["max"].as_py()]

    def close(self, plan: Plan) -> Part | None:
        """Write the file, and return it with its first and last end."""
        if self._writer is None:
            return None
        self._writer.close()
        listed = write_entry(plan.home.folder, self._sink.getvalue(), self._rows, "parquet", RESULTS)
        return Part(FileEntry.of(listed), (min(self._ends), max(self._ends)))
