"""``dtoss catalogue``: what a file of server types says, and how that is known."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import UTC, datetime
from math import inf
from typing import Annotated

import typer

from pipelines.command.terminal import options
from pipelines.command.terminal.output import print_table

catalogue = typer.Typer(
    help="Where figures of server types are from, and which are out of date.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)


@catalogue.callback()
def _of_catalogues() -> None:
    pass


@catalogue.command()
def check(
    servers: Annotated[str, typer.Argument(help="A file of server types, m3-2015 or m7g-2026.", metavar="FILE")],
    older_than: Annotated[
        str, typer.Option(help="Prices and requests/s that are older are stale.", metavar="TIME")
    ] = "180d",
    as_json: options.Json = False,
) -> int:
    """Say how each figure is known, and name what is missing or stale; then exit with 1."""
    from ceps.model.figure_origins import figures_of, findings_of
    from ceps.model.number_text import how_many
    from ceps.model.servers import COMMITTED
    from pipelines.plan_files import load_servers
    from pipelines.rows.durations_and_shares import seconds_of

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
