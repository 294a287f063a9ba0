"""``dtoss rebuild --history H --as-of TIME``: the index of a past moment."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

from dtoss.compiled.notice import quiet
from dtoss.errors import InputError
from pipelines.command.terminal.engine_choice import IN_MEMORY, Engine, too_large
from pipelines.command.terminal.output import print_table
from pipelines.command.terminal.store_info import facts_of_manifest
from pipelines.options.snapshot_options import SnapshotOptions


@dataclass(frozen=True)
class Past:
    """A moment of a history."""

    history: str | None
    moment: str | None
    max_age: float | None  # Seconds before it, after which an object that was not heard of does not stand
    version: int | None


def rebuild_past(store: str, past: Past, wanted: SnapshotOptions, engine: Engine, dry_run: bool, as_json: bool) -> int:
    """Build a snapshot of what stood at a time, say what it is, and return the exit code."""
    if past.history is None:
        raise InputError("--as-of, --max-age and --version are for a past moment of a history: name it (--history H)")
    if past.moment is None:
        raise InputError("--max-age and --version are for a past moment: name it (--as-of TIME)")
    from dtoss.snapshots.store import Store as StorePlace
    from dtoss.snapshots.store import on_stderr
    from pipelines.as_of import build_past, bytes_of, moment_in, standing_at
    from pipelines.cycles.work_context import WorkContext
    from pipelines.engines.stage_progress import Stages
    from pipelines.rebuild import summary

    known = moment_in(past.history, past.moment, past.version)
    with nullcontext() if dry_run else StorePlace(store).writer(lease=wanted.keeping.lease) as lock:
        needs = too_large(IN_MEMORY["parquet"] * bytes_of(past.history, known["version"]))
        session = engine.session(needs=needs)
        columns = wanted.reading.columns.get("attributes", "all")
        positions = standing_at(
            session, past.history, past.moment, max_age=past.max_age, version=known["version"], columns=columns
        )
        work = WorkContext(Stages(session, shown=not quiet()), on_stderr, lock)
        manifest = build_past(positions, past.history, known["version"], store, wanted, work, dry_run=dry_run)
    if as_json:
        facts = manifest if dry_run else facts_of_manifest(manifest)
        print(json.dumps(facts | {"input": {**known, **manifest["input"]}}))
    else:
        print_table([*summary(manifest), ("history", _said(known))])
    return 0


def _said(known: Mapping[str, Any]) -> str:
    return f"{known['history']} as of {known['as_of']}, by its version {known['version']}"
