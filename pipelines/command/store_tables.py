"""What a store holds, each part with its tables: whoever looks at all of a store goes through these."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dtoss.snapshots.store import Store as StorePlace

if TYPE_CHECKING:
    from dtoss.commits.log_compaction import Removal
    from dtoss.commits.table import Table
    from dtoss.commits.verify_report import VerifyReport


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
    from pipelines.load_patterns.patterns_folder import Home
    from pipelines.load_patterns.patterns_table import table_of, verify_live

    home = Home(store, name)
    table = table_of(home)
    return Part(table.name, lambda: [table], lambda: verify_live(home), lambda: tidy(table))


def _forgotten(store: str) -> Part:
    from dtoss.commits.table import tidy, verify
    from dtoss.erasure.forgotten import table_of

    table = table_of(store)
    return Part(table.name, lambda: [table], lambda: verify([table]), lambda: tidy(table))
