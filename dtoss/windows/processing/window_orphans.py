"""Files of windows that nothing needs: what batches that ended early have left, and state that later ones replaced."""

from __future__ import annotations

from dtoss.commits.orphans import SPARED_DEBRIS_SECONDS, clear_unneeded
from dtoss.windows.processing.hour_compaction import needed_files
from dtoss.windows.storage.spec_file import fixed_of
from dtoss.windows.storage.window_document import Document, head_of
from dtoss.windows.storage.window_folder import (
    HOURS,
    KEY_FILES,
    OBJECT_STATES,
    PANES,
    PATCHES,
    RESULTS,
    SET_ASIDE,
    Home,
)

SPARED_STATE_SECONDS = 600.0
"""State that was replaced stays so long after it was written: whoever has opened the windows may be reading it."""


def clear_debris(home: Home, spare_seconds: float = SPARED_DEBRIS_SECONDS) -> int:
    """Remove files that no commit names, and state that the newest one does not; return how many went.

    ``spare_seconds``: files stay so long after they were written.

    Safe while others write and read, as long as no batch takes longer than is spared. Cost O(files, and commits since
    the last hour that was merged).
    """
    head = head_of(home)
    needed = {RESULTS: set[str](), SET_ASIDE: set[str]()} if head is None else needed_files(home, head)
    fixed = fixed_of(home)
    gone = clear_state(home, head, spare_seconds)
    gone += clear_unneeded(home.folder, KEY_FILES, set() if fixed is None else {fixed.keys.name}, spare_seconds)
    return gone + sum(clear_unneeded(home.folder, room, names, spare_seconds) for room, names in needed.items())


def clear_merged(home: Home, head: Document, spare_seconds: float = SPARED_DEBRIS_SECONDS) -> int:
    """Remove results that past hours have, and those that are no longer kept; return how many files went.

    Nothing goes while the index is young: whoever has opened the windows before it may be reading them.

    ``spare_seconds``: files stay so long after they were written.

    Cost O(files, and commits since the last hour that was merged).
    """
    index = head.files[HOURS]
    if not index or home.folder.idle(HOURS, index[0].file.name) < min(spare_seconds, SPARED_STATE_SECONDS):
        return 0
    needed = needed_files(home, head)
    return sum(clear_unneeded(home.folder, room, names, spare_seconds) for room, names in needed.items())


def clear_state(home: Home, head: Document | None, spare_seconds: float = SPARED_STATE_SECONDS) -> int:
    """Remove state that the newest commit does not name, and return how many files went. Cost O(files of state).

    ``head``: the newest commit; None where there is none; ``spare_seconds``: files stay so long after they were
    written.
    """
    return sum(
        clear_unneeded(home.folder, room, set() if head is None else _names(head, room), spare_seconds)
        for room in (OBJECT_STATES, PATCHES, PANES, HOURS)
    )


def _names(document: Document, room: str) -> set[str]:
    return {part.file.name for part in document.files[room]}
