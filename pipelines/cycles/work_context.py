"""What a rebuild or a cycle runs with, beside what is wanted of it: stages, who is told, the right to write."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dtoss.commits.lease import Writer
from dtoss.snapshots.store import on_stderr
from pipelines.cycles.spread import USUAL, Here
from pipelines.engines.stage_progress import Stages


@dataclass(frozen=True)
class WorkContext:
    """The context of one run."""

    stages: Stages | None = None  # Times the stages and shows them
    warn: Callable[[str], None] | None = None  # Is told what looks wrong but is legal
    lock: Writer | None = None  # The right to write to the store, if the caller has it already
    here: Here = USUAL  # How much this process does itself

    @property
    def heard(self) -> Callable[[str], None]:
        """Who is told what could not be done; stderr where nobody is named."""
        return self.warn or on_stderr

    @property
    def told(self) -> Callable[[str], None]:
        """Who is told what looks wrong; nobody where nobody is named."""
        return self.warn or (lambda message: None)
