"""What the snapshots of a store are as a table: which files each manifest lists, and how these are looked at.

Commits say which one is current. Which of them stay is no matter of commits alone, and a snapshot goes as a whole
folder: that is for :mod:`dtoss.snapshots.retention` and :mod:`dtoss.snapshots.retention`.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from functools import partial
from typing import TYPE_CHECKING, Any

from dtoss.commits.file_entry import ANY_BYTES, FileEntry
from dtoss.commits.table import NamedFile, Table, verify
from dtoss.commits.verify_report import Look, VerifyReport, noting
from dtoss.errors import StoreError
from dtoss.snapshots.lineage import entries_of
from dtoss.snapshots.store import Store

if TYPE_CHECKING:
    import pyarrow as pa

    from dtoss.commits.chain import Commit
    from dtoss.snapshots.mapped_file import Source


def table_of(store: Store, snapshot: str | None = None) -> Table:
    """Return the table of the snapshots of a store. ``snapshot``: the only one to look at; all finished ones when None.

    It has no rooms: of a finished snapshot no file goes by itself.
    """
    walk = partial(_files_of, store, snapshot)
    return Table("snapshots", store.chain, (), walk, said=_facts_of, remedy="; roll back or rebuild")


def verify_store(store: Store, snapshot: str | None = None) -> VerifyReport:
    """Return what is wrong with a store, and what could not be read; nothing of what is found is an error.

    ``snapshot``: the only one to look at; all finished ones when None.

    Looked at are the table of it (:func:`dtoss.commits.table.verify`); of each snapshot the manifest against its
    commit; and what the files hold (:mod:`dtoss.snapshots.verify_store`). A snapshot that is removed meanwhile is left
    out. Cost O(bytes), and half a second of processor time a million objects, one where ids are strings.
    """
    look = Look()
    look.found.held = {"snapshots": [], "objects": 0}
    with noting(look.found):
        if snapshot is not None and snapshot not in (finished := store.snapshots()):
            raise StoreError(f"{store.shown} has no snapshot {snapshot!r}; it has {', '.join(finished) or 'none'}")
        verify([table_of(store, snapshot)], look)
        if not look.found.held["snapshots"]:
            store.current()  # which says what is missing
    return look.found


def _facts_of(commit: Commit) -> dict[str, Any]:
    said, names = commit.document, ("snapshot", "objects", "updated", "seconds")
    return {"what": said.get("kind"), **{name: said.get(name) for name in names}}


def _files_of(store: Store, snapshot: str | None, look: Look | None, numbers: range) -> Iterator[NamedFile]:
    if look is not None and numbers:
        # what is listed need not be warned of as well
        store.told(look.found.damaged)
        try:
            store.current()
        except StoreError as error:
            look.wrong(error)
    for name in store.snapshots() if snapshot is None else [snapshot]:
        if look is None:
            yield from _of_snapshot(store, name, store.manifest(name), {})
            continue
        before = deepcopy(look.found)
        yield from _looked_at(store, name, look)
        if look.found.damaged != before.damaged and name not in store.snapshots():
            look.found.become(before)  # it has gone meanwhile


def _looked_at(store: Store, snapshot: str, look: Look) -> Iterator[NamedFile]:
    from dtoss.snapshots.manifest import regions_of_manifest, space_of_manifest
    from dtoss.snapshots.verify_store import faults_of

    look.found.held.setdefault("snapshots", []).append(snapshot)
    path = store.file("snapshots", snapshot, "manifest.json")
    try:
        manifest = store.manifest(snapshot)
        space_of_manifest(manifest)
        regions_of_manifest(manifest)
    except StoreError as error:
        look.wrong(error if path in str(error) else type(error)(f"{path}: {error}"))
        return
    look.found.hold("objects", manifest["objects"])
    sources: dict[str, Source] = {}
    yield from _of_snapshot(store, snapshot, manifest, sources)
    for file, what in faults_of(manifest, sources):
        look.wrong(what if file is None else f"{store.file('snapshots', snapshot, file)} is damaged: {what}")


def _of_snapshot(
    store: Store, snapshot: str, manifest: dict[str, Any], sources: dict[str, Source]
) -> Iterator[NamedFile]:
    """Yield the files of a manifest; those that are whole come to be among the sources, by their names there."""

    def check(entry: dict[str, Any], look: Look, path: str, data: pa.Buffer, file: FileEntry) -> None:
        from dtoss.snapshots.mapped_file import Source
        from dtoss.snapshots.read_file import check_sum

        source = Source(path, data)
        try:
            if not file.sha256:
                check_sum(source, entry)
            sources[entry["file"]] = source
        except StoreError as error:
            look.wrong(error)

    for entry in entries_of(manifest):
        room, _, name = f"snapshots/{snapshot}/{entry['file']}".rpartition("/")
        file = FileEntry(name, 0, entry.get("bytes", ANY_BYTES), entry.get("sha256", ""))
        yield NamedFile(room, file, check=partial(check, entry), mapped=True)
