"""From a store to an open index: what :func:`dtoss.open` does."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dtoss.index import Index
    from dtoss.mapped_index import Verify
    from dtoss.snapshots.store import Store


def open_index(
    store: str | Store, snapshot: str | None = None, *, verify: Verify = False, lazy: bool | None = None
) -> Index:
    """Return the index of a snapshot; what :func:`dtoss.open` does.

    Parameters
    ----------
    store
        A path, a URI, or a :class:`~dtoss.snapshots.store.Store`.
    snapshot
        Its name; the current one when None.
    verify
        "touch" compares a fast checksum of each file when something in it is first read; True reads all files at once
        and compares their SHA-256. False leaves it at what is checked in any case: the manifest's fields and hash, the
        size of each file, and its structure before a query first reads it (:mod:`dtoss.snapshots.structure`), so that
        damage may make an answer wrong, but never a crash.
    lazy
        Find a file, of a partition or of the border table, only when a question first concerns it. None does so on
        remote file systems, where a file is read whole; on local ones all are memory-mapped at once, so that the index
        stays whole when its snapshot is removed.

    Raises
    ------
    StoreError
        If there is no such store or snapshot, or a file is missing, damaged or of another format; what is found when a
        partition is first read is raised then.
    ValueError
        If ``verify`` is none of these.

    Notes
    -----
    Nothing is parsed: cost O(partitions), and O(bytes) with ``verify=True``. A file that is changed or cut short by
    somebody else after its partition was first read is not noticed: the process may end by SIGBUS then.
    """
    from dtoss.snapshots.store import Store

    if verify not in (False, True, "touch"):
        raise ValueError(f"verify is {verify!r}: False, 'touch' or True is wanted")
    if not isinstance(store, Store):
        store = Store(str(store))
    if lazy is None:
        lazy = not store.local
    place, later = store, lazy

    def of(name: str) -> Index:
        # loads numba: not before it is known that there is a snapshot
        from dtoss.mapped_index import open_manifest

        return open_manifest(place, place.manifest(name), verify, later)

    return store.of_current(of) if snapshot is None else of(snapshot)
