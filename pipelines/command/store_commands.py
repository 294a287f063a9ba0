"""The commands of a store: rebuild, info and rollback."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from contextlib import nullcontext
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from dtoss.compiled.notice import quiet
from dtoss.errors import DtossError, InputError
from pipelines.command import cycles
from pipelines.command.history.as_of_rebuild import rebuild_past
from pipelines.command.terminal import options, row_options
from pipelines.command.terminal.engine_choice import Engine, session_for
from pipelines.command.terminal.options import DriverMemory, Json, Lease, Master, Snapshot, Store, seconds_or_none
from pipelines.command.terminal.output import print_table, say_compiling
from pipelines.command.terminal.store_info import facts_of_manifest, print_info, roll_back

if TYPE_CHECKING:
    from pipelines.rows.inputs import Inputs

SKIPPED_SHOWN = 10
"""Files that are named on stderr where they are skipped."""


@row_options.takes_rows(of_store=True)
def rebuild(
    store: Store,
    positions: Annotated[
        list[str] | None, typer.Argument(help="Files, directories or globs: Parquet, GeoParquet, CSV, JSON lines.")
    ] = None,
    updates: Annotated[
        str | None,
        typer.Option(help="Instead: a folder of updates, of which those not read before are merged.", metavar="DIR"),
    ] = None,
    history: options.History = None,
    as_of: options.AsOf = None,
    max_age: options.MaxAge = None,
    version: options.OfVersion = None,
    crs: Annotated[
        str | None, typer.Option(help="CRS of the positions: EPSG:4326 if not given; none is a plane without one.")
    ] = None,
    metric: Annotated[
        Literal["sphere", "plane"] | None, typer.Option(help="sphere compares a projected CRS on the sphere.")
    ] = None,
    bounds: Annotated[
        tuple[float, float, float, float] | None,
        typer.Option(help="Plane: rectangle that cells are clipped to.", metavar="XMIN YMIN XMAX YMAX"),
    ] = None,
    rows: row_options.Rows = row_options.NOTHING_SAID,
    schema: row_options.Schema = "union",
    columns: row_options.Attributes = None,
    partitions: Annotated[int | None, typer.Option(help="How many partitions.")] = None,
    objects_per_partition: Annotated[
        int | None, typer.Option(help="Objects a partition; 250000 if neither is given.")
    ] = None,
    pivots: Annotated[
        Literal["balanced", "spread", "keep", "auto"] | None,
        typer.Option(help="How partitions are chosen: balanced; of updates keep, or auto while they are good."),
    ] = None,
    reach: Annotated[
        float | None,
        typer.Option(help="Lambda: how far past its borders a partition knows objects (chord or CRS units)."),
    ] = None,
    keep: options.Keep = 3,
    keep_for: options.KeepFor = None,
    lease: options.Lease = "on",
    deleted: options.Deleted = None,
    deleted_for: options.DeletedFor = "1h",
    expire: options.Expire = None,
    now: options.Now = None,
    clock: options.Clock = "wall",
    witnesses: options.Witnesses = None,
    max_ahead: options.MaxAhead = "5min",
    missing: options.Missing = "error",
    in_place_until: options.InPlaceUntil = 1.0,
    done: options.Done = None,
    max_bad: row_options.MaxBad = 0.10,
    wrap: row_options.Wrap = False,
    min_objects: row_options.MinObjects = 0,
    max_shrink: row_options.MaxShrink = None,
    allow_empty: row_options.AllowEmpty = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Read and judge everything, write nothing.")] = False,
    on_duplicate: Annotated[
        Literal["error", "any"], typer.Option(help="What an id that repeats does where there is no time.")
    ] = "error",
    seed: row_options.Seed = 0,
    engine: Engine = "auto",
    master: Master = None,
    driver_memory: DriverMemory = None,
    as_json: Json = False,
) -> int:
    """Build a new snapshot of all positions, or merge updates with the current one, and make it current."""
    if as_of is not None or version is not None or max_age is not None:
        _only_past(
            {
                "POSITIONS": positions, "--updates": updates, "--crs": crs, "--metric": metric, "--wrap": wrap,
                **row_options.option_names(rows), "--deleted": deleted, "--expire": expire, "--now": now,
                "--done": done,
            }
        )  # fmt: skip
        return rebuild_past(
            store, history, as_of, seconds_or_none(max_age), version, columns=columns, lease=lease == "on",
            dry_run=dry_run, engine=engine, master=master, driver_memory=driver_memory, as_json=as_json, bounds=bounds,
            partitions=partitions, objects_per_partition=objects_per_partition, pivots=pivots or "balanced",
            reach=reach, min_objects=min_objects, max_shrink=max_shrink,
            allow_empty=allow_empty, keep=keep, keep_for=seconds_or_none(keep_for), seed=seed,
        )  # fmt: skip
    if updates is not None or positions is None:
        if updates is None or positions is not None:
            raise InputError("name POSITIONS, all that there are, or --updates DIR: one of them is wanted")
        for option, given in (("--dry-run", dry_run), ("--reach", reach is not None)):
            if given:
                raise InputError(f"{option} is for all POSITIONS, not for --updates")
        if pivots == "spread":
            raise InputError("--pivots spread is for all POSITIONS; updates take keep, balanced or auto")
        return cycles.run(
            updates, store, cycles=1, done=done, rows=rows, schema=schema, columns=columns, deleted=deleted,
            deleted_for=deleted_for, expire=expire, now=now, clock=clock, witnesses=witnesses, max_ahead=max_ahead,
            missing=missing, pivots=pivots, in_place_until=in_place_until, max_bad=max_bad, wrap=wrap,
            min_objects=min_objects, max_shrink=max_shrink, allow_empty=allow_empty, keep=keep, keep_for=keep_for,
            lease=lease, crs=crs, metric=metric, bounds=bounds, partitions=partitions,
            objects_per_partition=objects_per_partition, seed=seed, engine=engine, master=master,
            driver_memory=driver_memory, history=history, as_json=as_json,
        )  # fmt: skip
    if pivots == "auto":
        raise InputError("--pivots auto is for --updates; all POSITIONS take balanced, spread or keep")
    if deleted is None and expire is None:
        # nothing else of a rebuild of all rows asks for the time
        times = (("--now", now is not None), ("--clock data", clock == "data"), ("--witnesses", witnesses is not None))
        for option, said in times:
            if said:
                raise InputError(f"{option} is for --updates, --deleted or --expire")
    if missing == "null":
        raise InputError("--missing null is for --updates: all POSITIONS have the columns that they have")
    if dry_run and (deleted is not None or expire is not None):
        raise InputError("--dry-run judges rows only: leave --deleted and --expire out")
    if done is not None:
        raise InputError("--done is for --updates: files of POSITIONS stay")
    pivots = pivots or "balanced"
    from dtoss.export.targets import check_folder
    from dtoss.geometry.space import space_of
    from dtoss.snapshots.store import Store as StorePlace
    from dtoss.snapshots.store import on_stderr
    from pipelines.local_joins.first_look import look_at, said_of_ids
    from pipelines.rebuild import check_arguments, check_wrap, summary
    from pipelines.rebuild import rebuild as run
    from pipelines.rows.durations_and_shares import share_of
    from pipelines.rows.input_columns import Columns
    from pipelines.rows.read_files import read_positions, unreadable
    from pipelines.spark.stage_progress import Stages

    kept_for, ahead = seconds_or_none(keep_for), seconds_or_none(max_ahead)
    shrink = None if max_shrink is None else share_of(max_shrink, "max_shrink")
    check_arguments(partitions, objects_per_partition, on_duplicate, max_bad, keep, pivots, reach, min_objects, shrink)
    space = space_of(crs, metric)
    if crs is not None or metric is not None:
        check_wrap(wrap, space)
    named = Columns(
        **row_options.with_others(
            rows, attributes=columns or None, deleted=deleted, crs=row_options.crs_said(crs, metric)
        )
    )
    inputs = look_at(positions, named, schema=schema)
    if history is not None and "://" not in history:
        check_folder("--history", history)
    _say_skipped(inputs)
    if (odd := said_of_ids(inputs, named)) is not None:
        on_stderr(odd)
    say_compiling("build")
    with nullcontext() if dry_run else StorePlace(store).writer(lease=lease == "on") as lock:
        keys = []
        if history is not None and not dry_run:
            from pipelines.history_tasks.file_keys import key_files

            keys = key_files(inputs)
        session = session_for(engine, master, driver_memory, inputs, named)
        stages = Stages(session, shown=not quiet())
        with stages.stage("read"):
            read = read_positions(session, inputs, named)
        try:
            if history is not None and not dry_run:
                from pipelines.history import append_files

                with stages.stage("history"):
                    append_files(
                        lambda: session, inputs, history, named, warn=on_stderr, schema=schema, read=read, files=keys,
                        crs=crs, metric=metric, max_bad=max_bad, wrap=wrap, now=now,
                        max_ahead=None if clock == "data" and now is None else ahead,
                    )  # fmt: skip
            if deleted is not None or expire is not None:
                from pipelines.cycle import cycle

                manifest = cycle(
                    read,
                    store,
                    deleted=deleted,
                    deleted_for=seconds_or_none(deleted_for, "ever"),
                    expire=seconds_or_none(expire),
                    now=now,
                    clock=clock,
                    witnesses=options.witnesses_said(witnesses, clock, now),
                    max_ahead=ahead,
                    pivots="auto",
                    max_bad=max_bad,
                    wrap=wrap,
                    min_objects=min_objects,
                    max_shrink=shrink,
                    allow_empty=allow_empty,
                    keep=keep,
                    keep_for=kept_for,
                    first={
                        "crs": crs, "metric": metric, "bounds": bounds, "partitions": partitions, "pivots": pivots,
                        "objects_per_partition": objects_per_partition, "reach": reach, "seed": seed,
                    },
                    anew=True,
                    stages=stages,
                    warn=on_stderr,
                    lock=lock,
                    lease=lease == "on",
                )  # fmt: skip
            else:
                manifest = run(
                    read,
                    store,
                    crs=crs if crs is not None or metric == "plane" else read.crs,
                    metric=metric,
                    bounds=bounds,
                    partitions=partitions,
                    objects_per_partition=objects_per_partition,
                    pivots=pivots,
                    reach=reach,
                    on_duplicate=on_duplicate,
                    max_bad=max_bad,
                    wrap=wrap,
                    min_objects=min_objects,
                    max_shrink=shrink,
                    allow_empty=allow_empty,
                    dry_run=dry_run,
                    keep=keep,
                    keep_for=kept_for,
                    seed=seed,
                    stages=stages,
                    warn=on_stderr,
                    lock=lock,
                )
        except DtossError:
            raise
        except Exception as error:
            # a file of which the damage shows only when all of it is read
            raise unreadable(error, inputs) from None
    if as_json:
        facts = manifest if dry_run else facts_of_manifest(manifest)
        print(json.dumps(facts | {"input": {**inputs.facts(), **manifest["input"]}}))
    else:
        print_table([*summary(manifest), ("files", _files(inputs))])
    return 0


def _only_past(given: Mapping[str, Any]) -> None:
    """Check that nothing is said of rows in files, as those of a history are known."""
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
    verify: Annotated[bool, typer.Option("--verify", help="Read every file and compare its checksum.")] = False,
    as_json: Json = False,
) -> None:
    """Say what is in a store's current snapshot."""
    print_info(store, snapshot, verify=verify, as_json=as_json)


def rollback(store: Store, lease: Lease = "on") -> None:
    """Make the snapshot before the current one current again."""
    roll_back(store, lease=lease == "on")
