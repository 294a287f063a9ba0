"""Tasks whose workers do not search all that they have imported for garbage, as Spark's do after every task."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator

import pyarrow as pa

_SETTLED = [0]


def freeze_imports(task: Callable[..., Iterator[pa.RecordBatch]]) -> Callable[..., Iterator[pa.RecordBatch]]:
    """Return a task for ``mapInArrow`` that does the same, and leaves what its worker has imported out of collections.

    A worker of Spark's collects garbage between two tasks: a twentieth of a second with what the kernels import.
    """

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from task(batches)
        settle()

    return run


def settle() -> None:
    """Leave what there is now out of all later collections, where modules were imported since the last time."""
    if len(sys.modules) > _SETTLED[0]:
        gc.collect()
        gc.freeze()
        _SETTLED[0] = len(sys.modules)
