"""The commands of the planner: patterns, plan and report."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import typer

from dtoss.compiled.notice import quiet
from dtoss.export.targets import check_file, check_folder
from dtoss.option import Option
from dtoss.snapshots.manifest_fields import Columns
from pipelines.command.terminal.notes import note, warn
from pipelines.command.terminal.option_objects import Only, option_names
from pipelines.command.terminal.options import in_store, length_of
from pipelines.command.terminal.output import Engine, print_table
from pipelines.engines.progress import show_step
from pipelines.options.said_amounts import duration
from pipelines.options.snapshot_options import TEXT, Reading

if TYPE_CHECKING:
    from ceps.plan.plans import Plan
    from pipelines.load_patterns.patterns_of_sums import CountedPatterns
    from pipelines.rows.access_rows import Asks

Json = Annotated[bool, Option("Print JSON instead of a table.", name="--json")]
Seed = Annotated[int, Option("Of the random choices; the same seed gives the same plan.")]


@dataclass(frozen=True)
class LogOptions:
    """What is counted instead of files of accesses: a log that grows, or what a watch has done."""

    title: ClassVar[str] = "Instead of accesses"
    watch: Annotated[str | None, Option("What workers of this watch have done, instead of accesses.", "NAME")] = None
    live: Annotated[
        bool,
        Option("Add new files of servers' log, STORE/accesses or the folder named, to what was counted."),
    ] = False
    every: Annotated[
        float | None,
        Option("With --live, look again and again: 1min.", "TIME", parse=duration(None, "--every")),
    ] = None
    name: Annotated[str | None, Option("With --live, of what is counted; live if not given.")] = None
    recount: Annotated[bool, Option("With --live, count all anew, by the current snapshot and these options.")] = False


@dataclass(frozen=True)
class Accesses:
    """What rows of accesses stand for."""

    title: ClassVar[str] = "What accesses ask"
    weight: Annotated[
        str | None,
        Option("Requests that a row stands for: a number, or the column that holds it; 1 if none."),
    ] = None
    k: Annotated[
        str | None, Option("Each asks for its k nearest: a number, or the column that holds it.", name="-k")
    ] = None
    radius: Annotated[
        str | None,
        Option("Each asks within a radius: 500m, a number of metres or CRS units, or a column of these."),
    ] = None
    requests_per_access: Annotated[float, Option("Requests that an observed one stands for.")] = 1.0
    costs: Annotated[
        str | None,
        Option("Server types that dtoss calibrate measured: requests count as what they cost.", "FILE"),
    ] = None


@dataclass(frozen=True)
class Slots:
    """How days are counted."""

    title: ClassVar[str] = "Slots"
    slot_minutes: Annotated[int, Option("Length of a slot; divides a day.")] = 5
    time_zone: Annotated[str, Option("Where the day begins, such as Europe/Berlin.")] = "UTC"
    by_weekday: Annotated[bool, Option("A pattern for each weekday as well.")] = False
    smooth_minutes: Annotated[int, Option("Each slot is the mean of so much time round it.")] = 0
    since: Annotated[str | None, Option("First day that counts.", "YYYY-MM-DD")] = None
    until: Annotated[str | None, Option("Day from which on none counts.", "YYYY-MM-DD")] = None


def patterns(
    store: Annotated[str, Option("Path or URI of the store.")],
    out: Annotated[str, Option("The patterns file to write, Parquet.", "FILE")],
    log: LogOptions,
    asking: Accesses,
    slots: Slots,
    reading: Annotated[Reading, Only([*TEXT, "x", "y", "time", "time_format", "zone", "geometry", "crs", "max_bad"])],
    engine: Engine,
    accesses: Annotated[
        list[str] | None,
        typer.Argument(help="Files, directories or globs: Parquet, CSV, JSON lines; a place and a time a row."),
    ] = None,
    snapshot: Annotated[str | None, Option("Name of a snapshot; the current one if not given.")] = None,
    as_json: Json = False,
) -> None:
    """Count how often each partition is queried, by time slot of the day."""
    from pipelines.plan_files import load_costs
    from pipelines.rows.access_rows import Asks

    raw = {
        **dict.fromkeys(option_names(reading.columns, Columns), True), "--weight": asking.weight, "-k": asking.k,
        "--radius": asking.radius, "--snapshot": snapshot, "--crs": reading.crs,
        "--engine": None if engine.engine == "auto" else engine.engine, "--master": engine.master,
        "--driver-memory": engine.driver_memory,
    }  # fmt: skip
    ours = {"--every": log.every, "--name": log.name, "--recount": log.recount or None}
    if log.watch is not None:
        others: dict[str, Any] = {"ACCESSES": accesses, "--live": log.live or None, "--costs": asking.costs}
        others |= {"--since": slots.since, "--until": slots.until} | raw | ours
        _of_watch(store, log.watch, out, slots, others, as_json)
        return
    _check_live(log.live, accesses or [], raw, ours)
    if log.live:
        asking = replace(asking, weight="weight", k="k", radius="radius")
    asks = Asks(
        weight=_number_or_column(asking.weight, float),
        k=_number_or_column(asking.k, int),
        radius=length_or_column(asking.radius, store, snapshot),
        slot_seconds=60 * slots.slot_minutes,
        time_zone=slots.time_zone,
        by_weekday=slots.by_weekday,
        smooth_seconds=60 * slots.smooth_minutes,
        since=_day("--since", slots.since),
        until=_day("--until", slots.until),
        requests_per_access=asking.requests_per_access,
        costs=None if asking.costs is None else load_costs(asking.costs),
    )
    check_file("--out", out)
    if log.live:
        _live(store, out, asks, accesses[0] if accesses else None, log, reading.max_bad, as_json)
        return
    from ceps import write_patterns
    from dtoss.snapshots.store import Store
    from pipelines.engines.progress import Stages
    from pipelines.local_joins.first_look import look_at
    from pipelines.patterns import patterns as run
    from pipelines.rows.access_rows import access_columns
    from pipelines.rows.read_files import read_positions

    Store(store).manifest(snapshot)
    named = access_columns(asks, **reading.said)
    inputs = look_at(accesses or [], named, numbers={"--weight": asks.weight, "-k": asks.k, "--radius": asks.radius})
    session = engine.session(inputs)
    stages = Stages(session, shown=not quiet())
    with stages.stage("read"):
        read = read_positions(session, inputs, named)
    counted = run(
        read, store, asks, time_format=named.time_format, max_bad=reading.max_bad, snapshot=snapshot, stages=stages
    )
    write_patterns(out, counted.patterns)
    _say_counted(counted, out, as_json)


def _of_watch(store: str, watch: str, out: str, slots: Slots, others: dict[str, Any], as_json: bool) -> None:
    """Write what workers of a watch have done as patterns."""
    given = [option for option, value in others.items() if value is not None]
    if given:
        raise ValueError(f"{given[0]} does not go with --watch, whose workers have counted already")
    from ceps import write_patterns
    from dtoss.watch.watch_folder import Home
    from pipelines.simulation.load_patterns import patterns_of_watch

    check_file("--out", out)
    done = patterns_of_watch(Home(store, watch), 60 * slots.slot_minutes, slots.time_zone)
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


def _live(store: str, out: str, asks: Asks, folder: str | None, log: LogOptions, max_bad: float, as_json: bool) -> None:
    from dtoss.snapshots.store import Store
    from pipelines.load_patterns.live_patterns import DEFAULT_NAME, Following, LivePatterns, Look
    from pipelines.load_patterns.patterns_folder import Home

    def say(done: Look, counted: CountedPatterns) -> None:
        state = done.state
        facts = {
            "commit": done.commit, "files": state.files, "new_files": done.files, "new_rows": done.rows,
            "counted_anew": done.recounted, "by_earlier_snapshots": state.earlier,
        }  # fmt: skip
        if log.every is None or as_json:
            _say_counted(counted, out, as_json, facts)
        else:
            note(f"{done.commit}: {done.files:,} files, {done.rows:,} rows; days {counted.first} to {counted.last}")

    home = Home(Store(store).absolute.path, log.name or DEFAULT_NAME)
    following = Following(LivePatterns(home, asks, folder, patient=log.every is not None), out, max_bad, say)
    if log.every is None:
        following.once(recount=log.recount)
    else:
        following.on_and_on(log.every, recount=log.recount)


@dataclass(frozen=True)
class Placing:
    """What a plan is to serve, and how safely."""

    title: ClassVar[str] = "What a plan has to do"
    utilisation: Annotated[float, Option("How full a server may be at its peak; the rest is headroom.")] = 0.9
    copies: Annotated[int | None, Option("Of each partition, on different servers; as in --previous, or 1.")] = None
    growth: Annotated[str, Option("Of all requests: a factor such as 1.2, or such as 20%.")] = "1"
    spare: Annotated[bool, Option("One more server, for the loss of any one.")] = False
    zones: Annotated[int, Option("Spread --copies over so many zones; any one may be lost.")] = 0
    weekday: Annotated[
        str | None,
        Option("monday to sunday, mean, or week: each weekday fits; week if the patterns know weekdays."),
    ] = None
    risk: Annotated[
        str | None, Option("Share of the requests that may be late on the worst weekday, such as 0.1%.")
    ] = None
    pin: Annotated[list[str] | None, Option("This server must hold the partition; may be repeated.", "P=SERVER")] = None
    call_cost: Annotated[float, Option("Requests of work that each further server costs which a request touches.")] = (
        0.0
    )


@dataclass(frozen=True)
class Renting:
    """How servers are rented."""

    title: ClassVar[str] = "What is rented"
    offer: Annotated[
        Literal["fixed", "hourly", "mixed", "auto"],
        Option("fixed: all day; hourly: resized; mixed: a reserved base, the rest hourly; auto: the best."),
    ] = "fixed"
    at_least_servers: Annotated[int, Option("Servers to rent at the least.")] = 0
    at_most_types: Annotated[int | None, Option("Types to rent at the most.")] = None
    restart_seconds: Annotated[float, Option("Until a server that changes its type loads.")] = 120.0
    load_rate: Annotated[float, Option("Bytes a second that it then loads.")] = 2e8
    spot: Annotated[bool, Option("Spot prices will do: servers may be taken away.")] = False
    reserve_years: Annotated[int, Option("Years to reserve servers for at the most: 0, 1 or 3.")] = 3


@dataclass(frozen=True)
class Change:
    """How a plan follows the one in force."""

    title: ClassVar[str] = "From the plan in force"
    previous: Annotated[str | None, Option("The plan in force: servers keep their numbers.", "PLAN")] = None
    move_budget: Annotated[
        str | None, Option("Repair --previous and move at most so many bytes, or such as 5%, to save money.")
    ] = None
    bytes_per_hour: Annotated[
        float | None, Option("Bytes that may be copied in an hour, for the actions from --previous.")
    ] = None
    at_a_time: Annotated[int | None, Option("Servers that may load at a time, for the same.")] = None


@dataclass(frozen=True)
class Pods:
    """Manifests of the plan."""

    title: ClassVar[str] = "Kubernetes"
    kubernetes: Annotated[str | None, Option("Write manifests for kubectl apply -f into this folder.", "FOLDER")] = None
    image: Annotated[str, Option("The container's image in them.")] = "dtoss"
    pod_store: Annotated[
        str, Option("Where their pods find the store: a URI, or a volume claim and perhaps a path in it.")
    ] = "dtoss-store"


@dataclass(frozen=True)
class Search:
    """How a plan is searched for."""

    title: ClassVar[str] = "How it is searched for"
    method: Annotated[
        Literal["fleet", "gain", "hourly", "tv", "tabu", "gp", "gp-r"],
        Option("fleet, gain: ours; hourly: resize by the hour; tv, tabu, gp, gp-r: to compare with."),
    ] = "fleet"
    seed: Seed = 0
    time_limit: Annotated[float | None, Option("Seconds after which the best plan so far is taken.")] = None
    prove: Annotated[
        float,
        Option("Seconds, where a plan is over the bound, to prove it the cheapest or to find a cheaper one."),
    ] = 5.0


def plan(
    patterns: Annotated[str, typer.Argument(help="A file that dtoss patterns wrote.")],
    servers: Annotated[str, Option("Server types: a TOML file, m3-2015 or m7g-2026.", "FILE")],
    out: Annotated[str, Option("The plan to write, JSON.", "FILE")],
    placing: Placing,
    renting: Renting,
    change: Change,
    pods: Pods,
    search: Search,
    store: Annotated[
        str | None, Option("Check that its pivots are the patterns', and take partitions' bytes from it.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Choose servers and place the partitions on them at the least cost."""
    from pipelines.plan import facts, growth_factor, offer_table, risk_of, server_rows, summary
    from pipelines.plan import plan as run
    from pipelines.plan_files import load_plan

    check_file("--out", out)
    if pods.kubernetes is not None:
        from ceps.rollout.kubernetes import check_names

        check_folder("--kubernetes", pods.kubernetes)
        check_names("dtoss", pods.image, pods.pod_store)
    for option, value in (("--bytes-per-hour", change.bytes_per_hour), ("--at-a-time", change.at_a_time)):
        if value is not None and change.previous is None:
            raise ValueError(f"{option} {value:g} is about the change from a plan in force: name it (--previous PLAN)")
    from ceps.offers.payment import Terms
    from pipelines.engines.progress import show_compiling

    with show_compiling():
        made, changes = run(
            patterns,
            servers,
            weekday=placing.weekday,
            store=store,
            method=search.method,
            previous=change.previous,
            move_budget=change.move_budget,
            pins=placing.pin or (),
            copies=placing.copies,
            spare=placing.spare,
            progress=_progress,
            utilisation=placing.utilisation,
            growth=growth_factor(placing.growth),
            seed=search.seed,
            time_limit=search.time_limit,
            prove=search.prove,
            call_cost=placing.call_cost,
            offer=renting.offer,
            risk=risk_of(placing.risk),
            zones=placing.zones,
            at_least=renting.at_least_servers,
            at_most_types=renting.at_most_types,
            terms=Terms(renting.restart_seconds, renting.load_rate, renting.spot, renting.reserve_years),
        )
    before = None if change.previous is None else load_plan(change.previous)
    more: dict[str, Any] = {"advice": made.options["advice"]} if "advice" in made.options else {}
    steps: list[tuple[str, str]] = []
    if before is not None:
        listed, steps = _steps(made, before, change.bytes_per_hour, change.at_a_time)
        more |= listed
    made.save(out, before, more)
    if pods.kubernetes is not None:
        from ceps.rollout.kubernetes import write_manifests

        write_manifests(made, pods.kubernetes, image=pods.image, store=pods.pod_store)
    if as_json:
        print(json.dumps(facts(made, changes) | more))
        return
    _print_columns(server_rows(made))
    print()
    offers = offer_table(made)
    if offers:
        _print_columns(offers, left=(1, 2))
        print()
    rows = [
        ("written", out if pods.kubernetes is None else f"{out}, {pods.kubernetes}"),
        ("next", _report_command(out, store)),
    ]
    print_table([*summary(made, changes), *rows])
    if steps:
        print()
        _print_columns(steps)


