"""``dtoss history info``, ``files``, ``log``, ``verify``, ``gc``, ``forget``, ``export``: a history kept in order.

``dtoss history settle``: small files become larger ones, and full periods get their orders.

``dtoss history adapt`` and ``calibrate``: the layout follows the questions; what a request costs is measured.

``dtoss history report``: the page of a history.
"""

from __future__ import annotations

import json
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dtoss.errors import InputError
from dtoss.export.targets import check_folder
from dtoss.option import Option
from pipelines.command.history.query_history import OfVersion, PastHistory
from pipelines.command.terminal.notes import note
from pipelines.command.terminal.options import Json
from pipelines.command.terminal.output import print_log, print_reports, print_table
from pipelines.options.said_amounts import duration

if TYPE_CHECKING:
    from dtoss.history.versions import Home


def info(history: PastHistory, version: OfVersion = None, as_json: Json = False) -> None:
    """Say what a history holds: rows, times, orders, periods."""
    from dtoss.history.maintenance.history_facts_of import facts_of
    from dtoss.history.versions import Home

    facts = facts_of(Home(history).version(version))
    if as_json:
        print(json.dumps(facts))
        return
    from pipelines.command.terminal.output import print_columns, print_table

    columns = ", ".join(f"{name} ({kind})" for name, kind in facts["columns"].items()) or "none"
    print_table(
        [
            ("version", f"{facts['version']} ({facts['what']}) of {facts['time']}; {facts['oldest']} is the oldest"),
            ("rows", f"{facts['rows']:,} in {facts['batches']:,} batches, of which {facts['deletions']:,} delete"),
            ("times", f"{facts['first'] or '-'} to {facts['last'] or '-'}"),
            ("bytes", f"{facts['bytes']:,}"),
            ("positions", f"{facts['crs']}, {facts['metric']}"),
            ("ids, times", f"{facts['id_type']}, {facts['t_type']}"),
            ("columns", columns),
            ("periods", f"{len(facts['periods']):,}"),
        ]
    )
    header = ("order", "periods", "files", "leaves", "blocks", "rows", "bytes", "dead_bytes")
    print_columns(header, [[name, *(f"{one[key]:,}" for key in header[1:])] for name, one in facts["orders"].items()])


def files(history: PastHistory, version: OfVersion = None, as_json: Json = False) -> None:
    """Name the files that have the rows of a history, each row once: those by time that count."""
    from dtoss.history.maintenance.history_facts_of import counting_files
    from dtoss.history.versions import Home

    home = Home(history)
    at = home.version(version)
    found = counting_files(at)
    paths = [home.folder.path(*one.name.split("/")) for one in found]
    if as_json:
        facts = [{"file": path, "rows": one.rows, "bytes": one.bytes} for path, one in zip(paths, found, strict=True)]
        print(json.dumps({"version": at.number, "files": facts}))
        return
    for path in paths:
        print(path)


def log(
    history: PastHistory,
    count: Annotated[int, Option("How many of the last versions.", name="-n", more={"min": 1})] = 20,
    as_json: Json = False,
) -> None:
    """Say which versions a history had: when, by whom, what was done."""
    from dtoss.commits.table import log_of
    from dtoss.history.maintenance.history_table import table_of
    from dtoss.history.versions import Home

    home = Home(history)
    home.version()  # which says that there is none
    print_log(log_of(table_of(home), count), as_json)


def verify(
    history: PastHistory,
    version: OfVersion = None,
    restore: Annotated[bool, Option("Make again what is damaged, where another order has the same rows.")] = False,
    as_json: Json = False,
) -> int:
    """Read every file, compare every sum, and name what is damaged (exit code 2) or could not be read (1)."""
    from dtoss.history.maintenance.history_table import restore as restore_history
    from dtoss.history.maintenance.history_table import verify_history
    from dtoss.history.versions import Home

    home = Home(history)
    if not restore:
        looked = None if version is None else home.version(version)
        return print_reports({"history": verify_history(home, looked)}, as_json)
    done = restore_history(home, say=None if as_json else print)
    found = verify_history(home)
    found.damaged = [*done.lost, *found.damaged]
    made = [{"order": order, "period": period} for order, period in done.made]
    return print_reports({"history": found}, as_json, restored=made)


def gc(
    history: PastHistory,
    keep: Annotated[int, Option("Versions that stay, the newest one among them.")] = 1,
    keep_for: Annotated[
        float | None,
        Option("Versions that were the newest less than this ago stay too.", "TIME", parse=duration(), shown="10min"),
    ] = 600.0,
    now: Annotated[bool, Option("Only the newest version stays, and what others needed goes at once.")] = False,
    grace: Annotated[
        float,
        Option(
            "Files that are of no version stay for so long after the last touch: a writer may commit them.",
            "TIME",
            parse=duration(None, "--grace"),
            shown="1h",
        ),
    ] = 3600.0,
    retain: Annotated[float | None, Option("First remove rows that are older: 400d.", "TIME", parse=duration())] = None,
    as_json: Json = False,
) -> None:
    """Remove old versions, and files that no version needs; with --retain old rows, too."""
    from dtoss.history.maintenance.history_table import clear
    from dtoss.history.versions import Home

    home = Home(history)
    rows = _retain(home, retain)
    done = clear(home, keep=keep, keep_for=keep_for or 0.0, now=now, grace=grace)
    facts = {
        "version": done.version.number,
        "ended": done.ended,
        **asdict(done.removed),
        "rows": rows,
    }
    if as_json:
        print(json.dumps(facts))
        return
    old = "" if retain is None else f"{rows:,} old rows went, "
    print(f"version {done.version.number}: {old}{done.ended:,} versions ended, {done.removed} went")


