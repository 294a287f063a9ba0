"""Files of state: bases and patches since, read through what a commit says of them, merged, written and listed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dtoss.buckets import BUCKETS
from dtoss.commits.file_entry import FileEntry, map_entry, merged_from, write_entry
from dtoss.row_runs import offsets
from dtoss.windows.aggregation.pane_cells import Cells, Incoming, incoming_of, replace_cells
from dtoss.windows.aggregation.pane_state import PaneState, as_table, from_table
from dtoss.windows.aggregation.reduce_step import groups_step
from dtoss.windows.patches import KEY_GROUPS, Patch, Patches
from dtoss.windows.spec import Spec
from dtoss.windows.storage.bundle import bundle_tables, unbundle_tables
from dtoss.windows.storage.window_document import OBJECT_STATES, PANES, PATCHES, Home, Part
from dtoss.windows.trajectories.known_rows import ObjectState, newest

Numbers = NDArray[np.int64]
PATCHED = 4
"""A base is due to be written anew when its patches exceed this part of it: a quarter."""


@dataclass(frozen=True)
class Change:
    """What a task changes in the files of state."""

    of: tuple[int, ...]  # The buckets, or parts of panes, that the task has
    bases: tuple[Part, ...] = ()  # States that it has written whole: they stand for all that was known of theirs
    patch: Part | None = None  # What it has written of the others; None where nothing has changed
    # How many patches of before that have any of its buckets stay, oldest first: the others are in the new one
    stay: int | None = None

    @property
    def anew(self) -> frozenset[int]:
        """The buckets whose state is written whole."""
        return frozenset(one for base in self.bases for one in base.of)


def with_any(parts: Sequence[Part], of: Sequence[int]) -> list[Part]:
    """Return the files that have any of some buckets, in their order."""
    wanted = set(of)
    return [part for part in parts if not wanted.isdisjoint(part.of)]


def listed_after(before: Sequence[Part], changes: Sequence[Change]) -> list[Part]:
    """Return the files of state after a batch: bases, then patches from the oldest on.

    ``changes``: of all tasks that ran; each bucket is of one of them, at most.

    Of a bucket there is one base, and any patches are later. A file is left out where nothing of it counts any more.
    """
    anew = frozenset(one for change in changes for one in change.anew)
    found = [replace(part, of=tuple(one for one in part.of if one not in anew)) for part in before]
    for change in changes:
        if change.patch is None or change.stay is None:
            continue
        mine = [i for i, part in enumerate(before) if part.patch and not set(change.of).isdisjoint(part.of)]
        for i in mine[change.stay :]:
            found[i] = replace(found[i], of=tuple(one for one in found[i].of if one not in change.of))
    made = [base for change in changes for base in change.bases]
    patches = [change.patch for change in changes if change.patch is not None]
    bases = [part for part in found if part.of and not part.patch]
    return bases + made + [part for part in found if part.of and part.patch] + patches


def too_many(came: int, held: int) -> bool:
    """Return whether rows are so many of those held that a patch of them does not pay."""
    return PATCHED * came >= held


def due(bases: Numbers, patches: Numbers, came: int) -> Numbers:
    """Return which bases are written anew in a batch, int64, rising: of those that are due the most patched ones.

    They take turns, so that no batch writes all of them where a few are enough: twice as many, of all, as the batch
    has of them. So none ever has patches of its own size.

    ``bases``, ``patches``: int64 (n,). Rows of each base, and of its patches with those of the batch.

    Examples
    --------
    >>> due(np.array([100, 100, 100, 100]), np.array([26, 30, 25, 28]), 5).tolist()
    [1]
    >>> due(np.array([100, 0]), np.array([25, 1]), 1).tolist()
    [1]
    """
    over = np.flatnonzero(PATCHED * patches > bases)
    most = max(1, -(-2 * len(bases) * came // max(int(bases.sum()), 1)))
    share = patches[over] / np.maximum(bases[over], 1)
    return np.sort(over[np.argsort(-share, kind="stable")[:most]])


def staying(patches: Sequence[Part], came: int) -> int:
    """Return how many patches stay, oldest first, when so many rows come; the others are merged with these."""
    return merged_from([part.file.rows for part in patches], came)


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


PARTS = 4
"""Parts of the panes, each of the groups whose number is its own modulo this."""
_RESTORE = "restore it from a copy"
ID_KINDS = {"int64": pa.int64(), "string": pa.string()}


def _tables(home: Home, room: str, file: FileEntry) -> dict[str, pa.Table]:
    return unbundle_tables(map_entry(home.folder, room, file.name, _RESTORE), home.folder.path(room, file.name))


# -- objects ----------------------------------------------------------------------------------------------------------


def read_objects(
    home: Home, parts: Sequence[Part], buckets: NDArray[np.int64], id_type: str, single: bool | None
) -> ObjectState:
    """Return the state of the objects of some buckets.

    ``buckets``: int64. Those; ``single``: whether no row has several keys; None where a file is there that says it.
    """
    found = [] if single is None and parts else [ObjectState.none(ID_KINDS[id_type], single is not False)]
    for part in parts:
        mine = np.intersect1d(buckets, part.of)
        if len(mine):
            state = ObjectState.from_arrow(objects_tables(home, part))
            found.append(state if np.isin(state.bucket, mine).all() else state.of_buckets(mine))
    return newest(found)


def object_states(home: Home, parts: Sequence[Part], id_type: str) -> Iterator[ObjectState]:
    """Yield the state of all objects, piece by piece; each object is in one of them."""
    patches = [part for part in parts if part.patch]
    left = np.arange(BUCKETS)
    for base in parts:
        if not base.patch:
            left = np.setdiff1d(left, base.of)
            yield read_objects(home, [base, *patches], np.array(base.of), id_type, None)
    if any(np.isin(left, part.of).any() for part in patches):
        yield read_objects(home, patches, left, id_type, None)


def objects_tables(home: Home, part: Part) -> dict[str, pa.Table]:
    """Return the tables of a file of objects."""
    return _tables(home, OBJECT_STATES, part.file)


def write_objects(home: Home, state: ObjectState) -> FileEntry:
    """Write the state of objects, and return the file."""
    return FileEntry.of(write_entry(home.folder, bundle_tables(state.to_arrow()), len(state), "arrow", OBJECT_STATES))


# -- patches ----------------------------------------------------------------------------------------------------------


def write_patches(home: Home, spec: Spec, patches: Patches) -> FileEntry | None:
    """Write patches, and return the file; None where there are none."""
    tables = patches.to_arrow(spec)
    rows = sum(map(len, tables.values()))
    return None if rows == 0 else FileEntry.of(write_entry(home.folder, bundle_tables(tables), rows, "arrow", PATCHES))


def read_patches(home: Home, spec: Spec, files: Sequence[FileEntry]) -> list[Patches]:
    """Return the patches of tasks."""
    return [Patches.from_arrow(spec, _tables(home, PATCHES, file)) for file in files]


def of_part(patches: Patches, part: int) -> Patches:
    """Return the patches of the groups of a part."""
    return Patches(*(_of_part(one, part) for one in (patches.sums, patches.flow, patches.bins, patches.maxima)))


def _of_part(patch: Patch, part: int) -> Patch:
    counts = np.diff(patch.offsets)
    mine = np.arange(KEY_GROUPS) % PARTS == part
    rows = np.flatnonzero(np.repeat(mine, counts))
    return Patch(
        offsets(np.where(mine, counts, 0)),
        patch.pane[rows],
        patch.labels[rows],
        patch.values[rows],
    )


# -- panes ------------------------------------------------------------------------------------------------------------


def read_panes(home: Home, spec: Spec, parts: Sequence[Part], part: int, watermark: int | None) -> PaneState:
    """Return the state of the panes of a part."""
    base, patches = read_pane_layers(home, spec, parts, part)
    return PaneState.none(spec) if base is None else patch_state(spec, base, patches, watermark)


def read_pane_layers(
    home: Home, spec: Spec, parts: Sequence[Part], part: int
) -> tuple[PaneState | None, list[PanePatch]]:
    """Return the state of a part as it was written whole last, None where it never was, and what has changed since."""
    base, patches, begin = None, [], f"{part}/"
    for one in parts:
        if part not in one.of:
            continue
        tables = _tables(home, PANES, one.file)
        mine = {name[len(begin) :]: table for name, table in tables.items() if name.startswith(begin)}
        if one.patch:
            patches.append(PanePatch.from_arrow(spec, mine))
        else:
            base = PaneState.from_arrow(spec, mine)
    return base, patches


def write_panes(home: Home, states: Mapping[int, PaneState]) -> Part:
    """Write the state of the panes of some parts, and return the file."""
    return _written_panes(home, states, patch=False)


def write_pane_patches(home: Home, patches: Mapping[int, PanePatch]) -> Part:
    """Write what has changed in the panes of some parts, and return the file."""
    return _written_panes(home, patches, patch=True)


def _written_panes(home: Home, states: Mapping[int, PaneState] | Mapping[int, PanePatch], *, patch: bool) -> Part:
    tables = {f"{part}/{name}": table for part, state in states.items() for name, table in state.to_arrow().items()}
    listed = write_entry(home.folder, bundle_tables(tables), sum(map(len, tables.values())), "arrow", PANES)
    return Part(FileEntry.of(listed), tuple(sorted(states)), patch)
