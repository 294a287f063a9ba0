"""The command that repairs the plan in force when what is expected asks for it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from dtoss.errors import InputError
from dtoss.option import Option
from dtoss.plain_numbers import number_in
from pipelines.command.terminal import options
from pipelines.options.said_amounts import duration


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


@dataclass(frozen=True)
class Timing:
    """When a plan is repaired."""

    title: ClassVar[str] = "When and how much"
    every: Annotated[
        float | None, Option("Look again and again: 15min; once if not given.", "TIME", parse=duration(None))
    ] = None
    move_budget: Annotated[
        float, Option("Share of the bytes that may move within 24 hours.", parse=share_of, shown="3%")
    ] = 0.03
    dwell: Annotated[
        float, Option("Between two changes, at the least.", "TIME", parse=duration(None), shown="60min")
    ] = 3600.0
    utilisation: Annotated[float, Option("How full a server may be at its peak.")] = 0.9


@dataclass(frozen=True)
class Counted:
    """Of the live patterns."""

    title: ClassVar[str] = "The live patterns"
    name: Annotated[str | None, Option("Of the live patterns; live if not given.")] = None
    slot_minutes: Annotated[int, Option("Length of a slot, as they are counted.")] = 5
    time_zone: Annotated[str, Option("Where the day begins, as they are counted.")] = "UTC"


def replan(
    store: options.Store,
    servers: Annotated[str, Option("Server types: a TOML file, m3-2015 or m7g-2026.", "FILE")],
    plan: Annotated[str, Option("The plan in force, written anew when it changes.", "FILE")],
    timing: Timing,
    counted: Counted,
    dry_run: Annotated[bool, Option("Only say what would be done.")] = False,
    as_json: options.Json = False,
) -> None:
    """Repair the plan in force where today's requests do not fit it. Each decision is printed, with its cost."""
    from ceps.plan.replan import Decision, Replanning
    from dtoss.snapshots.store import Store
    from pipelines.command.plans.replanner import Replanner, line_of
    from pipelines.load_patterns.live_patterns import DEFAULT_NAME, LivePatterns
    from pipelines.load_patterns.patterns_folder import Home
    from pipelines.plan_files import load_servers
    from pipelines.rows.access_rows import Asks

    def say(found: Decision, said: dict[str, Any]) -> None:
        print(json.dumps(said) if as_json else line_of(found, said), flush=True)

    asks = Asks(
        weight="weight", k="k", radius="radius", slot_seconds=60 * counted.slot_minutes, time_zone=counted.time_zone
    )  # fmt: skip
    rules = Replanning(load_servers(servers), timing.utilisation, timing.move_budget, timing.dwell)
    home = Home(Store(store).absolute.path, counted.name or DEFAULT_NAME)
    replanner = Replanner(LivePatterns(home, asks), store, plan, rules, dry_run, say)
    if timing.every is None:
        replanner.once()
    else:
        replanner.on_and_on(timing.every)
