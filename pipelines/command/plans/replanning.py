"""The command that repairs the plan in force when what is expected asks for it."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from dtoss.errors import InputError
from dtoss.plain_numbers import number_in
from pipelines.command.terminal import options


def replan(
    store: options.Store,
    servers: Annotated[
        str, typer.Option(help="Server types: a TOML file, m3-2015 or m7g-2026.", metavar="FILE", show_default=False)
    ],
    plan: Annotated[
        str, typer.Option(help="The plan in force, written anew when it changes.", metavar="FILE", show_default=False)
    ],
    every: Annotated[
        str | None, typer.Option(help="Look again and again: 15min; once if not given.", metavar="TIME")
    ] = None,
    move_budget: Annotated[str, typer.Option(help="Share of the bytes that may move within 24 hours.")] = "3%",
    dwell: Annotated[str, typer.Option(help="Between two changes, at the least.", metavar="TIME")] = "60min",
    utilisation: Annotated[float, typer.Option(help="How full a server may be at its peak.")] = 0.9,
    name: Annotated[str | None, typer.Option(help="Of the live patterns; live if not given.")] = None,
    slot_minutes: Annotated[int, typer.Option(help="Length of a slot, as they are counted.")] = 5,
    time_zone: Annotated[str, typer.Option(help="Where the day begins, as they are counted.")] = "UTC",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be done.")] = False,
    as_json: options.Json = False,
) -> None:
    """Repair the plan in force when today asks for it: a line for each decision, with why, what moves and the cost."""
    from ceps.plan.replan import Decision, Replanning
    from dtoss.snapshots.store import Store
    from pipelines.command.plans.replanner import Replanner, line_of
    from pipelines.load_patterns.live_patterns import DEFAULT_NAME, LivePatterns
    from pipelines.load_patterns.patterns_folder import Home
    from pipelines.plan_files import load_servers
    from pipelines.rows.access_rows import Asks
    from pipelines.rows.durations_and_shares import seconds_of

    def say(found: Decision, said: dict[str, Any]) -> None:
        print(json.dumps(said) if as_json else line_of(found, said), flush=True)

    asks = Asks(
        weight="weight", k="k", radius="radius", slot_seconds=60 * slot_minutes, time_zone=time_zone
    )  # fmt: skip
    rules = Replanning(load_servers(servers), utilisation, share_of(move_budget), seconds_of(dwell))
    home = Home(Store(store).absolute.path, name or DEFAULT_NAME)
    replanner = Replanner(LivePatterns(home, asks), store, plan, rules, dry_run, say)
    if every is None:
        replanner.once()
    else:
        replanner.on_and_on(seconds_of(every))


def share_of(text: str) -> float:
    """Return the share that a text such as ``3%`` or ``0.03`` means.

    Examples
    --------
    >>> share_of("3%"), share_of("0.5")
    (0.03, 0.5)
    """
    number, percent = (text[:-1], 100.0) if text.endswith("%") else (text, 1.0)
    try:
        found = number_in(number.strip()) / percent
    except ValueError:
        found = -1.0
    if not 0.0 <= found <= 1.0:
        raise InputError(f"--move-budget is {text!r}: a share from 0 to 100% is wanted, such as 3%")
    return found
