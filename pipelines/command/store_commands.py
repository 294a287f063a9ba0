"""The commands of a store: rebuild, also of a past moment (``--as-of``), run, info and rollback."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from dtoss.compiled.notice import quiet
from dtoss.errors import DtossError, InputError
from dtoss.option import Option
from pipelines.command.terminal import options
from pipelines.command.terminal.notes import note
from pipelines.command.terminal.notes import say as windows_say
from pipelines.command.terminal.notes import say_json as windows_say_json
from pipelines.command.terminal.option_objects import Without, option_names
from pipelines.command.terminal.options import Json, Snapshot, Store
from pipelines.command.terminal.output import IN_MEMORY, Engine, print_table, too_large
from pipelines.command.terminal.store_info import facts_of_manifest, print_info, roll_back
from pipelines.loop.exposition import Numbers
from pipelines.options.said_amounts import duration
from pipelines.options.snapshot_options import Lease, SnapshotOptions
from pipelines.options.streaming import Beats

if TYPE_CHECKING:
    from pipelines.rows.inputs import Inputs


SKIPPED_SHOWN = 10
"""Files that are named on stderr where they are skipped."""


@dataclass(frozen=True)
class RebuildOptions:
    """What of a rebuild is no matter of the snapshot itself."""

    updates: Annotated[
        str | None, Option("Instead: a folder of updates, of which those not read before are merged.", "DIR")
    ] = None
    history: History = None
    as_of: Annotated[str | None, Option("Instead: the objects of a past time, by --history.", "TIME")] = None
    max_age: Annotated[
        float | None,
        Option("With --as-of: leave out objects not heard of for so long before.", "TIME", parse=duration()),
    ] = None
    version: Annotated[int | None, Option("Number of the history's version; the newest one if not given.", "N")] = None
    pivots: Annotated[
        str | None,
        Option(
            "How partitions are chosen: balanced; of updates keep, or auto while they are good.",
            written=Literal["balanced", "spread", "keep", "auto"],
        ),
    ] = None
    done: Done = None
    dry_run: Annotated[bool, Option("Read and judge everything, write nothing.")] = False
    on_duplicate: Annotated[
        str, Option("What an id that repeats does where there is no time.", written=Literal["error", "any"])
    ] = "error"


def rebuild(
    store: Store,
    asked: RebuildOptions,
    wanted: Annotated[SnapshotOptions, Without(["pivots", "on_odd_file"])],
    engine: Engine,
    positions: Annotated[
        list[str] | None, typer.Argument(help="Files, directories or globs: Parquet, GeoParquet, CSV, JSON lines.")
    ] = None,
    as_json: Json = False,
) -> int:
    """Build a new snapshot of all positions, or merge updates with the current one, and make it current."""
    if asked.as_of is not None or asked.version is not None or asked.max_age is not None:
        _check_past(asked, wanted, positions)
        wishes = replace(wanted.wishes, pivots=asked.pivots or "balanced")
        return rebuild_past(store, asked, replace(wanted, wishes=wishes), engine, as_json)
    if asked.updates is not None or positions is None:
        if asked.updates is None or positions is not None:
            raise InputError("name POSITIONS, all that there are, or --updates DIR: one of them is wanted")
        for option, given in (("--dry-run", asked.dry_run), ("--reach", wanted.wishes.reach is not None)):
            if given:
                raise InputError(f"{option} is for all POSITIONS, not for --updates")
        if asked.pivots == "spread":
            raise InputError("--pivots spread is for all POSITIONS; updates take keep, balanced or auto")
        wanted = replace(wanted, merging=replace(wanted.merging, pivots=asked.pivots))
        beside = LoopOptions(done=asked.done, history=asked.history)
        return run_cycles(asked.updates, store, Beats(cycles=1), beside, Numbers(), wanted, engine, as_json)
    _check_all(asked, wanted)
    wanted = replace(wanted, wishes=replace(wanted.wishes, pivots=asked.pivots or "balanced"))
    return _rebuild_all(positions, store, asked, wanted, engine, as_json)


def _rebuild_all(
    positions: Sequence[str],
    store: str,
    asked: RebuildOptions,
    wanted: SnapshotOptions,
    engine: Engine,
    as_json: bool,
) -> int:
    """Build a snapshot of all rows of files, say what it is, and return the exit code."""
    from dtoss.export.targets import check_folder
    from dtoss.rows.input_columns import Columns
    from dtoss.snapshots.store import Store as StorePlace
    from dtoss.snapshots.store import on_stderr
    from pipelines.cycle import merge
    from pipelines.cycles.spread import WorkContext
    from pipelines.engines.progress import Stages
    from pipelines.local_joins.first_look import look_at, said_of_ids
    from pipelines.rebuild import build_snapshot
    from pipelines.rows.inputs import columns_of_log
    from pipelines.rows.read_files import read_positions, unreadable

    reading, merging, dry_run = wanted.reading, wanted.merging, asked.dry_run
    if (space := reading.space) is not None:
        reading.check_wrap(space)
    named = Columns(**reading.said)
    inputs = look_at(positions, named, schema=reading.schema, session=engine.session)
    named = columns_of_log(named, inputs.roles)
    history = None if dry_run else asked.history
    if asked.history is not None and "://" not in asked.history:
        check_folder("--history", asked.history)
    _say_skipped(inputs)
    if (odd := said_of_ids(inputs, named)) is not None:
        on_stderr(odd)
    with nullcontext() if dry_run else StorePlace(store).writer(lease=wanted.keeping.lease) as lock:
        keys = []
        if history is not None:
            from pipelines.history_tasks.into_files import key_files

            keys = key_files(inputs)
        session = engine.session(inputs)
        stages = Stages(session, shown=not quiet())
        work = WorkContext(stages, on_stderr, lock)
        with stages.stage("read"):
            read = read_positions(session, inputs, named)
        try:
            if history is not None:
                from pipelines.history import append_files, options_of_cycle

                with stages.stage("history"):
                    append_files(
                        lambda: session, inputs, history, named, warn=on_stderr, schema=reading.schema, read=read,
                        files=keys, **options_of_cycle(None, wanted),
                    )  # fmt: skip
            if named.deleted is not None or merging.expire is not None:
                manifest = merge(read, store, wanted, work, columns={"deleted": named.deleted}, anew=True)
            else:
                manifest = build_snapshot(read, store, wanted, work, on_duplicate=asked.on_duplicate, dry_run=dry_run)
        except DtossError:
            raise
        except Exception as error:
            # a file of which the damage shows only when all of it is read
            raise unreadable(error, inputs) from None
    _print_made(manifest, dry_run, inputs.facts() if as_json else None, ("files", _files(inputs)))
    return 0


def _print_made(manifest: dict[str, Any], dry_run: bool, known: dict[str, Any] | None, read: tuple[str, str]) -> None:
    """Say what a snapshot is: as JSON with what is ``known`` of its input, else as a table with what was ``read``."""
    from pipelines.rebuild import summary

    if known is None:
        print_table([*summary(manifest), read])
        return
    facts = manifest if dry_run else facts_of_manifest(manifest)
    print(json.dumps(facts | {"input": {**known, **manifest["input"]}}))


def _check_all(asked: RebuildOptions, wanted: SnapshotOptions) -> None:
    """Check that nothing is said that only updates have a use for."""
    merging, deleted = wanted.merging, wanted.reading.columns.get("deleted")
    if asked.pivots == "auto":
        raise InputError("--pivots auto is for --updates; all POSITIONS take balanced, spread or keep")
    if deleted is None and merging.expire is None:
        # nothing else of a rebuild of all rows asks for the time
        for option, said in (
            ("--now", merging.now is not None),
            ("--clock data", merging.clock == "data"),
            ("--witnesses", merging.witnesses is not None),
        ):
            if said:
                raise InputError(f"{option} is for --updates, --deleted or --expire")
    merging.check_witnesses()
    if merging.missing == "null":
        raise InputError("--missing null is for --updates: all POSITIONS have the columns that they have")
    if asked.dry_run and (deleted is not None or merging.expire is not None):
        raise InputError("--dry-run judges rows only: leave --deleted and --expire out")
    if asked.done is not None:
        raise InputError("--done is for --updates: files of POSITIONS stay")


def _check_past(asked: RebuildOptions, wanted: SnapshotOptions, positions: list[str] | None) -> None:
    """Check that nothing is said of rows in files, as those of a history are known."""
    from dtoss.rows.input_columns import Columns

    reading, merging = wanted.reading, wanted.merging
    given = {
        "POSITIONS": positions, "--updates": asked.updates, "--crs": reading.crs, "--metric": reading.metric,
        "--wrap": reading.wrap, **dict.fromkeys(option_names(reading.columns, Columns), True), "--columns": None,
        "--expire": merging.expire, "--now": merging.now, "--done": asked.done,
    }  # fmt: skip
    if said := [name for name, value in given.items() if value]:
        raise InputError(f"{said[0]} is for rows in files; --as-of takes those of --history, whose columns are known")


def _files(inputs: Inputs) -> str:
    read = f"{len(inputs.files or inputs.paths):,} read as {inputs.kind}"
    return f"{read}, {len(inputs.skipped):,} skipped" if inputs.skipped else read


def _say_skipped(inputs: Inputs) -> None:
    for file, why in inputs.skipped[:SKIPPED_SHOWN]:
        print(f"skipped: {file}: {why}", file=sys.stderr)
    if more := len(inputs.skipped) - SKIPPED_SHOWN if len(inputs.skipped) > SKIPPED_SHOWN else 0:
        print(f"skipped: {more:,} more files", file=sys.stderr)


def info(
    store: Store,
    snapshot: Snapshot = None,
    verify: Annotated[bool, Option("Read every file and compare its checksum.")] = False,
    as_json: Json = False,
) -> None:
    """Say what is in a store's current snapshot."""
    print_info(store, snapshot, verify=verify, as_json=as_json)


