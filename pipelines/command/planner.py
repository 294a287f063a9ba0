"""The commands of the planner: patterns, plan, report and calibrate. Only the first needs Spark."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from dtoss.compiled.kept_places import only_native
from dtoss.compiled.notice import quiet
from dtoss.errors import InputError
from dtoss.export.targets import check_file, check_folder
from pipelines.command.query.one_place import token_of
from pipelines.command.terminal import row_options
from pipelines.command.terminal.lengths import in_store, length_of
from pipelines.command.terminal.notes import note, warn
from pipelines.command.terminal.options import TokenFile
from pipelines.command.terminal.output import print_table, start_spark

if TYPE_CHECKING:
    from ceps.plan.plans import Plan
    from pipelines.load_patterns.patterns_of_sums import CountedPatterns
    from pipelines.rows.access_rows import Asks

Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Seed = Annotated[int, typer.Option(help="Of the random choices; the same seed gives the same plan.")]


@row_options.takes_rows(without=("id", "id_type"))
def patterns(
    store: Annotated[str, typer.Option("--store", help="Path or URI of the store.", show_default=False)],
    out: Annotated[str, typer.Option(help="The patterns file to write, Parquet.", metavar="FILE", show_default=False)],
    accesses: Annotated[
        list[str] | None,
        typer.Argument(help="Files, directories or globs: Parquet, CSV, JSON lines; a place and a time a row."),
    ] = None,
    live: Annotated[
        bool,
        typer.Option(
            "--live", help="Add new files of servers' log, STORE/accesses or the folder named, to what was counted."
        ),
    ] = False,
    watch: Annotated[
        str | None,
        typer.Option("--watch", help="What workers of this watch have done, instead of accesses.", metavar="NAME"),
    ] = None,
    every: Annotated[
        str | None, typer.Option(help="With --live, look again and again: 1min.", metavar="TIME", show_default=False)
    ] = None,
    name: Annotated[str | None, typer.Option(help="With --live, of what is counted; live if not given.")] = None,
    recount: Annotated[
        bool, typer.Option("--recount", help="With --live, count all anew, by the current snapshot and these options.")
    ] = False,
    rows: row_options.Rows = row_options.NOTHING_SAID,
    weight: Annotated[
        str | None,
        typer.Option(help="Requests that a row stands for: a number, or the column that holds it; 1 if none."),
    ] = None,
    k: Annotated[
        str | None, typer.Option("-k", help="Each asks for its k nearest: a number, or the column that holds it.")
    ] = None,
    radius: Annotated[
        str | None,
        typer.Option(help="Each asks within a radius: 500m, a number of metres or CRS units, or a column of these."),
    ] = None,
    slot_minutes: Annotated[int, typer.Option(help="Length of a slot; divides a day.")] = 5,
    time_zone: Annotated[str, typer.Option(help="Where the day begins, such as Europe/Berlin.")] = "UTC",
    by_weekday: Annotated[bool, typer.Option("--by-weekday", help="A pattern for each weekday as well.")] = False,
    smooth_minutes: Annotated[int, typer.Option(help="Each slot is the mean of so much time round it.")] = 0,
    since: Annotated[str | None, typer.Option(help="First day that counts.", metavar="YYYY-MM-DD")] = None,
    until: Annotated[str | None, typer.Option(help="Day from which on none counts.", metavar="YYYY-MM-DD")] = None,
    requests_per_access: Annotated[float, typer.Option(help="Requests that an observed one stands for.")] = 1.0,
    costs: Annotated[
        str | None,
        typer.Option(
            help="Server types that dtoss calibrate measured: requests count as what they cost.", metavar="FILE"
        ),
    ] = None,
    max_bad: row_options.MaxBad = 0.10,
    crs: Annotated[
        str | None, typer.Option(help="CRS of the accesses, that of the store; as the file says if not given.")
    ] = None,
    snapshot: Annotated[str | None, typer.Option(help="Name of a snapshot; the current one if not given.")] = None,
    master: Annotated[str | None, typer.Option(help="Spark master; local[*] if not given.")] = None,
    driver_memory: Annotated[str | None, typer.Option(help="Heap of a local Spark, such as 4g.")] = None,
    as_json: Json = False,
) -> None:
    """Count how often each partition is asked, by time slot of the day."""
    from pipelines.plan_files import load_costs
    from pipelines.rows.access_rows import Asks

    raw = {
        **row_options.option_names(rows), "--weight": weight, "-k": k, "--radius": radius, "--snapshot": snapshot,
        "--crs": crs, "--master": master, "--driver-memory": driver_memory,
    }  # fmt: skip
    if watch is not None:
        others = {"ACCESSES": accesses, "--live": live or None, "--costs": costs, "--since": since, "--until": until}
        others |= raw | {"--every": every, "--name": name, "--recount": recount or None}
        _of_watch(store, watch, out, 60 * slot_minutes, time_zone, others, as_json)
        return
    _check_live(live, accesses or [], raw, {"--every": every, "--name": name, "--recount": recount or None})
    if live:
        weight, k, radius = "weight", "k", "radius"
    asks = Asks(
        weight=_number_or_column(weight, float),
        k=_number_or_column(k, int),
        radius=length_or_column(radius, store, snapshot),
        slot_seconds=60 * slot_minutes,
        time_zone=time_zone,
        by_weekday=by_weekday,
        smooth_seconds=60 * smooth_minutes,
        since=_day("--since", since),
        until=_day("--until", until),
        requests_per_access=requests_per_access,
        costs=None if costs is None else load_costs(costs),
    )
    check_file("--out", out)
    if live:
        _live(store, out, asks, accesses[0] if accesses else None, name, every, recount, max_bad, as_json)
        return
    from ceps import write_patterns
    from dtoss.snapshots.store import Store
    from pipelines.local_joins.first_look import look_at
    from pipelines.patterns import patterns as run
    from pipelines.rows.access_rows import access_columns
    from pipelines.rows.read_files import read_positions
    from pipelines.spark.stage_progress import Stages

    Store(store).manifest(snapshot)
    named = access_columns(asks, **row_options.with_others(rows, crs=crs))
    inputs = look_at(accesses or [], named, numbers={"--weight": asks.weight, "-k": asks.k, "--radius": asks.radius})
    session = start_spark(master, driver_memory)
    stages = Stages(session, shown=not quiet())
    with stages.stage("read"):
        read = read_positions(session, inputs, named)
    counted = run(read, store, asks, time_format=named.time_format, max_bad=max_bad, snapshot=snapshot, stages=stages)
    write_patterns(out, counted.patterns)
    _say_counted(counted, out, as_json)


def _of_watch(
    store: str, watch: str, out: str, slot_seconds: int, time_zone: str, others: dict[str, Any], as_json: bool
) -> None:
    """Write what workers of a watch have done as patterns."""
    given = [option for option, value in others.items() if value is not None]
    if given:
        raise ValueError(f"{given[0]} does not go with --watch, whose workers have counted already")
    from ceps import write_patterns
    from dtoss.watch.watch_folder import Home
    from pipelines.simulation.load_patterns import patterns_of_watch

    check_file("--out", out)
    done = patterns_of_watch(Home(store, watch), slot_seconds, time_zone)
    write_patterns(out, done.patterns)
    a_core = 1.0 / done.seconds_a_row
    if as_json:
        facts = {
            "rounds": done.rounds, "leftOut": done.left_out, "rows": done.rows, "cells": len(done.patterns),
            "peak": done.patterns.peak, "rowsASecondOfACore": a_core,
        }  # fmt: skip
        print(json.dumps(facts))
        return
    rows = [
        ("rounds", f"{done.rounds:,}" + (f"; {done.left_out:,} of other cells left out" if done.left_out else "")),
        ("rows", f"{done.rows:,} in {len(done.patterns):,} cells"),
        ("a core", f"{a_core:,.0f} mean rows/s: the requests/s of a server are so many times its cores"),
        ("peak", f"{done.patterns.peak:,.0f} mean rows/s"),
        ("written", out),
    ]
    print_table(rows)


def _say_counted(counted: CountedPatterns, out: str, as_json: bool, more: dict[str, Any] | None = None) -> None:
    """Print what became of accesses: as JSON in a line, or as a table."""
    from pipelines.load_patterns.patterns_of_sums import summary

    more = more or {}
    if as_json:
        whole = counted.patterns[0]
        facts = {
            "read": counted.read, "bad": counted.bad, "outside": counted.outside, "requests": counted.requests,
            "reads": counted.reads, "sets": len(whole.reads or ()), "days": whole.days,
            "first": str(counted.first), "last": str(counted.last),
            "partitions": len(whole), "peak": whole.peak, "pivots_hash": whole.pivots_hash,
        }  # fmt: skip
        print(json.dumps(facts | more), flush=True)
        return
    rows = [(word.replace("_", " "), f"{value:,}") for word, value in more.items() if value]
    print_table([*rows, *summary(counted), ("written", out)])


def _check_live(live: bool, accesses: Sequence[str], raw: dict[str, Any], ours: dict[str, Any]) -> None:
    """Check that options go together: those of a log that dtoss keeps itself, and those of other accesses."""
    given = [option for option, value in (raw if live else ours).items() if value is not None]
    if live and given:
        raise ValueError(f"{given[0]} does not go with --live, which reads a server's log: its columns are known")
    if live and len(accesses) > 1:
        raise ValueError(f"{len(accesses)} folders are named: --live reads the log of one, STORE/accesses if none is")
    if given:
        raise ValueError(f"{given[0]} is about a log that grows: it goes with --live")
    if not live and not accesses:
        raise ValueError("no accesses are named: name files of them, or --live for the log of the store's servers")


def _live(
    store: str,
    out: str,
    asks: Asks,
    log: str | None,
    name: str | None,
    every: str | None,
    recount: bool,
    max_bad: float,
    as_json: bool,
) -> None:
    from dtoss.snapshots.store import Store
    from pipelines.load_patterns.live_patterns import DEFAULT_NAME, Following, LivePatterns, Look
    from pipelines.load_patterns.patterns_folder import Home
    from pipelines.rows.durations_and_shares import seconds_of

    if not 0.0 <= max_bad <= 1.0:
        raise ValueError(f"max_bad is {max_bad!r}: a share from 0 to 1 is wanted")

    def say(done: Look, counted: CountedPatterns) -> None:
        state = done.state
        facts = {
            "commit": done.commit, "files": state.files, "new_files": done.files, "new_rows": done.rows,
            "counted_anew": done.recounted, "by_earlier_snapshots": state.earlier,
        }  # fmt: skip
        if every is None or as_json:
            _say_counted(counted, out, as_json, facts)
        else:
            note(f"{done.commit}: {done.files:,} files, {done.rows:,} rows; days {counted.first} to {counted.last}")

    home = Home(Store(store).absolute.path, name or DEFAULT_NAME)
    following = Following(LivePatterns(home, asks, log, patient=every is not None), out, max_bad, say)
    if every is None:
        following.once(recount=recount)
        return
    try:
        seconds = seconds_of(every)
    except ValueError as error:
        raise ValueError(f"--every: {error}") from None
    following.on_and_on(seconds, recount=recount)


def plan(
    patterns: Annotated[str, typer.Argument(help="A file that dtoss patterns wrote.")],
    servers: Annotated[
        str, typer.Option(help="Server types: a TOML file, m3-2015 or m7g-2026.", metavar="FILE", show_default=False)
    ],
    out: Annotated[str, typer.Option(help="The plan to write, JSON.", metavar="FILE", show_default=False)],
    utilisation: Annotated[
        float, typer.Option(help="How full a server may be at its peak; the rest is headroom.")
    ] = 0.9,
    method: Annotated[
        Literal["fleet", "gain", "hourly", "tv", "tabu", "gp", "gp-r"],
        typer.Option(help="fleet, gain: ours; hourly: resize by the hour; tv, tabu, gp, gp-r: to compare with."),
    ] = "fleet",
    copies: Annotated[
        int | None, typer.Option(help="Of each partition, on different servers; as in --previous, or 1.")
    ] = None,
    growth: Annotated[str, typer.Option(help="Of all requests: a factor such as 1.2, or such as 20%.")] = "1",
    spare: Annotated[bool, typer.Option("--spare", help="One more server, for the loss of any one.")] = False,
    previous: Annotated[
        str | None, typer.Option(help="The plan in force: servers keep their numbers.", metavar="PLAN")
    ] = None,
    move_budget: Annotated[
        str | None, typer.Option(help="Repair --previous and move at most so many bytes, or such as 5%, to save money.")
    ] = None,
    bytes_per_hour: Annotated[
        float | None, typer.Option(help="Bytes that may be copied in an hour, for the actions from --previous.")
    ] = None,
    at_a_time: Annotated[int | None, typer.Option(help="Servers that may load at a time, for the same.")] = None,
    kubernetes: Annotated[
        str | None, typer.Option(help="Write manifests for kubectl apply -f into this folder.", metavar="FOLDER")
    ] = None,
    image: Annotated[str, typer.Option(help="The container's image in them.")] = "dtoss",
    pod_store: Annotated[
        str, typer.Option(help="Where their pods find the store: a URI, or a volume claim and perhaps a path in it.")
    ] = "dtoss-store",
    pin: Annotated[
        list[str] | None, typer.Option(help="This server must hold the partition; may be repeated.", metavar="P=SERVER")
    ] = None,
    weekday: Annotated[
        str | None,
        typer.Option(help="monday to sunday, mean, or week: each weekday fits; week if the patterns know weekdays."),
    ] = None,
    offer: Annotated[
        Literal["fixed", "hourly", "mixed", "auto"],
        typer.Option(help="fixed: all day; hourly: resized; mixed: a reserved base, the rest hourly; auto: the best."),
    ] = "fixed",
    risk: Annotated[
        str | None, typer.Option(help="Share of the requests that may be late on the worst weekday, such as 0.1%.")
    ] = None,
    zones: Annotated[int, typer.Option(help="Spread --copies over so many zones; any one may be lost.")] = 0,
    at_least_servers: Annotated[int, typer.Option(help="Servers to rent at the least.")] = 0,
    at_most_types: Annotated[int | None, typer.Option(help="Types to rent at the most.")] = None,
    restart_seconds: Annotated[float, typer.Option(help="Until a server that changes its type loads.")] = 120.0,
    load_rate: Annotated[float, typer.Option(help="Bytes a second that it then loads.")] = 2e8,
    spot: Annotated[bool, typer.Option("--spot", help="Spot prices will do: servers may be taken away.")] = False,
    reserve_years: Annotated[int, typer.Option(help="Years to reserve servers for at the most: 0, 1 or 3.")] = 3,
    store: Annotated[
        str | None, typer.Option(help="Check that its pivots are the patterns', and take partitions' bytes from it.")
    ] = None,
    seed: Seed = 0,
    time_limit: Annotated[float | None, typer.Option(help="Seconds after which the best plan so far is taken.")] = None,
    prove: Annotated[
        float,
        typer.Option(
            help="Seconds, where a plan is over the bound, to prove it the cheapest or to find a cheaper one."
        ),
    ] = 5.0,
    call_cost: Annotated[
        float, typer.Option(help="Requests of work that each further server costs which a request touches.")
    ] = 0.0,
    as_json: Json = False,
) -> None:
    """Choose servers and place the partitions on them at the least cost."""
    from pipelines.plan import facts, growth_factor, offer_table, risk_of, server_rows, summary
    from pipelines.plan import plan as run
    from pipelines.plan_files import load_plan

    check_file("--out", out)
    if kubernetes is not None:
        from ceps.rollout.kubernetes import check_names

        check_folder("--kubernetes", kubernetes)
        check_names("dtoss", image, pod_store)
    for option, value in (("--bytes-per-hour", bytes_per_hour), ("--at-a-time", at_a_time)):
        if value is not None and previous is None:
            raise ValueError(f"{option} {value:g} is about the change from a plan in force: name it (--previous PLAN)")
    from ceps.offers.schedules import Terms

    made, changes = run(
        patterns,
        servers,
        weekday=weekday,
        store=store,
        method=method,
        previous=previous,
        move_budget=move_budget,
        pins=pin or (),
        copies=copies,
        spare=spare,
        progress=_progress if sys.stderr.isatty() and not quiet() else None,
        utilisation=utilisation,
        growth=growth_factor(growth),
        seed=seed,
        time_limit=time_limit,
        prove=prove,
        call_cost=call_cost,
        offer=offer,
        risk=risk_of(risk),
        zones=zones,
        at_least=at_least_servers,
        at_most_types=at_most_types,
        terms=Terms(restart_seconds, load_rate, spot, reserve_years),
    )
    before = None if previous is None else load_plan(previous)
    more: dict[str, Any] = {"advice": made.options["advice"]} if "advice" in made.options else {}
    steps: list[tuple[str, str]] = []
    if before is not None:
        listed, steps = _steps(made, before, bytes_per_hour, at_a_time)
        more |= listed
    made.save(out, before, more)
    if kubernetes is not None:
        from ceps.rollout.kubernetes import write_manifests

        write_manifests(made, kubernetes, image=image, store=pod_store)
    if as_json:
        print(json.dumps(facts(made, changes) | more))
        return
    _print_columns(server_rows(made))
    print()
    offers = offer_table(made)
    if offers:
        _print_columns(offers, left=(1, 2))
        print()
    rows = [("written", out if kubernetes is None else f"{out}, {kubernetes}"), ("next", _report_command(out, store))]
    print_table([*summary(made, changes), *rows])
    if steps:
        print()
        _print_columns(steps)


def report(
    plans: Annotated[list[str], typer.Argument(help="Plans for the same partitions; the cheapest is recommended.")],
    out: Annotated[str, typer.Option(help="Folder for report.html, report.json and report.csv.", metavar="FOLDER")],
    patterns: Annotated[
        str | None, typer.Option(help="What the plans were made from; as the plan says if not given.", metavar="FILE")
    ] = None,
    current: Annotated[str | None, typer.Option(help="The plan in force, to compare with.", metavar="PLAN")] = None,
    store: Annotated[str | None, typer.Option(help="Draw its regions on the map; must have the plans' pivots.")] = None,
    seed: Seed = 0,
    time_limit: Annotated[float | None, typer.Option(help="Seconds for each method that is priced.")] = None,
    methods: Annotated[
        bool, typer.Option("--methods", help="Price the papers' methods, and plans for other targets, as well; slow.")
    ] = False,
    accesses: Annotated[
        str | None, typer.Option(help="The servers' log: say what --from to --to came to.", metavar="LOG")
    ] = None,
    begin: Annotated[str | None, typer.Option("--from", help="As dtoss bill has it.", metavar="TIME")] = None,
    end: Annotated[str | None, typer.Option("--to", help="As dtoss bill has it.", metavar="TIME")] = None,
    costs: Annotated[str | None, typer.Option(help="As dtoss bill has it.", metavar="FILE")] = None,
    as_json: Json = False,
) -> None:
    """Write what plans cost and save as one page, JSON and CSV."""
    from pipelines.plan_files import load_costs
    from pipelines.report import RealisedTime
    from pipelines.report import report as run

    realised = None
    if accesses is not None and begin is not None and end is not None:
        realised = RealisedTime(accesses, begin, end, None if costs is None else load_costs(costs))
    elif any(one is not None for one in (accesses, begin, end, costs)):
        raise ValueError("--accesses LOG, --from TIME and --to TIME go together: one of them is missing")

    check_folder("--out", out)
    page = run(
        plans, out, patterns=patterns, current=current, store=store, seed=seed, time_limit=time_limit, methods=methods,
        realised=realised, warn=warn,
    )  # fmt: skip
    text = page.with_suffix(".json").read_text(encoding="utf-8")
    if as_json:
        print(json.dumps(json.loads(text)))
        return
    numbers = json.loads(text)
    print_table(_report_rows(numbers, page))


def calibrate(
    store: Annotated[
        str | None, typer.Option("--store", help="Path or URI of the store; with --url, its objects are places asked.")
    ] = None,
    url: Annotated[str | None, typer.Option("--url", help="Of dtoss serve: measure the server, over HTTP.")] = None,
    k: Annotated[int, typer.Option("-k", help="How many nearest each request asks for.")] = 8,
    p99: Annotated[float, typer.Option("--p99", help="Milliseconds within which 99 % must be answered.")] = 50.0,
    seconds: Annotated[
        float | None, typer.Option(help="How long to measure, about: 4; with --url, to hold the rate: 60.")
    ] = None,
    name: Annotated[str, typer.Option(help="Of the server type.")] = "this-machine",
    dollars_per_hour: Annotated[float | None, typer.Option(help="Its price; 0 for a machine of your own.")] = None,
    rate: Annotated[
        Literal["singly", "gathered", "batches"] | None,
        typer.Option(help="The block's: questions one by one, gathered by a server, or in arrays of many; no --url."),
    ] = None,
    accesses: Annotated[
        str | None, typer.Option(help="With --url: the server's access log, whose places are asked.", metavar="LOG")
    ] = None,
    connections: Annotated[int, typer.Option(help="With --url: over which requests are sent.")] = 64,
    processes: Annotated[
        int | None, typer.Option(help="With --url: that send requests; half of the cores if not given.")
    ] = None,
    token_file: TokenFile = None,
    as_json: Json = False,
) -> None:
    """Measure how many requests a second this machine answers, or a server, and print a [[server]] block."""
    if url is not None:
        if rate is not None:
            raise ValueError("--rate is for what is measured in process: with --url requests come one by one")
        _calibrate_url(
            url, store, accesses, name, dollars_per_hour, as_json, k=k, limit=p99 / 1000,
            seconds=60.0 if seconds is None else seconds, connections=connections, processes=processes,
            token=token_of(token_file),
        )  # fmt: skip
        return
    if store is None:
        raise ValueError(
            "--store STORE is wanted, to measure this machine in process, or --url URL, to measure a server"
        )
    if accesses is not None or token_file is not None or processes is not None:
        raise ValueError("--accesses, --processes and --token-file are for a server, named by --url")
    with only_native():  # what is measured is code for this processor
        from pipelines.calibrate import calibrate as run
        from pipelines.calibrate import facts, rows, server_block

        measured = run(store, k=k, limit=p99 / 1000, seconds=4.0 if seconds is None else seconds, way=rate or "singly")
    for line in rows(measured):
        note(line)
    if as_json:
        print(json.dumps(facts(measured)))
        return
    print(server_block(measured, name, dollars_per_hour), end="")


def _calibrate_url(
    url: str,
    store: str | None,
    accesses: str | None,
    name: str,
    dollars_per_hour: float | None,
    as_json: bool,
    **how: Any,
) -> None:
    """Measure a server and print its block."""
    if (store is None) == (accesses is None):
        raise ValueError("--url needs to know where requests come from: one of --accesses LOG and --store STORE")
    from numpy.random import default_rng

    import dtoss
    from pipelines.calibration.over_http import PLACES, measure_server, places_of_log
    from pipelines.calibration.server_block import block_over_http, facts_over_http

    if accesses is not None:
        names = ("lon", "lat") if dtoss.connect(url, token=how["token"]).space.geographic else ("x", "y")
        places, source = places_of_log(accesses, names), "places of the access log"
    else:
        from pipelines.calibrate import places_of_objects

        assert store is not None
        index = dtoss.open(store)
        if not len(index):
            raise InputError(f"{store} holds no objects: rebuild it from some first")
        places, source = places_of_objects(index, default_rng(0), PLACES), "places of objects"
    measured = measure_server(url, places, source=source, say=note, **how)
    if as_json:
        print(json.dumps(facts_over_http(measured)))
        return
    print(block_over_http(measured, name, dollars_per_hour), end="")


def _number_or_column(text: str | None, kind: type[int] | type[float]) -> Any:
    if text is None:
        return None
    try:
        return kind(text)
    except ValueError:
        return text


def length_or_column(text: str | None, store: str, snapshot: str | None) -> float | str | None:
    """Return the number of a length in the unit of a store, or the name of a column; None where there is no text."""
    if text is None:
        return None
    try:
        length = length_of(text)
    except ValueError:
        return text
    return in_store("--radius", length, store, snapshot)


def _day(option: str, text: str | None) -> date | None:
    if text is None:
        return None
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{option} {text!r} is no day: write YYYY-MM-DD") from None


def _progress(method: str, cost: float, bound: float) -> None:
    print(f"{method}: ${cost:.3f} a day so far, bound ${bound:.3f}", file=sys.stderr)


def _steps(
    made: Plan, before: Plan, bytes_per_hour: float | None, at_a_time: int | None
) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """Return the actions from the plan in force, as entries of the file and as rows; why there are none, if so."""
    from ceps.model.problem import InfeasibleError
    from ceps.rollout.actions import action_rows, actions

    try:
        listed = actions(made, before, bytes_per_hour=bytes_per_hour, at_a_time=at_a_time)
    except InfeasibleError as error:
        return {"actions": None, "no_actions_because": str(error)}, [("hours", "action"), ("", f"none: {error}")]
    return {"actions": [action.to_dict() for action in listed]}, action_rows(listed) if listed else []


def _report_rows(numbers: dict[str, Any], page: Path) -> list[tuple[str, str]]:
    way = numbers["paymentLabel"]
    rows = [("recommended", f"${numbers['recommendedMonthlyRate']:,.2f} a month, {way}")]
    if numbers["lowerBoundMonthlyRate"] is not None:
        rows.append(("lower bound", f"${numbers['lowerBoundMonthlyRate']:,.2f} a month, {way}"))
    if numbers["monthlySavings"] is not None:
        share = f"{numbers['monthlySavingsPercent'] or 0:.0f} %"
        against = numbers["savingsAgainst"] if numbers["savingsAgainst"] == "now" else (
            f"{numbers['savingsAgainst']}, not with your bill"
        )  # fmt: skip
        text = f"${numbers['monthlySavings']:,.2f} a month ({share}) by placing, modelled, compared with {against}"
        rows.append(("saved", text))
        if abs(numbers["discountMonthlySavings"]) >= 0.005:
            rows.append(("", f"${numbers['discountMonthlySavings']:,.2f} a month by how servers are paid"))
    if numbers["autoscalingNote"]:
        rows.append(("mind", numbers["autoscalingNote"]))
    rows += [
        (
            row["label"],
            "does not fit" if row["monthlyRate"] is None else f"${row['monthlyRate']:,.2f} a month, list price",
        )
        for row in numbers["methods"]
    ]
    return [*rows, ("written", str(page))]


def _report_command(out: str, store: str | None) -> str:
    """Return the command that makes a page of a plan."""
    folder = str(Path(out).parent / "report")
    named = f" --store {shlex.quote(store)}" if store is not None else ""
    return f"dtoss report {shlex.quote(out)} --out {shlex.quote(folder)}{named}"


def _print_columns(rows: Sequence[tuple[str, ...]], left: tuple[int, ...] = (1,)) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for number, name in enumerate(rows[0]):
        table.add_column(name, justify="left" if number in left else "right", no_wrap=True)
    for row in rows[1:]:
        table.add_row(*row)
    Console(width=None if sys.stdout.isatty() else 140, highlight=False).print(table)
