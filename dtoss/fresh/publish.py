"""A generation made known: the next snapshot of a store in memory, most of whose files are those of the last one."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from dtoss.commits.chain import COMMITS, Commit, file_of
from dtoss.fresh.standing import Standing
from dtoss.merge_rows import record_of
from dtoss.partition import Partition, values_of
from dtoss.save_index import SnapshotRecord, copy_snapshot, write_snapshot
from dtoss.snapshots.manifest import write_borders, write_partition, write_tombstones
from dtoss.snapshots.snapshot_orphans import remove_snapshot, warning
from dtoss.snapshots.store import Store, on_stderr

KEPT_GENERATIONS = 4
"""How many stay in the store; who has opened one keeps it."""
KEPT_COMMITS = 100
"""More than there are generations: each has its commit."""


@dataclass(frozen=True)
class Published:
    """A generation that was made known."""

    name: str  # Of its snapshot
    commit: Commit
    partitions: tuple[Partition, ...]  # In the order of their numbers
    tombstones: pa.Table | None
    manifest: Mapping[str, Any]

    @property
    def number(self) -> int:
        """Which generation it is; the numbers rise, also over builders."""
        return self.commit.number


def publish(
    standing: Standing,
    home: Store,
    before: Published | None,
    keep: int = KEPT_GENERATIONS,
    commits: int = KEPT_COMMITS,
    threads: int = 1,
    server: int | None = None,
) -> Published:
    """Make what stands the current snapshot of a store, and return it; who writes to it meanwhile is a conflict.

    ``before``: what this process published last; a partition that is the same object as there is a link to its file;
    ``keep``, ``commits``: how many generations and commits stay; ``threads``: write files side by side; ``server``:
    that of a plan which makes it, None for one that is alone. The manifest's ``fresh`` says ``base``, ``commit``,
    ``seq``, ``generation`` and ``server``. Cost O(n) in the objects of the other partitions, O(b) for all borders, and
    O(d) for the deletions that are remembered, where one is new or ends.
    """
    last = home.last() if before is None else before.commit
    partitions = standing.index.parts.all()
    same: dict[int, dict[str, Any]] = {}
    if before is not None:
        pairs = zip(partitions, before.partitions, before.manifest["partitions"], strict=False)
        same = {one.number: entry for one, other, entry in pairs if one is other}
    with home.fresh() as snapshot:

        def entry_of(partition: Partition, area: float) -> dict[str, Any]:
            entry = same.get(partition.number)
            if entry is None or before is None:
                return write_partition(home, snapshot, partition, area, lasts=False)
            home.link(snapshot, entry["file"], before.name)
            return entry

        def entry_of_borders() -> dict[str, Any]:
            table = standing.index.border  # whose cells are cut now
            assert table is not None  # all partitions are there
            return write_borders(home, snapshot, table, lasts=False)

        opened = standing.index._record
        if isinstance(opened, SnapshotRecord) and not same:
            manifest = copy_snapshot(opened, home, snapshot)
        else:
            record = record_of(standing.index)
            with ThreadPoolExecutor(threads) as pool:
                borders = pool.submit(entry_of_borders)
                entries = list(pool.map(entry_of, partitions, record.areas))
            manifest = write_snapshot(
                home,
                snapshot,
                standing.index,
                record,
                partitions,
                record.source.time,
                entry_of=lambda partition, area: entries[partition.number],
                borders=borders.result(),
            )
        # also of what was copied: rows may have deleted what does not stand
        manifest["tombstones"] = _entry_of_tombstones(standing, home, snapshot, before)
        manifest["fresh"] = {
            "base": standing.base,
            "commit": standing.commit,
            "seq": standing.seq,
            "generation": 1 if last is None else last.number + 1,
        }
        if server is not None:
            manifest["fresh"]["server"] = server
        commit = home.finish(snapshot, manifest, None, last, sync=False)
    with warning(on_stderr, home.shown):
        _clear(home, keep, commit.number - commits)
    return Published(snapshot, commit, partitions, standing.tombstones, manifest)


def _entry_of_tombstones(
    standing: Standing, home: Store, snapshot: str, before: Published | None
) -> dict[str, Any] | None:
    """See to the file of the deletions that are remembered, and return its entry; None where there were never any."""
    gone = standing.tombstones
    if gone is None:
        return None
    if before is not None and gone is before.tombstones:
        entry: dict[str, Any] = before.manifest["tombstones"]
        home.link(snapshot, entry["file"], before.name)
        return entry
    ids, times = (gone.column(name).combine_chunks() for name in ("id", "t"))
    since = None if standing.too_old is None else standing.too_old.since
    held = ids if standing.index.string_ids else values_of(ids)
    return write_tombstones(home, snapshot, held, times, since)


def _clear(home: Store, keep: int, gone: int) -> None:
    """Remove all but the last ``keep`` generations, and the commits up to ``gone``: there are a million a day."""
    for name in sorted(home.folder.folders("snapshots"))[:-keep]:
        remove_snapshot(home.folder, name, lambda: None)
    for number in home.chain.listed()[0]:
        if number <= gone:
            home.folder.remove(COMMITS, file_of(number))
