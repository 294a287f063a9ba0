"""What lengths that were not declared, and flows, are answered from: made of the state of a commit once, or ahead."""

from __future__ import annotations

from dataclasses import dataclass

from dtoss.windows.aggregation.backward_sums import Backwards
from dtoss.windows.aggregation.pane_state import PaneState
from dtoss.windows.aggregation.windows_at_watermark import sums_before
from dtoss.windows.query.open_files import Reader
from dtoss.windows.spec import Spec
from dtoss.windows.state.state_files import PARTS, object_states, read_panes
from dtoss.windows.storage.window_document import Document
from dtoss.windows.trajectories.visitors import last_visits

ALL_PANES, ALL_SUMS, LAST_VISITS = "panes", "sums", "visits"


@dataclass(frozen=True)
class StateAsked:
    """The state of windows at a commit, as it is asked. What is made of it is held for the last two commits."""

    reader: Reader
    spec: Spec
    head: Document  # The commit, with a watermark

    def asked(self, *what: str) -> StateAsked:
        """Return this, and remember that somebody asks for it now."""
        self.reader.ask(what)
        return self

    def panes(self) -> PaneState:
        """Return all panes that are kept. Cost O(bytes of them), once."""

        def joined() -> PaneState:
            parts, mark = self.head.files["panes"], self.head.watermark
            return PaneState.joined(
                self.spec, [read_panes(self.reader.home, self.spec, parts, part, mark) for part in range(PARTS)]
            )

        return self.reader.made(ALL_PANES, self.head.commit.sha256, joined)

    def sums(self) -> Backwards:
        """Return the sums of panes backwards from the watermark."""

        def summed() -> Backwards:
            return sums_before(self.spec, self.panes(), self._end()).with_table(self.spec.longest)

        return self.reader.made(ALL_SUMS, self.head.commit.sha256, summed)

    def visits(self) -> Backwards:
        """Return how many objects were last in a key in which pane, backwards. Cost O(bytes of all objects), once."""

        def counted() -> Backwards:
            states = object_states(self.reader.home, self.head.files["objects"], self.head.commit.document["id"])
            return last_visits(self.spec, states, self._end()).with_table(self.spec.longest)

        return self.reader.made(LAST_VISITS, self.head.commit.sha256, counted)

    def is_ready(self) -> bool:
        """Return whether all that was asked for lately is made of this commit."""
        return all(self.reader.has(what, self.head.commit.sha256) for what in self._wanted())

    def prepare(self) -> None:
        """Make what was asked for lately of this commit, so that nobody waits for it."""
        for what in self._wanted():
            {ALL_PANES: self.panes, ALL_SUMS: self.sums, LAST_VISITS: self.visits}[what]()

    def _wanted(self) -> list[str]:
        return [] if self.head.watermark is None else self.reader.asked_lately()

    def _end(self) -> int:
        assert self.head.watermark is not None
        return self.head.watermark // self.spec.pane
