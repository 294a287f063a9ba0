"""How many different objects each key had in a window that ends now, of any length: from the last visits."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dtoss.windows.patches import NO_KEY
from dtoss.windows.spec import Spec
from dtoss.windows.tracks.state import ObjectState


def visitors_of(
    spec: Spec, state: ObjectState, watermark: int, length: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the keys, rising, and how many different objects had a row in each; int64 (n,) twice. O(rows and visits).

    Parameters
    ----------
    spec
        Of the windows.
    state
        Of all objects after the batch that set the watermark.
    watermark
        Where the window ends, in microseconds.
    length
        Microseconds, a multiple of the pane up to the longest length.
    """
    end = watermark // spec.pane
    objects = np.repeat(np.arange(len(state)), np.diff(state.first))
    pane, labels = state.t // spec.pane, state.labels
    if labels.first is not None:
        counts = np.diff(labels.first)
        objects, pane = np.repeat(objects, counts), np.repeat(pane, counts)
    key = np.concatenate([labels.key, state.visit_key])
    objects = np.concatenate([objects, np.repeat(np.arange(len(state)), np.diff(state.visit_first))])
    pane = np.concatenate([pane, state.visit_pane])
    there = (pane < end) & (pane >= end - length // spec.pane) & (key != NO_KEY)
    keys, number = np.unique(key[there], return_inverse=True)
    pairs = np.unique(number * max(1, len(state)) + objects[there])
    return keys, np.bincount(pairs // max(1, len(state)), minlength=len(keys)).astype(np.int64)
