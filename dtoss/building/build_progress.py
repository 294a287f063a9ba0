"""How far building has come, shown to whoever waits: a line on stderr of a terminal or notebook, if it takes long."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from dtoss.compiled.notice import quiet

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
