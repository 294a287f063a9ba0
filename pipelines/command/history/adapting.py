"""``dtoss history adapt`` and ``calibrate``: the layout follows the questions; what a request costs is measured."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from pipelines.command.history.query_history import PastHistory
from pipelines.command.terminal.notes import note
from pipelines.command.terminal.options import Json


def adapt(
    history: PastHistory,
    request_bytes: Annotated[
        float | None,
        typer.Option(help="What a request costs, as bytes read in its time; kept. By file system if never said."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be done, and what it saves.")] = False,
    as_json: Json = False,
) -> None:
    """Cut leaves where questions go, and merge them where none go, once that has paid for the rewriting."""
    from dtoss.history.adaptive.adapt import adapt as adapt_history
    from dtoss.history.versions import Home

    done = adapt_history(Home(history), request_bytes=request_bytes, dry_run=dry_run, say=note)
    if done.unreadable:
        note(f"{done.unreadable:,} files of questions could not be read: they are left out")
    if as_json:
        print(json.dumps(done.as_json() | {"dry_run": dry_run}))
        return
    would = "would be" if dry_run else "were"
    print(f"version {done.version.number}: {done.questions:,} questions are remembered")
    if not done.cut and not done.merged and not done.objects:
        print("nothing has paid for being rewritten")
        return
    print(f"{done.cut:,} leaves {would} cut and {done.merged:,} merged: {done.made:,} leaves in their place")
    print(
        f"{done.bytes / 1e6:,.1f} MB {would} rewritten; questions so far read {done.waste / 1e6:,.1f} MB there beyond "
        f"their answers, and {'would have saved' if dry_run else 'could have saved'} {done.regret / 1e6:,.1f} MB"
    )
    for period in done.objects:
        print(f"period {period} {'would get' if dry_run else 'got'} an order by object")


def calibrate(
    history: PastHistory,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only measure; keep nothing.")] = False,
    as_json: Json = False,
) -> None:
    """Measure what a request costs where the history is, and keep it: plans and cuts go by it."""
    from dtoss.history.adaptive.request_cost import calibrate as measure
    from dtoss.history.versions import Home

    found = measure(Home(history), keep=not dry_run)
    facts = found.as_json()
    if as_json:
        print(json.dumps(facts | {"dry_run": dry_run}))
        return
    print(
        f"a request takes {facts['request_milliseconds']:g} ms (at worst {facts['worst_milliseconds']:g}), reading "
        f"{facts['megabytes_per_second']:,g} MB/s: it costs {found.request_bytes:,} bytes"
    )
