"""The large index of subscriptions built beside the batches, and swapped in between two of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Thread

from dtoss.watch.index.index_changes import Centres, outgrown, prepare
from dtoss.watch.index.large_and_small import Files
from dtoss.watch.watch_folder import Home
from dtoss.watch.watch_settings import Settings

PATIENCE = 4
"""Times as large as it may be the small index becomes while the large one is built, before a batch waits for it."""


@dataclass
class Background:
    """Builds a large index at a time."""

    home: Home
    warn: Callable[[str], None] = lambda text: None  # Is told why one could not be built
    _newer: Files | None = None
    _builder: Thread | None = field(default=None, repr=False)

    @property
    def newer(self) -> Files | None:
        """The files of the last large index that was built; None before the first."""
        return self._newer

    def look(self, files: Files | None, settings: Settings, centres: Centres | None, centred: str | None) -> None:
        """Begin to build the large index anew where the small one has outgrown it, and none is being built.

        ``files``: what stands now; None for nothing.
        """
        if files is None or (self._builder is not None and self._builder.is_alive()):
            return
        if self._newer is not None and self._newer.base_number > files.base_number:
            return  # the next batch takes it
        if not outgrown(self.home, files):
            return
        # a process that ends does not wait for it: no commit has named its file
        self._builder = Thread(
            target=self._build, args=(files.number, settings, centres, centred), name="dtoss-index", daemon=True
        )
        self._builder.start()

    def wait(self) -> None:
        """Return once nothing is being built."""
        if self._builder is not None:
            self._builder.join()

    def _build(self, number: int, settings: Settings, centres: Centres | None, centred: str | None) -> None:
        try:
            self._newer = prepare(self.home, number, settings, None, centres, centred)
        except Exception as error:
            # the batch that can wait no longer builds it, and fails with the same
            self.warn(f"the index of subscriptions could not be built beside the batches: {error}")
