"""The files by which a batch is spread over workers, as a commit says them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dtoss.errors import StoreError


@dataclass(frozen=True)
class RoutingFiles:
    """A layout, and what each worker stores under it of what stands."""

    strategy: str  # Its name, with the parameters that were said
    workers: int  # How many there are
    layout: Mapping[str, Any]  # The file of the routing
    # base, delta: the files that say which subscriptions of the large and of the small index each worker stores; None
    # where there is no such index
    base: Mapping[str, Any] | None
    delta: Mapping[str, Any] | None
    # Files of workers' own indexes of the large one, by a key of what they hold
    indexes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    memory: Mapping[str, Any] | None = None  # The file of what the strategy keeps; None for nothing
    columns: tuple[str, ...] = ()  # Columns of rows that workers are sent
    round: int = 0  # Number of the round, from 0 on
    since: int = 0  # The commit with which the round has begun
    moved: int = 0  # Bytes of subscriptions that workers have to store now and did not before
    # The file of the load of a round after which the layout may change; None where there is none to be looked at
    ended: Mapping[str, Any] | None = None
    # The file of the words that are counted in rows; None where no strategy wants to know
    words: Mapping[str, Any] | None = None

    def as_json(self) -> dict[str, Any]:
        """Return what a commit's document holds of it."""
        return {
            "strategy": self.strategy,
            "workers": self.workers,
            "layout": dict(self.layout),
            "base": None if self.base is None else dict(self.base),
            "delta": None if self.delta is None else dict(self.delta),
            "indexes": {key: dict(entry) for key, entry in sorted(self.indexes.items())},
            "memory": None if self.memory is None else dict(self.memory),
            "columns": list(self.columns),
            "round": self.round,
            "since": self.since,
            "moved": self.moved,
            "ended": None if self.ended is None else dict(self.ended),
            "words": None if self.words is None else dict(self.words),
        }

    @classmethod
    def of(cls, said: Any) -> RoutingFiles | None:
        """Return what :meth:`as_json` has made; None where rows are not spread."""
        if not said:
            return None
        try:
            files = (said["layout"], said["base"], said["delta"], said["memory"], said["ended"], said["words"])
            for entry in (*files, *said["indexes"].values()):
                if entry is not None and not isinstance(entry["name"], str):
                    raise ValueError("names of files")
            return cls(
                str(said["strategy"]),
                int(said["workers"]),
                said["layout"],
                said["base"],
                said["delta"],
                said["indexes"],
                said["memory"],
                tuple(said["columns"]),
                int(said["round"]),
                int(said["since"]),
                int(said["moved"]),
                said["ended"],
                said["words"],
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise StoreError(f"the layout of a commit is damaged: {error}; restore the commit from a copy") from None