@dataclass(frozen=True)
class RealisedOptions:
    """The time that a report says the cost of."""

    title: ClassVar[str] = "What a time came to"
    accesses: Annotated[str | None, Option("The servers' log: say what --from to --to came to.", "LOG")] = None
    begin: Annotated[str | None, Option("As dtoss bill has it.", "TIME", name="--from")] = None
    end: Annotated[str | None, Option("As dtoss bill has it.", "TIME", name="--to")] = None
    costs: Annotated[str | None, Option("As dtoss bill has it.", "FILE")] = None


def report(
    plans: Annotated[list[str], typer.Argument(help="Plans for the same partitions; the cheapest is recommended.")],
    out: Annotated[str, Option("Folder for report.html, report.json and report.csv.", "FOLDER")],
    realised_by: RealisedOptions,
    patterns: Annotated[
        str | None, Option("What the plans were made from; as the plan says if not given.", "FILE")
    ] = None,
    current: Annotated[str | None, Option("The plan in force, to compare with.", "PLAN")] = None,
    store: Annotated[str | None, Option("Draw its regions on the map; must have the plans' pivots.")] = None,
    seed: Seed = 0,
    time_limit: Annotated[float | None, Option("Seconds for each method that is priced.")] = None,
    methods: Annotated[bool, Option("Price the papers' methods, and plans for other targets, as well; slow.")] = False,
    as_json: Json = False,
) -> None:
    """Write what plans cost and save as one page, JSON and CSV."""
    from pipelines.plan_files import load_costs
    from pipelines.report import RealisedTime
    from pipelines.report import report as run

    realised = None
    if realised_by.accesses is not None and realised_by.begin is not None and realised_by.end is not None:
        realised = RealisedTime(
            realised_by.accesses,
            realised_by.begin,
            realised_by.end,
            None if realised_by.costs is None else load_costs(realised_by.costs),
        )
    elif any(one is not None for one in (realised_by.accesses, realised_by.begin, realised_by.end, realised_by.costs)):
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


def _progress(step: str, cost: float, bound: float) -> None:
    known = [f"{name} ${value:,.2f} a day" for name, value in (("best so far", cost), ("bound", bound)) if value > 0]
    show_step(", ".join([step, *known]))


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
