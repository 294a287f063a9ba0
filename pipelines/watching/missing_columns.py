"""Columns that conditions of subscriptions name, and files of a batch lack: told, refused, or as they were before."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from dtoss.errors import InputError
from dtoss.watch.processing.watch_plan import Plan
from pipelines.rows.log_segments import MixedFiles

ERROR, NULL, KEEP = "error", "null", "keep"


@dataclass
class Lacking:
    """What is made of columns that files lack."""

    missing: str | None = None  # "error", "null" or "keep"; null with a warning when None
    # Of the files in hand: one that lacks a column, by the columns of the watch that some of them lack
    files: Mapping[str, str] = field(default_factory=dict)
    some: frozenset[str] = frozenset()  # Columns that others of them have
    _named: frozenset[str] = frozenset()
    _told: set[str] = field(default_factory=set)

    def expect(self, wanted: Sequence[str], files: Sequence[str], names: Sequence[Sequence[str]]) -> None:
        """Take over which columns files have."""
        have = [frozenset(one) for one in names]
        lacking = {
            column: next((file for file, one in zip(files, have, strict=False) if column not in one), "")
            for column in wanted
        }
        self.files = {column: file for column, file in lacking.items() if file}
        self.some = frozenset(column for column in self.files if any(column in one for one in have))

    def judged(self, plan: Plan, warn: Callable[[str], None]) -> Plan:
        """Return the plan of a batch with the columns that its rows lack."""
        if not self.files and self.missing != KEEP:
            return plan
        text = [] if plan.settings.text is None else [plan.settings.text]
        self._named = frozenset((*plan.standing.columns_named, *text))
        if self.missing == KEEP and not plan.timed:
            raise InputError("--missing keep is for rows of objects that have times: messages have no row before")
        self.check()
        columns = sorted(self._named & set(self.files))
        for column in columns if self.missing is None else ():
            if column not in self._told:
                self._told.add(column)
                warn(
                    f"{self.files[column]} has no column {column!r}, which subscriptions ask about: it is null there, "
                    "so that objects may leave (--missing null takes it so, keep as it was, error refuses the file)"
                )
        if self.missing != KEEP:
            return plan
        return replace(plan, options=replace(plan.options, lacking=tuple(columns)))

    def check(self) -> None:
        """Raise where files lack what conditions of the last batch name, and cannot be taken together."""
        for column in sorted(self._named & set(self.files)):
            if self.missing == ERROR:
                raise InputError(
                    f"{self.files[column]} has no column {column!r}, which subscriptions ask about: --missing null "
                    "takes it as null, keep as it was"
                )
            if self.missing == KEEP and column in self.some:
                raise MixedFiles(f"{self.files[column]} has no column {column!r}, and others of the batch have it")
