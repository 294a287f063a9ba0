"""What keeps a store in order: clearing it, its log of commits, and all parts that it holds, each with its tables.

``dtoss forget``: a person out of all that a store and its histories hold.

The command that looks at everything in a store.

``dtoss warm``: compile before anyone waits for it.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dtoss.compiled.kept_places import only_native
from dtoss.compiled.notice import COMPILING_SAID, QUIET, quiet
from dtoss.compiled.second_process import SECOND, can_start, program
from dtoss.locks import processors
from dtoss.option import Option
from dtoss.snapshots.store import Store as StorePlace
from pipelines.command.terminal.notes import note
from pipelines.command.terminal.options import Json, Snapshot, Store
from pipelines.command.terminal.output import print_log, print_reports
from pipelines.options.said_amounts import duration
from pipelines.options.snapshot_options import Lease

if TYPE_CHECKING:
    from dtoss.commits.log_compaction import Removal
    from dtoss.commits.table import Table
    from dtoss.commits.verify_report import VerifyReport
    from pipelines.forget import Report


def gc(
    store: Store,
    keep: Annotated[int, Option("Snapshots that stay for rollback, the new one among them.")] = 3,
    keep_for: Annotated[
        float | None,
        Option("Snapshots that were current less than this ago stay too.", "TIME", parse=duration(), shown="10min"),
    ] = 600.0,
    lease: Lease = True,
    as_json: Json = False,
) -> None:
    """Remove old snapshots, and what unfinished work left of all that a store holds; fold old commits."""
    from dtoss.snapshots.store import Store as StorePlace

    if keep < 1:
        raise ValueError(f"keep is {keep!r}: a whole number of at least 1 is wanted")
    place = StorePlace(store)
    if not place.folder.there():
        place.current()  # which says so: no store is made where there is none
    removed = place.clear(keep, keep_for=keep_for or 0.0, lease=lease)
    others = {one.name: one.clear() for one in parts_of(store) if one.clear is not None}
    if as_json:
        more = {"tables": {name: asdict(gone) for name, gone in others.items()}} if others else {}
        print(json.dumps({"removed": removed, "snapshots": place.snapshots(), **more}))
        return
    for name in removed:
        print(f"{name} is removed")
    for name, gone in others.items():
        if gone.files:
            print(f"{gone} went of {name}")
    print(f"{len(place.snapshots()):,} snapshots stay")


def log(
    store: Store,
    count: Annotated[int, Option("How many of the last commits.", name="-n", more={"min": 1})] = 20,
    as_json: Json = False,
) -> None:
    """Say which commits a store had, with its watches, windows and live patterns: when, by whom, what was done."""
    from dtoss.commits.table import log_of
    from dtoss.snapshots.store import Store as StorePlace
    from dtoss.snapshots.store import on_stderr

    tables = [table for one in parts_of(store) for table in one.tables()]
    commits = [facts for table in tables for facts in log_of(table, count, on_stderr)]
    if not commits:
        StorePlace(store).current()  # which says that there is none
    print_log(sorted(commits, key=lambda one: one["time"], reverse=True)[:count], as_json)


def forget(
    store: Annotated[str | None, Option("Path or URI of the store, with its watches and windows.")] = None,
    history: Annotated[
        list[str] | None,
        Option("Path or URI of a history; may be repeated.", "H"),
    ] = None,
    id_: Annotated[list[str] | None, Option("Of an object; may be repeated.", "ID")] = None,
    ids: Annotated[str | None, Option("A file with an id a line.", "FILE")] = None,
    updates: Annotated[
        list[str] | None,
        Option("Files and folders of yours to look through; may be repeated.", "PATH"),
    ] = None,
    dry_run: Annotated[bool, Option("Say what would go, and change nothing.")] = False,
    allow_again: Annotated[bool, Option("Instead: let rows of these ids count again from now on.")] = False,
    as_json: Json = False,
) -> None:
    """Remove objects from snapshots, histories, watches and windows, keep them away, and say what is left."""
    from dtoss.errors import InputError
    from pipelines.forget import allow_again as allow
    from pipelines.forget import forget as forget_objects

    named = [*(id_ or []), *_read_ids(ids)]
    if allow_again:
        if dry_run or updates:
            raise InputError("--allow-again changes who may come, and nothing else: leave --dry-run and --updates out")
        count = allow(store, named, histories=history or [])
        print(json.dumps({"ids": len(set(named)), "allowed": count}) if as_json else f"{count:,} ids may come again")
        return
    report = forget_objects(store, named, histories=history or [], updates=updates or [], dry_run=dry_run)
    if as_json:
        print(json.dumps(asdict(report)))
        return
    _print(report)


def _read_ids(file: str | None) -> list[str]:
    """Return the ids of a file, a line each."""
    from dtoss.errors import InputError

    if file is None:
        return []
    try:
        lines = Path(file).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"--ids {file} cannot be read: {error}") from None
    return [line.strip() for line in lines if line.strip()]


def _print(report: Report) -> None:
    from pipelines.command.terminal.output import print_columns

    ids = "1 id" if report.ids == 1 else f"{report.ids:,} ids"
    if report.dry:
        print(f"{ids} would be forgotten; nothing has changed")
    else:
        print(f"{ids} forgotten, {report.remembered:,} of them anew")
    if report.went:
        head = ("would go from", "what", "how many") if report.dry else ("gone from", "what", "how many")
        print_columns(head, [[one.where, one.what, f"{one.count:,}"] for one in report.went])
    else:
        print("nothing was held of them")
    if report.stays:
        print_columns(("left in", "what", "until"), [[one.where, one.what, one.until] for one in report.stays])


Watch = Annotated[
    str | None,
    Option("Look at a watch alone; default if none is named.", "[NAME]", name="--watch"),
]
Windows = Annotated[str | None, Option("Look at windows alone.", "NAME", name="--windows")]
Patterns = Annotated[str | None, Option("Look at live patterns alone.", "NAME", name="--patterns")]


def verify(
    store: Store,
    snapshot: Snapshot = None,
    watch: Watch = None,
    windows: Windows = None,
    patterns: Patterns = None,
    as_json: Json = False,
) -> None:
    """Look at all that a store holds: every checksum, commits, and what files hold; name each file that is damaged."""
    kinds = {"snapshot": snapshot, "watch": watch, "windows": windows, "patterns": patterns}
    given = [(kind, name) for kind, name in kinds.items() if name is not None]
    if len(given) > 1:
        raise ValueError(f"--{given[0][0]} and --{given[1][0]} are both given: one of them is wanted")
    parts = [part_of(store, *given[0])] if given else parts_of(store)
    code = print_reports({one.name: one.verify() for one in parts}, as_json)
    if code:
        raise typer.Exit(code)


_FROM_THE_END = """
from dtoss.compiled.beside import end_with_parent
end_with_parent()
from ceps.warm_planners import warm as warm_planning
from dtoss.warm import kernels, warm
warm_planning()
warm(names=kernels()[::-1])
"""


def warm() -> None:
    """Compile everything for this processor now, not when it is first needed; what is compiled is kept.

    Two processes do it where there are two cores: kernels of the index from their first on, and those of planning,
    then of the index from their last on. Who comes to a kernel that the other compiles takes what that one made.
    """
    note("compiling for this processor: two minutes of it where nothing is compiled yet")
    told = {} if quiet() else {QUIET: COMPILING_SAID}
    may = can_start() and processors() > 1
    with only_native(**{SECOND: "1"}, **told):  # the second process of this command does what another would
        other = subprocess.Popen(**program(_FROM_THE_END), stdin=subprocess.PIPE) if may else None
        try:
            from dtoss.warm import warm as warm_index

            count = warm_index(note)
            note("and those of planning")
            if other is None or other.wait() != 0:
                from ceps.warm_planners import warm as warm_planning

                warm_planning()
        finally:
            if other is not None:
                with other:  # closes its pipe, and waits for it
                    other.kill()
    print(f"{count} kernels of the index are compiled, and those of planning")


@dataclass(frozen=True)
class Part:
    """Snapshots, a watch, windows, live patterns, or who is forgotten."""

    name: str  # What it is, and how it is called
    tables: Callable[[], Sequence[Table]]
    verify: Callable[[], VerifyReport]
    # Removes what nothing needs; None of snapshots, which go as whole folders, by how many are kept
    clear: Callable[[], Removal] | None


def parts_of(store: str) -> list[Part]:
    """Return what a store holds, its snapshots first; these also where there is nothing, so that they say so."""
    others = list(_beside_snapshots(store))
    place = StorePlace(store)
    snapshots = not others or any(place.chain.listed()) or place.snapshots()
    return [_snapshots(place), *others] if snapshots else others


def part_of(store: str, kind: str, name: str) -> Part:
    """Return a part of a store by an option of `dtoss verify`, whether it is there or not."""
    makers = {"watch": _watch, "windows": _windows, "patterns": _patterns}
    return makers[kind](store, name) if kind in makers else _snapshots(StorePlace(store), name)


def _snapshots(place: StorePlace, snapshot: str | None = None) -> Part:
    def tables() -> Sequence[Table]:
        from dtoss.snapshots.snapshots_table import table_of

        return [table_of(place, snapshot)]

    def verify() -> VerifyReport:
        from dtoss.snapshots.snapshots_table import verify_store

        return verify_store(place, snapshot)

    return Part("snapshots", tables, verify, None)


def _beside_snapshots(store: str) -> Iterator[Part]:
    """Yield the others. What is not there costs a listing, and loads no library."""
    from dtoss.commits.chain import names_in, path_in
    from dtoss.snapshots.store_location import folder_of
    from dtoss.watch.watch_folder import watches_of
    from dtoss.windows.storage.window_document import windows_of

    for name in watches_of(store):
        yield _watch(store, name)
    for name in windows_of(store):
        yield _windows(store, name)
    for name in names_in(folder_of(path_in(store, "patterns"))):
        yield _patterns(store, name)
    if folder_of(path_in(store, "forgotten")).there():
        yield _forgotten(store)


def _watch(store: str, name: str) -> Part:
    from dtoss.watch.events.watch_tables import clear_watch, tables_of, verify_watch
    from dtoss.watch.watch_folder import Home

    home = Home(store, name)
    return Part(f"watch {name}", lambda: tables_of(home), lambda: verify_watch(home), lambda: clear_watch(home))


def _windows(store: str, name: str) -> Part:
    from dtoss.windows.processing.windows_tables import clear_sets, tables_of, verify_windows
    from dtoss.windows.storage.window_document import Home

    home = Home(store, name)
    return Part(f"windows {name}", lambda: tables_of(home), lambda: verify_windows(home), lambda: clear_sets(home))


def _patterns(store: str, name: str) -> Part:
    from dtoss.commits.table import tidy
    from pipelines.load_patterns.live_patterns import table_of, verify_live
    from pipelines.load_patterns.patterns_folder import Home

    home = Home(store, name)
    table = table_of(home)
    return Part(table.name, lambda: [table], lambda: verify_live(home), lambda: tidy(table))


def _forgotten(store: str) -> Part:
    from dtoss.commits.table import tidy, verify
    from dtoss.erasure.forgotten import table_of

    table = table_of(store)
    return Part(table.name, lambda: [table], lambda: verify([table]), lambda: tidy(table))
