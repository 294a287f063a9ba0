"""Adapting: leaves of a history are cut and merged where what was asked has paid for it, and an order is made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from dtoss.errors import InputError
from dtoss.history.adaptive.by_paper import decide_by_paper
from dtoss.history.adaptive.period import PlaceLeaves, cost_by, object_due, place_leaves, prices_of
from dtoss.history.adaptive.rewrite_decisions import Decision, Rewriting, decide
from dtoss.history.data_file import FILE_BYTES, NewFile, Part, write_file
from dtoss.history.history_commit import Change, Stale, commit, undone
from dtoss.history.layouts.compaction import make_order
from dtoss.history.questions import Questions, gather, keep
from dtoss.history.row_blocks import BY_PLACE, BY_TIME
from dtoss.history.versions import Home, Version

AT_ONCE_BYTES = 64 * 2**20
"""Bytes of leaves that are rewritten by one commit, about: they are in memory together."""
ADAPT_TRIES = 8
"""How often a period is looked at again because others have rewritten it meanwhile."""
Say = Callable[[str], None]
Method = Literal["regret", "aqwa"]


@dataclass(frozen=True)
class Adapted:
    """What adapting did, or would do."""

    version: Version
    questions: int  # How many are remembered
    cut: int = 0  # cut, merged, made: leaves that were cut, that were merged, and those that came of both
    merged: int = 0
    made: int = 0
    objects: tuple[int, ...] = ()  # Periods that got an order by object
    bytes: int = 0  # Of the leaves that were rewritten
    looked: int = 0  # Bytes that were read to decide, those among them
    regret: float = 0.0  # Bytes that recent questions would have cost less, each with its weight
    waste: float = 0.0  # Bytes that they read beyond the blocks of their answers
    unreadable: int = 0  # Files of questions that could not be read

    def as_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        kept = {name: getattr(self, name) for name in self.__dataclass_fields__ if name != "version"}
        kept |= {"regret": round(self.regret), "waste": round(self.waste), "objects": list(self.objects)}
        return {"version": self.version.number} | kept


def adapt(
    home: Home,
    *,
    request_bytes: float | None = None,
    dry_run: bool = False,
    say: Say | None = None,
    method: Method = "regret",
) -> Adapted:
    """Rewrite the leaves whose questions have paid for it, and return what was done.

    ``request_bytes``: what a request costs, as bytes that could be read in its time; kept for the history. As measured
    or by file system where nobody said; ``method``: "aqwa" cuts as the AQWA paper does, for comparison: by points of
    whole leaves, with neither intervals nor requests; it merges nothing, makes no order, and reads all leaves twice.

    Each commit rewrites leaves of one period to one new file, with the rows and sums of old and new leaves compared.
    Without new questions a second call changes nothing.
    """
    if request_bytes is not None and not 0 < request_bytes < np.inf:
        raise InputError(f"request bytes are {request_bytes:g}: a positive number is wanted")
    if method not in ("regret", "aqwa"):
        raise InputError(f"the method is {method!r}: give 'regret' or 'aqwa'")
    version = home.version()
    if request_bytes is not None and version.options.get("request_bytes") != int(request_bytes) and not dry_run:
        version = commit(home, Change("options", options={"request_bytes": int(request_bytes)}), version)
    gathered = gather(home, version.schema.space.dimension)
    questions = gathered.questions
    looks = dict(gathered.looks)
    done = Adapted(version, len(questions), unreadable=gathered.unreadable)
    for period in version.periods.number[(version.periods.orders >> np.uint8(BY_PLACE)) & np.uint8(1) == 1].tolist():
        done = _adapt_period(home, done, period, questions, looks, request_bytes, method, dry_run=dry_run, say=say)
    due = object_due(done.version, questions, prices_of(done.version, request_bytes)) if method == "regret" else ()
    for period in due:
        if not dry_run:
            done = replace(done, version=make_order(home, period, "object"))
            _told(say, f"period {period} has an order by object")
        done = replace(done, objects=(*done.objects, period))
    if not dry_run:
        keep(home, gathered, _standing(looks, done.version))
    return done


def _adapt_period(
    home: Home,
    done: Adapted,
    period: int,
    questions: Questions,
    looks: dict[str, Any],
    request_bytes: float | None,
    method: Method,
    *,
    dry_run: bool,
    say: Say | None,
) -> Adapted:
    """Return what was done once all leaves of a period are as they are to be."""
    version, stale = done.version, 0
    while True:
        prices = prices_of(version, request_bytes)
        held = place_leaves(home, version, period)
        if not held.leaves:
            return replace(done, version=version)  # others have taken the order away
        most = np.inf if dry_run else AT_ONCE_BYTES
        if method == "aqwa":
            made = decide_by_paper(held.leaves, questions, held.load, prices, most)
        else:
            elsewhere = cost_by(version, period, BY_TIME, questions, prices)
            made = decide(held.leaves, elsewhere, questions, held.load, prices, held.known(looks), most)
        looks.update(held.told(made.looks))
        tally = _counted(done, made)
        if dry_run or not made.rewritings:
            return replace(tally, version=version)
        try:
            version = _rewrite(home, version, period, held, made.rewritings)
        except Stale:
            stale += 1
            if stale >= ADAPT_TRIES:
                raise
            version = home.version()
            continue
        done = tally
        _told(say, f"{_leaves_said(made.rewritings)} of period {period} were rewritten")


def _counted(done: Adapted, made: Decision) -> Adapted:
    rewritings = made.rewritings
    return replace(
        done,
        cut=done.cut + sum(len(one.leaves) == 1 for one in rewritings),
        merged=done.merged + sum(len(one.leaves) for one in rewritings if len(one.leaves) > 1),
        made=done.made + sum(len(one.parts) for one in rewritings),
        bytes=done.bytes + sum(one.size for one in rewritings),
        looked=done.looked + made.looked,
        regret=done.regret + sum(one.regret for one in rewritings),
        waste=done.waste + sum(one.waste for one in rewritings),
    )


def _rewrite(home: Home, version: Version, period: int, held: PlaceLeaves, rewritings: list[Rewriting]) -> Version:
    gone = [held.numbers[number] for one in rewritings for number in one.leaves]
    detail = {
        "period": period,
        "cut": sum(len(one.leaves) == 1 for one in rewritings),
        "merged": sum(len(one.leaves) for one in rewritings if len(one.leaves) > 1),
        "made": sum(len(one.parts) for one in rewritings),
        "bytes": sum(one.size for one in rewritings),
        "regret": round(sum(one.regret for one in rewritings)),
        "waste": round(sum(one.waste for one in rewritings)),
    }
    keys = tuple(held.keys[number] for number in gone)
    with undone(home, version):
        files = tuple((file, period) for file in _files(home, version, held, rewritings))
        return commit(home, Change("adapt", files=files, gone=keys, detail=detail), version)


def _files(home: Home, version: Version, held: PlaceLeaves, rewritings: list[Rewriting]) -> list[NewFile]:
    """Return new files of all leaves that come: one, unless that would be too large."""
    groups: list[list[Rewriting]] = [[]]
    size = 0
    for one in rewritings:
        if groups[-1] and size + one.size > FILE_BYTES:
            groups.append([])
            size = 0
        groups[-1].append(one)
        size += one.size

    def parts(group: list[Rewriting]) -> list[Part]:
        return [part for one in group for part in _parts(home, version, held, one)]

    def origin(group: list[Rewriting]) -> str:
        keys = held.keys
        return " ".join(f"{keys[held.numbers[number]]}" for one in group for number in one.leaves)

    return [write_file(home.folder, BY_PLACE, parts(group), version.schema, origin(group)) for group in groups]


def _parts(home: Home, version: Version, held: PlaceLeaves, one: Rewriting) -> list[Part]:
    rows = held.rows(one.leaves)
    return [(rows.take(pa.array(numbers)), cell) for numbers, cell in one.parts]


def _leaves_said(rewritings: list[Rewriting]) -> str:
    count = sum(len(one.leaves) for one in rewritings)
    return f"{count:,} {'leaf' if count == 1 else 'leaves'}"


def _standing(looks: Mapping[str, Any], version: Version) -> dict[str, Any]:
    """Return the looks at files that the version still has."""
    names = set(version.files.name)
    return {key: look for key, look in looks.items() if all(part.split("#")[0] in names for part in key.split(" "))}


def _told(say: Say | None, text: str) -> None:
    if say is not None:
        say(text)
