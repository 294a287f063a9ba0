"""Loops of cycles as tests want them: parts of their options by their names."""

from __future__ import annotations

from dataclasses import fields

from pipelines.options.snapshot_options import SnapshotOptions
from pipelines.options.streaming import Beats
from pipelines.ticks.run import run
from pipelines.ticks.three_commits import Beside, Listeners


def looped(updates, store, sessions, **wanted):
    """What a loop has done whose options are those of `SnapshotOptions.of`, and fields of its other parts."""

    def part(kind):
        return kind(**{one.name: wanted.pop(one.name) for one in fields(kind) if one.name in wanted})

    parts = {"beats": part(Beats), "beside": part(Beside), "listeners": part(Listeners)}
    others = {name: wanted.pop(name) for name in ("stopping", "renew") if name in wanted}
    return run(updates, store, sessions, SnapshotOptions.of(**wanted), **parts, **others)
