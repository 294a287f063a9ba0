"""What a batch does, fixed before its tasks run: the rows' source, the state before, what counts as late."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from dtoss.commits.chain import Commit
from dtoss.commits.offsets import Ledger, Source, is_committed
from dtoss.errors import InputError
from dtoss.windows.keys import Keys
from dtoss.windows.spec import Spec
from dtoss.windows.storage.group_placement import Placement, even, placement_of
from dtoss.windows.storage.keys_file import read_keys
from dtoss.windows.storage.spec_file import FixedSpec
from dtoss.windows.storage.window_document import Document, Home, Part, head_of

Place = Callable[[Document | None], Placement]
"""Gives the placement of a batch, of the commit before it."""


@dataclass(frozen=True)
class Options:
    """What may differ from run to run."""

    max_bad: float = 0.1  # The share of bad rows above which a batch fails
    new_source: bool = False  # Batches of a query that the windows do not know are taken beside those of another
    # Microseconds: results of ends that are longer behind the watermark are removed; None keeps all
    retain: int | None = None


@dataclass(frozen=True)
class Plan:
    """All that the tasks of a batch, and its commit, need; small, and pickled."""

    home: Home
    fixed: FixedSpec  # What they are asked for
    id_type: str  # Of objects: "int64" or "string"
    time: str  # Of times as they are read: "timestamp", or "double"
    options: Options
    after: Commit | None  # The commit before; None where there is none
    source: Source  # Where the rows come from
    placement: Placement  # Which task has which buckets of objects
    objects: tuple[Part, ...]
    panes: tuple[Part, ...]
    watermark: int | None  # Of the commit before, in microseconds since 1970; None before the first row
    now_us: int  # The wall clock at the beginning
    # Of a rebuild: the horizon to which the state of objects is folded at once; None leaves that to the next batch
    fold_to: int | None = None
    # Of a beat without rows: the clock that the watermark follows; None where rows alone move it
    clock_us: int | None = None

    @property
    def tasks(self) -> int:
        """How many there are: one for each worker."""
        return self.placement.workers

    @property
    def number(self) -> int:
        """Of the commit that the batch makes."""
        return 1 if self.after is None else self.after.number + 1

    @property
    def spec(self) -> Spec:
        """What is asked for."""
        return self.fixed.spec

    @property
    def keys(self) -> Keys:
        """What the keys of places are."""
        return read_keys(self.home, self.fixed.keys, self.spec.space, self.spec.keys)

    def document_before(self) -> Mapping[str, Any]:
        """Return the document of the commit before; an empty one where there is none."""
        return {} if self.after is None else self.after.document


def types_of(home: Home) -> tuple[str, str] | None:
    """Return the types of ids and of times that windows have; None where nothing was committed."""
    head = head_of(home)
    return None if head is None else (head.commit.document["id"], head.commit.document["time"])


def ledger_of(home: Home) -> Ledger:
    """Return what windows have read of their sources."""
    head = head_of(home)
    return Ledger() if head is None else head.ledger


def plan_batch(
    home: Home,
    fixed: FixedSpec,
    types: tuple[str, str],
    source: Source,
    options: Options,
    now_us: int,
    place: int | Place,
) -> Plan | None:
    """Return what a batch will do; None where it is committed already.

    ``now_us``: the wall clock, in microseconds since 1970.
    """
    head = head_of(home)
    if head is not None:
        said = head.commit.document
        for name, was, is_ in (("ids", said["id"], types[0]), ("times", said["time"], types[1])):
            if was != is_:
                raise InputError(
                    f"windows {home.name} have {name} of type {was}, these rows have {is_}: give the same options, or "
                    "another name (--name NAME)"
                )
    if source.query and _is_committed(home, head, source, options.new_source):
        return None
    return Plan(
        home,
        fixed,
        *types,
        options,
        None if head is None else head.commit,
        source,
        _by_number(head, place) if isinstance(place, int) else place(head),
        *_state(head),
        None if head is None else head.watermark,
        now_us,
    )


def _is_committed(home: Home, head: Document | None, source: Source, new_source: bool) -> bool:
    ledger = Ledger() if head is None else head.ledger
    said = {} if head is None else head.commit.document.get("batch", {})
    plan = said.get("plan", "") if said.get("query") == source.query else ""
    way = (
        ", or pass --new-source, with a checkpoint of its own where this one is older, and count the rows between anew "
        "(dtoss windows run POSITIONS --rebuild FROM TO)"
    )
    return is_committed("windows", home.name, "--name", ledger, source, new_source, plan, way)


def as_it_stands(head: Document | None) -> Placement:
    """Return the placement of a commit, one worker where it says none: that of a batch without rows."""
    found = None if head is None else placement_of(head.commit.document)
    return even(1) if found is None else found


def _by_number(head: Document | None, workers: int) -> Placement:
    stood = None if head is None else placement_of(head.commit.document)
    return stood if stood is not None and stood.workers == workers else even(workers)


def _state(head: Document | None) -> tuple[tuple[Part, ...], tuple[Part, ...]]:
    return ((), ()) if head is None else (head.files["objects"], head.files["panes"])
