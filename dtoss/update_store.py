"""Merging a frame of moved objects with what stands in a store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dtoss.extras import load_installed
from dtoss.snapshots.store import Store

if TYPE_CHECKING:
    from os import PathLike

    from dtoss.frames.arrow_tables import Frame


def update(
    store: str | PathLike[str] | Store,
    frame: Frame,
    *,
    deleted: str | None = None,
    now: Any = None,
    expire: float | None = None,
    max_bad: float = 0.10,
    keep: int | None = 3,
    keep_for: float | None = None,
    lease: bool = True,
) -> str:
    """Merge rows with the current snapshot of a store, and return the name of the snapshot that is current then.

    It is a cycle, as ``dtoss rebuild --updates`` makes it of files: of all rows of an id, those that stand and those of
    the frame, the latest one stays, whatever order they come in. A row is the whole object.

    Parameters
    ----------
    store
        A path, a URI, or a :class:`~dtoss.snapshots.store.Store` with a snapshot that has times
        (``Index.save(store, time=)``, ``dtoss rebuild --time``).
    frame
        As :func:`dtoss.build` takes it, with the columns that the store was built of. Rows that cannot be used are set
        aside and counted, as those of files.
    deleted
        The column that says of a row whether it deletes its object; at equal times the deletion wins.
    now
        When the cycle happens: ISO 8601 (UTC), or a number as the times are; None is the clock's time. Rows of
        more than five minutes later are set aside.
    expire
        Seconds after which an object goes that was not heard of; None is never.
    max_bad
        The share of rows that may be unusable.
    keep, keep_for, lease
        As :meth:`dtoss.Index.save`.

    Raises
    ------
    InputError
        If rows do not fit the store, too many are bad, or no object would be left; the snapshot that was current stays.
    StoreError
        If the store has no snapshot or no times, another process writes, or others committed first, three times in a
        row.
    TypeError
        If ``frame`` is no frame.
    ValueError
        If ``store`` is no path, or another argument out of its bounds.

    Notes
    -----
    Dissertation, sections 3.4.6 and 3.4.11. :func:`pipelines.cycle.cycle` has the other options, also for DataFrames of
    Spark. Cost O(n) in the objects of partitions that something has changed for; others are linked.

    Examples
    --------
    >>> from tempfile import mkdtemp
    >>> import dtoss
    >>> store = mkdtemp()
    >>> rows = {"id": [7, 8], "lon": [0.0, 1.0], "lat": [0.0, 0.0], "t": [10, 10]}
    >>> name = dtoss.build(rows).save(store)
    >>> moved = dtoss.update(store, {"id": [8], "lon": [5.0], "lat": [0.0], "t": [20]}, now=30)
    >>> dtoss.open(store).snapshot == moved, dtoss.open(store).knn([0.9, 0.0]).id.tolist()
    (True, [7])
    """
    home = Store.at(store)
    home.current()  # where there is none, nobody has said what the first one is
    cycle = load_installed("dtoss.jobs", "cycle")
    manifest = cycle(
        frame, home.path, deleted=deleted, now=now, expire=expire, max_bad=max_bad, keep=keep, keep_for=keep_for,
        lease=lease,
    )  # fmt: skip
    return str(manifest["snapshot"])