def rollback(store: Store, lease: Lease = True) -> None:
    """Make the snapshot before the current one current again."""
    roll_back(store, lease=lease)


def rebuild_past(store: str, asked: RebuildOptions, wanted: SnapshotOptions, engine: Engine, as_json: bool) -> int:
    """Build a snapshot of what stood at a time, say what it is, and return the exit code."""
    history, moment, dry_run = asked.history, asked.as_of, asked.dry_run
    if history is None:
        raise InputError("--as-of, --max-age and --version are for a past moment of a history: name it (--history H)")
    if moment is None:
        raise InputError("--max-age and --version are for a past moment: name it (--as-of TIME)")
    from dtoss.snapshots.store import Store as StorePlace
    from dtoss.snapshots.store import on_stderr
    from pipelines.as_of import build_past, bytes_of, moment_in, standing_at
    from pipelines.cycles.spread import WorkContext
    from pipelines.engines.progress import Stages

    known = moment_in(history, moment, asked.version)
    with nullcontext() if dry_run else StorePlace(store).writer(lease=wanted.keeping.lease) as lock:
        needs = too_large(IN_MEMORY["parquet"] * bytes_of(history, known["version"]))
        session = engine.session(needs=needs)
        columns = wanted.reading.columns.get("attributes", "all")
        positions = standing_at(
            session, history, moment, max_age=asked.max_age, version=known["version"], columns=columns
        )
        work = WorkContext(Stages(session, shown=not quiet()), on_stderr, lock)
        manifest = build_past(positions, history, known["version"], store, wanted, work, dry_run=dry_run)
    read = f"{known['history']} as of {known['as_of']}, by its version {known['version']}"
    _print_made(manifest, dry_run, known if as_json else None, ("history", read))
    return 0


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
    from pipelines.loop.exposition import Metrics
    from pipelines.rows.delimited_frame import check_said
    from pipelines.ticks.run import CyclesFailed
    from pipelines.ticks.run import run as loop
    from pipelines.ticks.three_commits import Beside, Listeners
    from pipelines.windowing.begin_windows import read_asked

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
