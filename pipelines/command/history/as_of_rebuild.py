"""``dtoss rebuild --history H --as-of TIME``: the index of a past moment."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any

from dtoss.compiled.notice import quiet
from dtoss.errors import InputError
from pipelines.command.terminal.engine_choice import IN_MEMORY, session_for, too_large
from pipelines.command.terminal.output import print_table, say_compiling
from pipelines.command.terminal.store_info import facts_of_manifest


def rebuild_past(
    store: str,
    history: str | None,
    moment: str | None,
    max_age: float | None,
    version: int | None,
    *,
    columns: str | None,
    lease: bool,
    dry_run: bool,
    engine: str,
    master: str | None,
    driver_memory: str | None,
    as_json: bool,
    **options: Any,
) -> int:
    """Build a snapshot of what stood at a time, say what it is, and return the exit code."""
    if history is None:
        raise InputError("--as-of, --max-age and --version are for a past moment of a history: name it (--history H)")
    if moment is None:
        raise InputError("--max-age and --version are for a past moment: name it (--as-of TIME)")
    say_compiling("build")
    from dtoss.snapshots.store import Store as StorePlace
    from dtoss.snapshots.store import on_stderr
    from pipelines.as_of import as_of, bytes_of, moment_in
    from pipelines.rebuild import check_arguments, summary
    from pipelines.rows.durations_and_shares import share_of
    from pipelines.spark.stage_progress import Stages

    options["max_shrink"] = None if options["max_shrink"] is None else share_of(options["max_shrink"], "max_shrink")
    names = ("partitions", "objects_per_partition", "keep", "pivots", "reach", "min_objects", "max_shrink")
    check_arguments(**{name: options[name] for name in names})
    known = moment_in(history, moment, version)
    with nullcontext() if dry_run else StorePlace(store).writer(lease=lease) as lock:
        needs = too_large(IN_MEMORY["parquet"] * bytes_of(history, known["version"]))
        session = session_for(engine, master, driver_memory, needs=needs)
        manifest = as_of(
            session,
            history,
            moment,
            store,
            max_age=max_age,
            version=known["version"],
            columns=columns or "all",
            dry_run=dry_run,
            stages=Stages(session, shown=not quiet()),
            warn=on_stderr,
            lock=lock,
            **options,
        )
    if as_json:
        facts = manifest if dry_run else facts_of_manifest(manifest)
        print(json.dumps(facts | {"input": {**known, **manifest["input"]}}))
    else:
        print_table([*summary(manifest), ("history", _said(known))])
    return 0


def _said(known: Mapping[str, Any]) -> str:
    return f"{known['history']} as of {known['as_of']}, by its version {known['version']}"