def _retain(home: Home, seconds: float | None) -> int:
    """Remove rows that are older than so many seconds, and return how many they were."""
    if seconds is None:
        return 0
    from dtoss.history.maintenance.erase_rows import retain
    from dtoss.history.schema import MICROSECONDS, seconds_before

    kind = home.version().schema.t_type
    now = time.time() * (MICROSECONDS if kind == "timestamp" else 1)
    return retain(home, seconds_before(int(now), seconds, kind)).rows


def forget(
    history: PastHistory,
    id_: Annotated[list[str], Option("Of an object; may be repeated.")],
    as_json: Json = False,
) -> None:
    """Remove all rows of objects from all orders; dtoss history gc --now removes the versions that had them."""
    from dtoss.history.maintenance.erase_rows import forget as forget_objects
    from dtoss.history.versions import Home
    from pipelines.command.history.query_history import ids_of

    home = Home(history)
    done = forget_objects(home, ids_of(home.version().schema, id_))
    _say_dropped(done.version.number, done.rows, as_json)


def export(
    history: PastHistory,
    delta: Annotated[
        str,
        Option(
            "Folder of the Delta table: the history itself, or one on its disk. Nothing is copied.",
            "DIR",
            name="--delta",
            more={"show_default": False},
        ),
    ],
    version: OfVersion = None,
    as_json: Json = False,
) -> None:
    """Make a history a Delta table, or bring one up to date."""
    from dtoss.history.maintenance.delta import export_delta
    from dtoss.history.versions import Home

    done = export_delta(Home(history), delta, version)
    if as_json:
        print(json.dumps(asdict(done)))
        return
    print(
        f"version {done.version}: {done.rows:,} rows are version {done.table_version} of {delta}; {done.added:,} files "
        f"came, {done.removed:,} went"
    )


def _say_dropped(version: int, rows: int, as_json: bool) -> None:
    if as_json:
        print(json.dumps({"version": version, "rows": rows}))
        return
    print(f"version {version}: {rows:,} rows went; older versions have them until dtoss history gc --now")


def settle(
    history: PastHistory,
    orders: Annotated[
        str | None,
        Option(
            "Orders of full periods, by commas, kept for later: time,place if never said; time,place,object.", "NAMES"
        ),
    ] = None,
    leaf_bytes: Annotated[
        float | None, Option("Of a leaf by place: 2.5e6 on disks, 1e7 on object stores, if never said.")
    ] = None,
    period_bytes: Annotated[
        float | None,
        Option("Bytes by time from which on a period is full: of eight leaves if never said."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Merge small files, eight to one, and lay full periods out by place, and by object if that is wanted."""
    from dtoss.history.layouts.compaction import settle as settle_history
    from dtoss.history.versions import Home

    names = None if orders is None else [name.strip() for name in orders.split(",") if name.strip()]
    done = settle_history(Home(history), orders=names, leaf_bytes=leaf_bytes, period_bytes=period_bytes, say=note)
    facts = {
        "version": done.version.number,
        "merged": [{"periods": list(old), "into": new} for old, new in done.merged],
        "orders": [{"order": order, "period": period} for order, period in done.orders],
        "rows_written": done.rows,
    }
    if as_json:
        print(json.dumps(facts))
        return
    if not done.merged and not done.orders:
        print(f"version {done.version.number}: nothing is to be settled")
        return
    print(
        f"version {done.version.number}: {sum(len(old) for old, _ in done.merged):,} periods became "
        f"{len(done.merged):,}, {len(done.orders):,} orders were made, {done.rows:,} rows written"
    )


def adapt(
    history: PastHistory,
    request_bytes: Annotated[
        float | None,
        Option("What a request costs, as bytes read in its time; kept. By file system if never said."),
    ] = None,
    dry_run: Annotated[bool, Option("Only say what would be done, and what it saves.")] = False,
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
    dry_run: Annotated[bool, Option("Only measure; keep nothing.")] = False,
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


def report(
    out: Annotated[str, Option("Folder for report.html and report.json.", "FOLDER")],
    history: Annotated[str | None, Option("Path or URI of the history.", "H")] = None,
    named: Annotated[
        str | None, typer.Argument(help="The same, as it was named before.", metavar="HISTORY", show_default=False)
    ] = None,
    version: Annotated[int | None, Option("Of the history; the newest if not given.")] = None,
    a_day: Annotated[float, Option("Questions a day, for which requests, bytes and dollars are shown.")] = (1000.0),
    prices: Annotated[str | None, Option("Your prices, JSON; list prices where it names none.", "FILE")] = None,
    as_json: Annotated[bool, Option("Print JSON instead of a table.", name="--json")] = False,
) -> None:
    """Write what a history's questions cost, and would in other files, and where it is cut, as one page and JSON."""
    from pipelines.history_report import history_report, prices_in

    if (history is None) == (named is None):
        raise InputError(f"name one history (--history H), not {'two' if history else 'none'}")
    history = history or named
    assert history is not None
    check_folder("--out", out)
    given = None if prices is None else prices_in(prices)
    page = history_report(history, out, version=version, a_day=a_day, prices=given)
    numbers = json.loads(page.with_suffix(".json").read_text(encoding="utf-8"))
    if as_json:
        print(json.dumps(numbers))
        return
    print_table(_rows(numbers, page))


def _rows(numbers: dict[str, Any], page: Path) -> list[tuple[str, str]]:
    from pipelines.reports.history_page import saving_sentence

    said = saving_sentence(numbers) if numbers["contestants"] else "nothing is remembered of what was asked"
    return [("history", f"{numbers['history']}, version {numbers['version']}"), ("cost", said), ("page", str(page))]
