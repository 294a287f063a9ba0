"""Files of live patterns that nothing needs: what runs that ended early have left, and sums that were replaced."""

from __future__ import annotations

from dtoss.commits.log_compaction import clear_passing
from dtoss.commits.orphans import SPARED_DEBRIS_SECONDS, clear_unneeded
from pipelines.load_patterns.patterns_folder import ROOMS, Home, State


def clear_debris(home: Home, spare_seconds: float = SPARED_DEBRIS_SECONDS) -> int:
    """Remove files that the newest commit does not name, and return how many went.

    ``spare_seconds``: files stay so long after they were written: a run that is under way may be about to name them.

    Cost O(files).
    """
    head = home.chain.head()
    state = None if head is None else State.of(head, home.chain.path(head.number))
    clear_passing(home.chain)
    gone = 0
    for room in ROOMS:
        named = set() if state is None else {file.name for file in state.listed[room]}
        gone += clear_unneeded(home.folder, room, named, spare_seconds)
    return gone
