"""The command that keeps cycles going."""

from __future__ import annotations

import json
import os
import sys
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

import typer

from pipelines.command.terminal import options, row_options
from pipelines.command.terminal.engine_choice import Engine, why_spark
from pipelines.command.terminal.notes import note
from pipelines.command.terminal.notes import say as windows_say
from pipelines.command.terminal.notes import say_json as windows_say_json
from pipelines.command.terminal.options import seconds_or_none
from pipelines.command.terminal.output import say_compiling, start_spark

END_SECONDS = 1.5
"""That Spark may take to end once a cycle is abandoned: with the cycle's own grace, SIGTERM takes less than 5 s."""


@row_options.takes_rows(of_store=True)
def run(
    updates: options.Updates,
    store: options.Store,
    every: Annotated[str, typer.Option(help="Time from beat to beat: 60s, 5min.", metavar="TIME")] = "60s",
    cycles: Annotated[int | None, typer.Option(help="Beats after which to end; 1 for cron.", min=1)] = None,
    done: options.Done = None,
    rows: row_options.Rows = row_options.NOTHING_SAID,
    schema: row_options.Schema = "union",
    columns: row_options.Attributes = None,
    deleted: options.Deleted = None,
    deleted_for: options.DeletedFor = "1h",
    expire: options.Expire = None,
    now: options.Now = None,
    clock: options.Clock = "wall",
    witnesses: options.Witnesses = None,
    max_ahead: options.MaxAhead = "5min",
    missing: options.Missing = "error",
    pivots: Annotated[
        Literal["keep", "balanced", "auto"] | None,
        typer.Option(help="keep them, choose new ones, or choose when they are good no more: auto if not given."),
    ] = None,
    plan: Annotated[
        str | None, typer.Option(help="Plan by which partitions are served: pivots are kept.", metavar="FILE")
    ] = None,
    in_place_until: options.InPlaceUntil = 1.0,
    max_bad: row_options.MaxBad = 0.10,
    on_odd_file: row_options.OnOddFile = "refuse",
    wrap: row_options.Wrap = False,
    min_objects: row_options.MinObjects = 0,
    max_shrink: row_options.MaxShrink = None,
    allow_empty: row_options.AllowEmpty = False,
    keep: options.Keep = 3,
    keep_for: options.KeepFor = None,
    lease: options.Lease = "on",
    metrics: Annotated[
        str | None,
        typer.Option(help="Where Prometheus finds numbers: a port of 127.0.0.1, or HOST:PORT.", metavar="PLACE"),
    ] = None,
    metrics_file: Annotated[str | None, typer.Option(help="File for the same numbers.", metavar="FILE")] = None,
    crs: Annotated[
        str | None, typer.Option(help="CRS of the positions, that of the store; as the files say, or degrees.")
    ] = None,
    metric: Annotated[Literal["sphere", "plane"] | None, typer.Option(help="Of a store's first snapshot.")] = None,
    bounds: Annotated[
        tuple[float, float, float, float] | None,
        typer.Option(help="Of a store's first snapshot.", metavar="XMIN YMIN XMAX YMAX"),
    ] = None,
    partitions: Annotated[int | None, typer.Option(help="Of a store's first snapshot: how many.")] = None,
    objects_per_partition: Annotated[
        int | None, typer.Option(help="Of a store's first snapshot: how large partitions are.")
    ] = None,
    seed: row_options.Seed = 0,
    history: options.History = None,
    windows: Annotated[
        list[str] | None,
        typer.Option(
            "--windows",
            help="File in TOML that asks for windows, which count the same rows; give it again for others.",
            metavar="SPEC.toml",
        ),
    ] = None,
    engine: Engine = "auto",
    master: options.Master = None,
    driver_memory: options.DriverMemory = None,
    as_json: options.Json = False,
) -> int:
    """Merge files that keep arriving, cycle after cycle."""
    from dtoss.export.targets import check_folder
    from dtoss.snapshots.store import Store, on_stderr
    from pipelines.cycle import check_cycle
    from pipelines.loop.disposal import disposal_of
    from pipelines.loop.loop_metrics import Metrics
    from pipelines.rebuild import check_arguments
    from pipelines.rows.durations_and_shares import seconds_of, share_of
    from pipelines.rows.input_columns import Columns
    from pipelines.rows.option_checks import check_said
    from pipelines.ticks.run import CyclesFailed
    from pipelines.ticks.run import run as loop
    from pipelines.windowing.feed_windows import PARTITION, key_kind
    from pipelines.windowing.window_options import read_asked

    beat = seconds_of(every)
    disposal = None if done is None else disposal_of(done, updates)
    asked_windows = [read_asked(file) for file in windows or ()]
    kept = plan is not None or any(key_kind(one, Store(store).absolute) == PARTITION for one in asked_windows)
    rules: dict[str, Any] = {
        "deleted_for": seconds_or_none(deleted_for, "ever"),
        "expire": seconds_or_none(expire),
        "clock": clock,
        "witnesses": options.witnesses_said(witnesses, clock, now),
        "max_ahead": seconds_or_none(max_ahead),
        "missing": missing,
        "pivots": pivots or ("keep" if kept else "auto"),
        "in_place_until": in_place_until,
    }
    check_cycle(**rules)
    shrink = None if max_shrink is None else share_of(max_shrink, "max_shrink")
    first = {"crs": crs, "metric": metric, "bounds": bounds, "partitions": partitions}
    first["objects_per_partition"] = objects_per_partition
    check_arguments(
        partitions, objects_per_partition, max_bad=max_bad, keep=keep, min_objects=min_objects, max_shrink=shrink
    )
    asked = row_options.with_others(rows, attributes=columns, deleted=deleted, crs=row_options.crs_said(crs, metric))
    check_said(Columns(**asked))
    if history is not None and "://" not in history:
        check_folder("--history", history)
    say_compiling("windows" if windows else "build")
    numbers = Metrics(metrics, metrics_file)
    started: list[Any] = []
    why = why_spark(engine, master, driver_memory, None, Columns(**asked), None)
    if why:
        on_stderr(f"Spark does this: {why}")
    by_spark = why is not None

    def session() -> Any:
        if not started:
            started.append(start_spark(master, driver_memory, END_SECONDS) if by_spark else None)
            if by_spark:
                numbers.started()
        return started[0]

    def renew() -> None:
        from pipelines.spark.session import forget_spark

        started.clear()
        forget_spark()

    try:
        ran = loop(
            updates,
            store,
            session,
            every=beat,
            cycles=cycles,
            columns=asked,
            schema=schema,
            disposal=disposal,
            pivots_hash=None if plan is None else _pivots_of(plan),
            metrics=numbers,
            # spark-submit has started the Spark that it gives us
            renew=None if "PYSPARK_GATEWAY_PORT" in os.environ or not by_spark else renew,
            say=_say_json if as_json else _say,
            warn=on_stderr,
            lease=lease == "on",
            history=history,
            windows=asked_windows,
            say_windows=windows_say_json if as_json else windows_say,
            on_odd_file=on_odd_file,
            now=now,
            max_bad=max_bad,
            wrap=wrap,
            min_objects=min_objects,
            max_shrink=shrink,
            allow_empty=allow_empty,
            keep=keep,
            keep_for=seconds_or_none(keep_for),
            first={name: value for name, value in first.items() if value is not None},
            seed=seed,
            **rules,
        )
    except CyclesFailed as error:
        print(f"error: {' '.join(str(error).split())}", file=sys.stderr)
        return 1
    finally:
        numbers.close()
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
