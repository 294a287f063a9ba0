"""The command that keeps cycles going."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any

from dtoss.option import Option
from pipelines.command.terminal import options
from pipelines.command.terminal.engine_choice import Engine
from pipelines.command.terminal.notes import note
from pipelines.command.terminal.notes import say as windows_say
from pipelines.command.terminal.notes import say_json as windows_say_json
from pipelines.command.terminal.option_objects import Without
from pipelines.loop.exposition import Numbers
from pipelines.options.snapshot_options import SnapshotOptions
from pipelines.options.streaming import Beats

Done = Annotated[str | None, Option("What to do with files that all snapshots have read: delete, or move:DIR.", "WHAT")]
History = Annotated[str | None, Option("Path or URI of a history of positions.", "H")]


@dataclass(frozen=True)
class LoopOptions:
    """What ``dtoss run`` does beside snapshots."""

    done: Done = None
    plan: Annotated[str | None, Option("Plan by which partitions are served: pivots are kept.", "FILE")] = None
    history: History = None
    windows: Annotated[
        list[str] | None,
        Option("File in TOML that asks for windows, which count the same rows; give it again for others.", "SPEC.toml"),
    ] = None


def run(
    updates: Annotated[str, Option("Folder in which files of updates arrive.", "DIR")],
    store: options.Store,
    beats: Beats,
    beside: LoopOptions,
    numbers: Numbers,
    wanted: Annotated[SnapshotOptions, Without(["reach"])],
    engine: Engine,
    as_json: options.Json = False,
) -> int:
    """Merge files that keep arriving, cycle after cycle."""
    return run_cycles(updates, store, beats, beside, numbers, wanted, engine, as_json)


def run_cycles(
    updates: str,
    store: str,
    beats: Beats,
    beside: LoopOptions,
    numbers: Numbers,
    wanted: SnapshotOptions,
    engine: Engine,
    as_json: bool,
) -> int:
    """Merge files that arrive, until the beats are over or a signal comes; return the exit code."""
    from dtoss.export.targets import check_folder
    from dtoss.rows.input_columns import Columns
    from dtoss.snapshots.store import on_stderr
    from pipelines.loop.disposal import disposal_of
    from pipelines.loop.loop_metrics import Metrics
    from pipelines.rows.delimited_frame import check_said
    from pipelines.ticks.run import CyclesFailed
    from pipelines.ticks.run import run as loop
    from pipelines.ticks.three_commits import Beside, Listeners
    from pipelines.windowing.window_options import read_asked

    wanted.merging.check_witnesses()
    columns = Columns(**wanted.reading.said)
    check_said(columns)
    others = Beside(
        beside.history,
        [read_asked(file) for file in beside.windows or ()],
        None if beside.done is None else disposal_of(beside.done, updates),
        None if beside.plan is None else _pivots_of(beside.plan),
    )
    if beside.history is not None and "://" not in beside.history:
        check_folder("--history", beside.history)
    counts = Metrics(numbers.metrics, numbers.metrics_file)
    sessions = engine.sessions(counts.started)
    listeners = Listeners(
        _say_json if as_json else _say, windows_say_json if as_json else windows_say, on_stderr, counts
    )
    try:
        ran = loop(
            updates, store, sessions, wanted, beats=beats, beside=others, listeners=listeners, renew=sessions.renew
        )
    except CyclesFailed as error:
        print(f"error: {' '.join(str(error).split())}", file=sys.stderr)
        return 1
    finally:
        counts.shown.close()
    if ran.stopped:
        note(f"stopped after {ran.cycles:,} cycles")
    elif not ran.cycles and not as_json:
        print("nothing has changed")
    return 0


def _pivots_of(plan: str) -> str:
    from pipelines.plan_files import load_plan

    return load_plan(plan).pivots_hash


def _say(manifest: dict[str, Any], staleness: float | None) -> None:
    """Print what a cycle has done, in one line."""
    cycle = manifest["cycle"] or {}
    done = [f"{cycle[name]:,} {name.replace('_', ' ')}" for name in _SAID if cycle.get(name)]
    quarantined = sum(manifest["counts"]["quarantined"].values())
    done += [f"{quarantined:,} quarantined"] if quarantined else []
    forgotten = manifest["counts"].get("forgotten", 0)
    done += [f"{forgotten:,} forgotten"] if forgotten else []
    seconds = f"{sum(manifest['timings'].values()):.1f} s"
    age = "" if staleness is None else f", oldest update {staleness:.1f} s old"
    what = ", ".join(done) or "nothing new"
    print(f"{manifest['snapshot']}: {manifest['objects']:,} objects; {what}; {seconds}{age}", flush=True)


_SAID = ("updated", "added", "late", "too_late", "outdated", "unchanged", "deleted", "expired")


def _say_json(manifest: dict[str, Any], staleness: float | None) -> None:
    """Print what a cycle has done, as a line of JSON."""
    names = ("snapshot", "created", "objects", "cycle", "counts", "timings", "bytes", "pivots_hash", "clock")
    facts = {name: manifest.get(name) for name in names}
    facts |= {"staleness": staleness, "current": datetime.now(UTC).isoformat(timespec="milliseconds")}
    print(json.dumps(facts), flush=True)
