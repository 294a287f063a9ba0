"""All partitions of objects that are in memory: the steps of a cycle, in this process, and how far they have come."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from dtoss.building.border import BorderTable, fix
from dtoss.building.construct import construct
from dtoss.building.reach import choose_reach
from dtoss.compiled.notice import quiet
from dtoss.geometry.space import Space
from dtoss.partition import Ids, Partition, numbers
from dtoss.partitioning.assign import Assignment, assign
from dtoss.partitioning.pivots import choose_pivots
from dtoss.partitioning.regions import Regions, planar_bounds


@dataclass(frozen=True)
class InMemory:
    """What an index is made of."""

    regions: Regions
    reach: NDArray[np.float64]  # float64 (P,). Lambda of each
    partitions: list[Partition]  # In the order of their numbers
    bounds: NDArray[np.float64] | None  # Of a plane, float64 (4,); None on the sphere
    border: BorderTable  # The exact cells of sites near borders
    areas: tuple[float, ...]  # Of the certified cells of each: square CRS units or steradians


def build_in_memory(
    keys: Ids,
    places: NDArray[np.float64],
    space: Space,
    attributes: dict[str, pa.Array],
    *,
    partitions: int,
    pivots: str,
    bounds: ArrayLike | None,
    reach: float | None,
    seed: int,
    sample: NDArray[np.bool_],
    engine: str,
    threads: int,
    progress: Progress,
) -> InMemory:
    """Return the partitions of objects.

    ``places``: float64 (n, 2). Legal positions; ``sample``: bool (n,). The objects that partitions are chosen by.
    """
    progress.begin("choosing partitions")
    if bounds is not None and space.dimension != 2:
        raise ValueError(
            f"bounds are {bounds!r}: those of a plane are wanted, and positions are compared on the sphere"
        )
    vectors = space.vectors(places)
    box = planar_bounds(vectors, bounds) if space.dimension == 2 else None
    some = vectors[sample]
    regions = choose_pivots(some, partitions, method=pivots, seed=seed)
    count = len(regions)
    if reach is None:
        reaches = choose_reach(some, len(keys), regions, box)
    else:
        reaches = np.full(count, np.inf if count == 1 else reach)
    progress.begin("sorting objects")
    sent = assign(vectors, regions, reaches)
    member, start = members_of(sent, count)

    def one(number: int) -> Any:
        mine = member[start[number] : start[number + 1]]
        taken = numbers(mine)
        built = construct(
            number,
            keys.take(taken) if isinstance(keys, pa.Array) else keys[mine],
            places[mine],
            sent.home[mine],
            space,
            regions,
            float(reaches[number]),
            box,
            attributes={name: column.take(taken) for name, column in attributes.items()},
            engine=engine,
        )
        progress.one_more()
        return built

    progress.begin("building partitions", count)
    if threads > 1 and count > 1:
        with ThreadPoolExecutor(threads) as pool:
            built = list(pool.map(one, range(count)))
    else:
        built = [one(number) for number in range(count)]
    progress.begin("joining borders")
    border = fix([b.border for b in built], box, threads=threads, engine=engine)
    return InMemory(regions, reaches, [b.partition for b in built], box, border, tuple(b.area for b in built))


def members_of(sent: Assignment, count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the rows of each partition, owned and copied, one partition after another, and where each begins."""
    where = np.concatenate([sent.home, sent.partition])
    rows = np.concatenate([np.arange(len(sent.home), dtype=np.int64), sent.row.astype(np.int64)])
    order = np.argsort(where, kind="stable")
    return rows[order], np.searchsorted(where[order], np.arange(count + 1))


LONG_SECONDS = 2.0
"""What takes no longer shows nothing, and loads nothing that shows it."""
POLL_SECONDS = 0.2
LINE_LENGTH = 60
"""Of a line that is written over and over."""


@dataclass
class Progress:
    """The step that building is at, and how many parts of it are done; threads may tell of theirs."""

    step: str = ""
    done: int = 0
    total: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def begin(self, step: str, total: int = 0) -> None:
        """Say that a step begins, which has so many parts; 0 where nobody counts them."""
        with self.lock:
            self.step, self.done, self.total = step, 0, total

    def one_more(self) -> None:
        """Say that a part is done."""
        with self.lock:
            self.done += 1


@contextmanager
def show_progress(wanted: bool) -> Iterator[Progress]:
    """Yield what is to be told how far building has come.

    It is shown from :data:`LONG_SECONDS` on where it is wanted, DTOSS_QUIET does not forbid it, and stderr is that of a
    terminal or of a notebook; the line goes away with the end.
    """
    progress = Progress()
    notebook = in_notebook()
    if not wanted or quiet() or not (notebook or (sys.stderr is not None and sys.stderr.isatty())):
        yield progress
        return
    stop = threading.Event()
    watch = _watch_in_notebook if notebook else _watch
    watcher = threading.Thread(target=watch, args=(progress, stop), daemon=True)
    watcher.start()
    try:
        yield progress
    finally:
        stop.set()
        watcher.join()


def in_notebook() -> bool:
    """Return whether this is the kernel of a notebook."""
    library = sys.modules.get("IPython")
    shell = None if library is None else library.get_ipython()
    return shell is not None and "IPKernelApp" in shell.config


def _watch(progress: Progress, stop: threading.Event) -> None:
    if stop.wait(LONG_SECONDS):
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    columns = (TextColumn("{task.description:<20}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Bar(*columns, console=Console(file=sys.stderr), transient=True) as bar:
        line = bar.add_task(progress.step, total=None)
        while True:
            bar.update(line, description=progress.step, completed=progress.done, total=progress.total or None)
            if stop.wait(POLL_SECONDS):
                return


def _watch_in_notebook(progress: Progress, stop: threading.Event) -> None:
    # what draws bars there is another library's, which may be missing
    began = time.monotonic()
    if stop.wait(LONG_SECONDS):
        return
    while True:
        parts = f" {progress.done} of {progress.total}" if progress.total else ""
        print(
            f"\r{progress.step}{parts}, {time.monotonic() - began:.0f} s".ljust(60), end="", file=sys.stderr, flush=True
        )
        if stop.wait(POLL_SECONDS):
            print(f"\r{'':<{LINE_LENGTH}}\r", end="", file=sys.stderr, flush=True)
            return
