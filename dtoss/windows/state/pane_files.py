"""The state of panes in files: whole states of parts, and signed patches since, which add up in any order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dtoss.windows.aggregation.pane_cells import Cells, Incoming, incoming_of, replace_cells
from dtoss.windows.aggregation.pane_state import PaneState, as_table, from_table
from dtoss.windows.aggregation.reduce_step import groups_step
from dtoss.windows.spec import Spec
from dtoss.windows.state.state_files_merge import Change, due, staying, with_any
from dtoss.windows.storage.window_document import Part


@dataclass(frozen=True)
class PanePatch:
    """What batches have changed in the panes of a part."""

    incoming: Incoming  # What they have added
    revisions: Cells  # By end and key, as those of a state: the last ones that they have made

    def __len__(self) -> int:
        return sum(map(len, self._cells().values()))

    def with_more(self, more: PanePatch) -> PanePatch:
        """Return it with what later batches have changed."""
        return PanePatch(self.incoming.with_more(more.incoming), replace_cells(self.revisions, more.revisions))

    def to_arrow(self) -> dict[str, pa.Table]:
        """Return tables by name, without empty ones; :meth:`from_arrow` is the way back."""
        return {name: as_table(cells) for name, cells in self._cells().items() if len(cells)}

    @classmethod
    def from_arrow(cls, spec: Spec, tables: Mapping[str, pa.Table]) -> PanePatch:
        """Return the patch that :meth:`to_arrow` has made tables of."""
        cells = cls(incoming_of(spec), Cells.none(1, 1))._cells() | {
            name: from_table(table) for name, table in tables.items()
        }
        return cls(Incoming(*(cells[name] for name in ("sums", "flow", "bins", "maxima"))), cells["revisions"])

    def _cells(self) -> dict[str, Cells]:
        of = self.incoming
        return {"sums": of.sums, "flow": of.flow, "bins": of.bins, "maxima": of.maxima, "revisions": self.revisions}


def patch_state(spec: Spec, state: PaneState, patches: Sequence[PanePatch], watermark: int | None) -> PaneState:
    """Return a state with what later batches have changed, folded to the watermark: that which they left.

    ``patches``: oldest first; ``watermark``: of the last of these batches, in microseconds since 1970.

    The panes between are swept once. Sums are whole numbers, so it does not matter where they are added up.
    """
    base = state.base
    if watermark is None or base is None:
        return state
    if patches:
        whole = patches[0]
        for more in patches[1:]:
            whole = whole.with_more(more)
        state = state.with_patches(whole.incoming)
        state = replace(state, revisions=replace_cells(state.revisions, whole.revisions))
    if not patches and base >= (watermark - spec.late) // spec.pane:
        return state
    return groups_step(spec, state, incoming_of(spec), watermark, watermark).after


def revised_in(tables: Sequence[pa.Table]) -> Cells:
    """Return the revisions of results that are not the first word on their end and key, as those of a state."""
    some = [table.select(["end", "key", "revision"]).filter(pc.greater(table["revision"], 0)) for table in tables]
    if sum(map(len, some)) == 0:
        return Cells.none(1, 1)
    end, key, number = (pa.concat_tables(some)[name].to_numpy() for name in ("end", "key", "revision"))
    order = np.lexsort((key, end))
    return Cells(end[order], key[order, None], number[order, None])


@dataclass(frozen=True)
class PartStep:
    """What a batch has done to the panes of a part."""

    part: int
    held: int | None  # Cells of its base; None where none is written yet
    patches: Sequence[PanePatch]  # What stood beside the base, oldest first
    came: PanePatch | None  # What the batch has changed; None where the state has to be written whole
    after: PaneState


@dataclass(frozen=True)
class PaneFiles:
    """What is written of some parts."""

    bases: Mapping[int, PaneState]  # Parts that are written whole
    patches: Mapping[int, PanePatch]  # What is written of others, those merged that are
    stay: int  # How many patches of before stay, oldest first

    def change(self, of: Sequence[int], bases: Sequence[Part], patch: Part | None) -> Change:
        """Return what changes in the files of state, once these are written."""
        return Change(tuple(sorted(of)), tuple(bases), patch, None if patch is None else self.stay)


def to_write(steps: Sequence[PartStep], before: Sequence[Part]) -> PaneFiles:
    """Return what is written of parts after a batch: patches, and whole states of those that are due."""
    runs = [part for part in with_any(before, [step.part for step in steps]) if part.patch]
    held = np.array([step.held or 0 for step in steps], np.int64)
    more = np.array([0 if step.came is None else len(step.came) for step in steps], np.int64)
    whole = np.array([step.held is None or step.came is None for step in steps], np.bool_)
    patches = more + np.array([sum(map(len, step.patches)) for step in steps], np.int64)
    whole[due(held, patches, int(more.sum()))] = True
    rest = [step for step, anew in zip(steps, whole.tolist(), strict=True) if not anew]
    bases = {step.part: step.after for step, anew in zip(steps, whole.tolist(), strict=True) if anew}
    came = {step.part: step.came for step in rest if step.came is not None}
    rows = sum(map(len, came.values()))
    if rows == 0:
        return PaneFiles(bases, {}, len(runs))
    stay = staying(runs, rows)
    merged = set(map(id, runs[stay:]))
    found = {}
    for step in rest:
        mine = [run for run in runs if step.part in run.of]
        assert len(mine) == len(step.patches)
        patch = came[step.part]
        for run, old in zip(reversed(mine), reversed(step.patches), strict=True):
            if id(run) in merged:
                patch = old.with_more(patch)
        found[step.part] = patch
    return PaneFiles(bases, found, stay)
