"""What is found where every byte of a watch is compared with how it is listed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass
class VerifiedWatch:
    """What was looked at, and what is wrong.

    Parameters
    ----------
    commits, changes
        How many there are, of batches and of changes of subscriptions.
    files, bytes
        That were compared.
    events
        That these files hold.
    damaged
        A line for each thing that is wrong; it names the file.
    """

    commits: int = 0
    changes: int = 0
    files: int = 0
    bytes: int = 0
    events: int = 0
    damaged: list[str] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        return dict(vars(self))
