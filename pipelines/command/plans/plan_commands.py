"""The command that says what a plan came to in a time that has passed.

``dtoss catalogue``: what a file of server types says, and how that is known.

The command that says which server of a plan is asked about a place.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import UTC, datetime
from math import inf
from typing import Annotated, Any

import typer

from dtoss.errors import InputError
from dtoss.option import Option
from pipelines.command.terminal import options
from pipelines.command.terminal.option_objects import GroupedCommands, add_commands
from pipelines.command.terminal.output import print_columns, print_table
from pipelines.options.snapshot_options import MaxBad


def bill(
    plan: Annotated[str, Option("The plan that was in force all the time.", "FILE")],
    begin: Annotated[str, Option("Day or moment of the plan's zone: 2026-03-01.", "TIME", name="--from")],
    end: Annotated[str, Option("Up to which; not included.", "TIME", name="--to")],
    accesses: Annotated[str | None, Option("The servers' log; that of --store if not given.", "LOG")] = None,
    store: Annotated[
        str | None, Option("The store of the plan's pivots; the one that holds the log if not given.")
    ] = None,
    costs: Annotated[
        str | None, Option("As the plan's patterns were made with (dtoss patterns --costs).", "FILE")
    ] = None,
    hindsight: Annotated[
        bool, Option("Make the plan that would have been best, too.", name="--hindsight/--no-hindsight")
    ] = True,
    max_bad: MaxBad = 0.10,
    as_json: options.Json = False,
) -> None:
    """Say what a time that has passed cost and how busy servers were, beside the plan and what hindsight would cost."""
    from ceps.reporting.realised import server_rows
    from pipelines.bill import bill as run
    from pipelines.bill import facts, summary
    from pipelines.plan_files import load_costs

    counted = None if costs is None else load_costs(costs)
    billed = run(
        plan, accesses, begin, end, store=store, costs=counted, max_bad=max_bad, hindsight=hindsight
    )  # fmt: skip
    if as_json:
        print(json.dumps(facts(billed)))
        return
    print_columns(*server_rows(billed.bill))
    print()
    print_table(summary(billed))


catalogue = typer.Typer(
    cls=GroupedCommands,
    help="Where figures of server types are from, and which are out of date.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)


@catalogue.callback()
def _of_catalogues() -> None:
    pass


def check(
    servers: Annotated[str, typer.Argument(help="A file of server types, m3-2015 or m7g-2026.", metavar="FILE")],
    older_than: Annotated[str, Option("Prices and requests/s that are older are stale.", "TIME")] = "180d",
    as_json: options.Json = False,
) -> int:
    """Say how each figure is known, and name what is missing or stale; then exit with 1."""
    from ceps.model.number_text import how_many
    from ceps.model.servers import COMMITTED, figures_of, findings_of
    from pipelines.options.said_amounts import seconds_of
    from pipelines.plan_files import load_servers

    try:
        days = seconds_of(older_than) / 86_400
    except ValueError as error:
        raise ValueError(f"--older-than: {error}") from None
    types = load_servers(servers)
    figures = figures_of(servers)
    found = findings_of(figures, datetime.now(UTC).date(), days)
    if as_json:
        told = [asdict(one) | ({"value": None} if one.value == inf else {}) for one in figures]
        print(json.dumps({"figures": told, "findings": [asdict(one) for one in found]}))
        return 1 if found else 0
    rows, last = [], ""
    widths = max(len(f"{one.field} {one.value}") for one in figures if not isinstance(one.value, list))
    for one in figures:
        value = f"{len(one.value)} pairs" if isinstance(one.value, list) else str(one.value)
        known = " ".join(filter(None, (one.origin.how or "not said", one.origin.date)))
        text = f"{f'{one.field} {value}':<{widths}}  {known}" + (f", {one.origin.source}" if one.origin.source else "")
        rows.append((one.server if one.server != last else "", text))
        last = one.server
    rows += [(one.kind, f"{one.server}: {one.field}: {one.text}") for one in found]
    absent = [field for field in COMMITTED if not any(one.field == field for one in figures)]
    if absent:
        rows.append(("not given", ", ".join(absent)))
    kinds = [(kind, sum(one.kind == kind for one in found)) for kind in ("missing", "stale", "odd")]
    said = ", ".join(f"{count} {kind}" for kind, count in kinds if count)
    assumed = sum(one.origin.how == "assumed" for one in figures)
    said = said or f"nothing is missing, nothing older than {how_many(days, 'day')}"
    rows.append((how_many(len(types), "type"), said + (f"; {how_many(assumed, 'figure')} assumed" if assumed else "")))
    print_table(rows)
    return 1 if found else 0


add_commands(catalogue, {"check": check})


def route(
    store: options.Store,
    at: options.At,
    plan: Annotated[str, Option("The plan.", "FILE")],
    peers: Annotated[str | None, Option("TOML file of where the plan's servers are: number = URL.", "FILE")] = None,
    radius: Annotated[
        float | None, Option("Also servers of what may be within so many metres or CRS units.", more={"min": 0})
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Say which partition holds a place, and which servers of a plan have it."""
    import numpy as np

    from dtoss.client.endpoint import read_peers
    from dtoss.geometry.space import as_positions
    from dtoss.partitioning.partition_bounds import far_of_radius, owners_that_may
    from dtoss.serve.cluster.served_plans import rank, read_placement
    from dtoss.snapshots.manifest import regions_of_manifest, space_of_manifest
    from dtoss.snapshots.store import Store

    if at is None:
        raise InputError("there is no place: --at LON LAT")
    manifest = Store(store).manifest()
    space, regions = space_of_manifest(manifest), regions_of_manifest(manifest)
    placement = read_placement(plan, manifest["pivots_hash"], len(regions))
    vectors = space.vectors(as_positions([at], space))
    home = int(regions.nearest(vectors)[0])
    urls = {} if peers is None else read_peers(peers).addresses
    others: list[int] = []
    if radius is not None:
        furthest = np.array([entry["furthest"] for entry in manifest["partitions"]])
        far = far_of_radius(np.array([radius]), vectors.shape[1])
        _, part = owners_that_may(regions, vectors, np.array([home], np.int32), far, furthest)
        others = sorted({number for number in part.tolist() if number != home and furthest[number] >= 0})
    rows = [_row(number, placement.holders[number], urls, rank) for number in [home, *others]]
    if as_json:
        print(json.dumps({"snapshot": manifest["snapshot"], "home": home, "partitions": rows}))
        return
    for row in rows:
        print(f"partition {row['partition']}: " + ", ".join(map(_name_of, row["servers"])))


def _row(number: int, holders: tuple[int, ...], urls: Any, rank: Any) -> dict[str, Any]:
    """Return a partition and its servers, the one first that is asked first."""
    servers = sorted(holders, key=lambda server: int(rank(number, server)))
    if urls and (unknown := [server for server in servers if server not in urls]):
        raise InputError(f"--peers does not name server {unknown[0]}: add a line of its URL")
    told = [{"server": server, "url": str(urls[server]) if server in urls else None} for server in servers]
    return {"partition": number, "servers": told}


def _name_of(one: dict[str, Any]) -> str:
    return f"server {one['server']}" + (f" at {one['url']}" if one["url"] else "")
