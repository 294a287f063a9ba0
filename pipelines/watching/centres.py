"""Where the objects are around which subscriptions ask: in the current snapshot of the store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dtoss.errors import DtossError
from dtoss.opening import open_index
from dtoss.plain_numbers import whole_in
from dtoss.snapshots.store import Store


@dataclass
class CurrentCentres:
    """Looks objects up in a store's current snapshot, which is opened once."""

    store: str
    _opened: dict[str, Any] = field(default_factory=dict)

    def name(self) -> str | None:
        """Return the name of the current snapshot; None where there is none."""
        try:
            return Store(self.store).current()
        except (DtossError, OSError):
            return None

    def find(self, ids: Sequence[str]) -> NDArray[np.float64]:
        """Return the positions (n, 2) of objects by their ids as text, NaN where there is none."""
        found = np.full((len(ids), 2), np.nan)
        name = self.name()
        if name is None:
            return found
        index = self._opened.get(name)
        if index is None:
            index = open_index(self.store, name)
            self._opened = {name: index}  # at once: indexes are built in a thread, too
        for row, text in enumerate(ids):
            try:
                place = index.place_of(text if index.string_ids else whole_in(text))
            except (KeyError, ValueError):
                continue
            found[row] = place.partition.positions[place.item]
        return found
