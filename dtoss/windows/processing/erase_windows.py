"""A person out of windows: what is known of objects, and rows that were set aside; counts, which name nobody, stay."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from dtoss.buckets import BUCKETS
from dtoss.column_rows import take_rows
from dtoss.commits.columnar_files import read_rejected
from dtoss.commits.log_compaction import clear_passing
from dtoss.erasure.forgotten import Mentions, among, without_mentions
from dtoss.windows.processing.hour_compaction import written_aside
from dtoss.windows.processing.window_task import said_of
from dtoss.windows.spec import Spec
from dtoss.windows.state.hour_files import Hours, commit_hours, hours_of
from dtoss.windows.state.state_files import object_states, write_objects
from dtoss.windows.storage.spec_file import read_spec
from dtoss.windows.storage.window_document import SET_ASIDE, Document, Home, Part, documents, head_of
from dtoss.windows.trajectories.known_rows import ObjectState
from dtoss.windows.watermark import PaneCounts, add_counts, reached_of


@dataclass(frozen=True)
class ErasedWindows:
    """What went of a set of windows, or would go."""

    objects: int = 0  # Of which something was known
    rejected: int = 0  # Rows that had been set aside
    here: bool = False  # Whether ``here`` without ``--expire`` counts objects that were here and are known no more


def erase_counted(home: Home, ids: pa.Array, mentions: Mentions, *, dry: bool = False) -> ErasedWindows:
    """Remove what a set of windows knows of objects, and return what went. No result and no pane changes.

    ``mentions``: the same for rows as they were read.

    Files that stood for what is replaced are for :func:`dtoss.windows.processing.windows_tables.clear_sets` to remove,
    at once and also where nothing went: whoever was ended on its way left them. Cost: the state of all objects is
    read, and written again where one goes.
    """
    head = head_of(home)
    if head is None:
        return ErasedWindows()
    spec = read_spec(home).spec
    states = list(_states(home, head))
    there = [_of(state, ids) for _, state in states]
    objects, hours = sum(map(len, there)), hours_of(home, head)
    aside = list(_aside(home, head, hours))
    rejected = sum(int(mentions.mask(rows.column("row")).sum()) for rows in aside)
    stays_here = objects > 0 and "here" in spec.measures and spec.expire is None
    done = ErasedWindows(objects, rejected, stays_here)
    if dry:
        return done
    if objects or rejected:
        if rejected:
            hours = _aside_again(home, head, hours, aside, mentions)
        said = _state_again(home, spec, head, states, ids) if objects else {}
        commit_hours(home, head, hours, said)
    clear_passing(home.batches)
    return done


def _states(home: Home, head: Document) -> Iterator[tuple[tuple[int, ...], ObjectState]]:
    """Yield the state of all objects, piece by piece, each with its buckets."""
    parts, left = head.files["objects"], np.arange(BUCKETS)
    bases = [part for part in parts if not part.patch]
    for base in bases:
        left = np.setdiff1d(left, base.of)
    for i, state in enumerate(object_states(home, parts, head.commit.document["id"])):
        yield (bases[i].of if i < len(bases) else tuple(left.tolist())), state


def _of(state: ObjectState, ids: pa.Array) -> ObjectState:
    """Return the state of some objects."""
    return state.take(np.flatnonzero(among(state.ids, ids)))


def _aside(home: Home, head: Document, hours: Hours) -> Iterator[pa.Table]:
    """Yield the rows that were set aside."""
    parts = list(hours.quarantine)
    for document in documents(home, hours.set_aside + 1, head.number):
        parts += document.files[SET_ASIDE]
    for part in parts:
        yield read_rejected(home.folder, SET_ASIDE, part.file.name)


def _aside_again(home: Home, head: Document, hours: Hours, aside: list[pa.Table], mentions: Mentions) -> Hours:
    rows = pa.concat_tables([without_mentions(one, mentions) for one in aside])
    files = (written_aside(home, rows, 1, head.number),) if len(rows) else ()
    return replace(hours, quarantine=files, aside_to=head.number)


def _state_again(
    home: Home, spec: Spec, head: Document, states: list[tuple[tuple[int, ...], ObjectState]], ids: pa.Array
) -> dict[str, Any]:
    """Write the state of objects without some, and return what a document says of it."""
    written, left = [], []
    for of, state in states:
        gone = _of(state, ids)
        stays = state.take(np.flatnonzero(~among(state.ids, gone.ids)))
        written.append(Part(write_objects(home, stays), of))
        left.append(reached_of(spec, gone.t[gone.first[1:][np.diff(gone.first) > 0] - 1]))
    lost = add_counts(left)
    panes, objects = (np.array(column, np.int64) for column in head.commit.document["reached"])
    there = np.isin(lost.panes, panes)
    whole = add_counts([PaneCounts(panes, objects), PaneCounts(lost.panes[there], -lost.objects[there])])
    reached = said_of(spec, take_rows(whole, whole.objects > 0), head.watermark)
    return {"objects": [part.as_json() for part in written], "reached": reached}
