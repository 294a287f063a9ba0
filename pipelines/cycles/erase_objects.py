"""Objects out of a store: a snapshot without them becomes current, then those go that have them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa

from dtoss.commits.chain import Commit
from dtoss.commits.columnar_files import encode_rejected, read_rejected
from dtoss.commits.lease import Writer
from dtoss.erasure.forgotten import Mentions, among, without_mentions
from dtoss.partition import Ids
from dtoss.rows.input_columns import attribute_column
from dtoss.snapshots.lineage import runs_of
from dtoss.snapshots.manifest import make_manifest, write_tombstones
from dtoss.snapshots.partition_file import checksum, decode
from dtoss.snapshots.read_file import link_runs, tombstones_of
from dtoss.snapshots.retention import KEPT_FOR_SECONDS, remove_snapshot, snapshot_of, why_unfinished
from dtoss.snapshots.store import Store
from pipelines.cycles.arrivals import Arrivals, Place
from pipelines.cycles.build_tasks import BuildPlan
from pipelines.cycles.current_state import Stands, stands_of
from pipelines.cycles.merge_tasks import CyclePlan, erased_of
from pipelines.cycles.newer_updates import Findings
from pipelines.cycles.upsert_rules import Ruling
from pipelines.cycles.write_snapshot import renew_snapshot
from pipelines.engines.progress import Stages

QUARANTINE = "quarantine"


@dataclass(frozen=True)
class Held:
    """What a snapshot has of somebody."""

    objects: int = 0
    deletions: int = 0
    rejected: int = 0  # Rows that were set aside

    def __bool__(self) -> bool:
        return bool(self.objects or self.deletions or self.rejected)


@dataclass(frozen=True)
class ErasedStore:
    """What went of a store, or would go."""

    current: Held = Held()  # What the current snapshot had
    made: str | None = None  # The snapshot that became current instead; None where the current one had nothing
    removed: tuple[str, ...] = ()
    # Those that stay for readers who may be opening them, each with until when
    waiting: tuple[tuple[str, datetime], ...] = ()
    # Folders that are no snapshots and stay, each with the reason: they may have anything
    unfinished: tuple[tuple[str, str], ...] = ()


def erase_objects(
    home: Store,
    ids: pa.Array,
    mentions: Callable[[str | None], Mentions],
    held: Writer | None,
    warn: Callable[[str], None],
    *,
    dry: bool = False,
) -> ErasedStore:
    """Make a snapshot without some objects current, remove those that have them, and return what was done.

    ``home``: the store; one without a snapshot has nothing; ``mentions``: returns the same for rows as they were read,
    of the name of the column of ids; ``held``: the right to write to the store; None where nothing is to be changed;
    ``warn``: is told what could not be removed.

    Pivots, bounds and lambdas stay. Partitions that know nothing of the objects are linked; of the others and of the
    borders the files are byte for byte those of a rebuild of the rows that are left. Where it is ended on its way, the
    next call goes on.
    """
    if not dry:
        home.clear(None, lock=held, warn=warn)
    names = home.snapshots()
    if not names:
        return ErasedStore(unfinished=_left(home))
    # before the snapshot is looked at: who commits meanwhile, without a lease, is not overwritten
    head = home.head()
    last = home.current()
    manifest = home.manifest(last)
    here = _count_held(home, manifest, ids, mentions)
    others = [name for name in names if name != last and _count_held(home, home.manifest(name), ids, mentions)]
    if dry:
        return ErasedStore(here, last if here else None, (*others, *([last] if here else [])), unfinished=_left(home))
    made = None
    if here:
        made = _without(home, head, manifest, ids, mentions, held, warn)
        others.append(last)
    kept_for = 0.0 if home.local else KEPT_FOR_SECONDS
    ended = _ends_of(home, others)
    removed, waiting = [], []
    for name in others:
        until = ended.get(name, datetime.min.replace(tzinfo=UTC)) + timedelta(seconds=kept_for)
        if kept_for and until > datetime.now(UTC):
            waiting.append((name, until))
        elif remove_snapshot(home.folder, name, home.current):
            removed.append(name)
    return ErasedStore(here, made, tuple(removed), tuple(waiting), _left(home))


def _left(home: Store) -> tuple[tuple[str, str], ...]:
    return tuple((name, why_unfinished(home.folder, name)) for name, _ in home.unfinished())


def _ends_of(home: Store, names: Sequence[str]) -> dict[str, datetime]:
    """Return when snapshots ceased to be current, as far as commits say."""
    found: dict[str, datetime] = {}
    since = None
    for commit in home.chain.newest_first():
        name = snapshot_of(commit)
        if name is not None and name in names and name not in found and since is not None:
            found[name] = since
        since = commit.at
    return found


def _count_held(
    home: Store, manifest: dict[str, Any], ids: pa.Array, mentions: Callable[[str | None], Mentions]
) -> Held:
    name, objects = manifest["snapshot"], 0
    for entry in manifest["partitions"]:
        source = home.source(name, entry["file"], entry["bytes"])
        partition = decode(source.data, source.path)
        objects += int(among(_arrow(partition.ids)[: partition.owned_objects], ids).sum())
    buried = tombstones_of(home, manifest)
    deletions = 0 if buried is None else int(among(buried.column("id"), ids).sum())
    speaks = mentions(_id_column(manifest))
    rejected = 0
    for entry in manifest.get("quarantine", ()):
        rows = read_rejected(home.folder, "snapshots", name, *entry["file"].split("/"))
        rejected += int(speaks.mask(rows.column("row")).sum())
    return Held(objects, deletions, rejected)


def _arrow(ids: Ids) -> pa.Array:
    return ids if isinstance(ids, pa.Array) else pa.array(ids)


def _id_column(manifest: dict[str, Any]) -> str | None:
    source = manifest.get("source") or {}
    return source.get("id")


def _without(
    home: Store,
    head: Commit | None,
    last: dict[str, Any],
    ids: pa.Array,
    mentions: Callable[[str | None], Mentions],
    held: Writer | None,
    warn: Callable[[str], None],
) -> str:
    """Make a snapshot without objects current, after a commit, and return its name."""
    stands = stands_of(home, last, timed=False)
    stages = Stages(None)
    with home.fresh(warn) as snapshot:
        place = Place(home, snapshot)
        place.make()
        build = BuildPlan(home, snapshot, stands.space, stands.regions, stands.reach, stands.bounds, stands.order)
        carried = tuple((attribute_column(name), name) for name in stands.order)
        plan = CyclePlan(
            build, last["snapshot"], tuple(stands.entries), Arrivals(place), stands.scale, -np.inf, carried,
            ids.cast(pa.large_string()) if stands.string_ids else ids,
        )  # fmt: skip
        found = [_find_erased(plan, number) for number in range(len(stands.entries))]
        made = renew_snapshot(None, plan, Ruling.of((), ()), found, False, stands, stages)
        place.clear()
        manifest = _manifest(snapshot, last, stands, stages, made.entries, made.borders)
        link_runs(home, snapshot, last["snapshot"], runs_of(last))
        manifest["tombstones"] = _write_tombstones(home, snapshot, last, ids)
        manifest["quarantine"] = _aside(home, snapshot, last, mentions(_id_column(last)))
        home.finish(snapshot, manifest, held, after="head" if head is None else head)
    return snapshot


def _find_erased(plan: CyclePlan, number: int) -> Findings:
    partition = plan.standing(number, compared=True)
    mask = erased_of(plan, partition)
    mine = int(mask[: partition.owned_objects].sum())
    return Findings(number, None, 0, 0, False, mine, bool(mask.any()))


def _manifest(
    snapshot: str,
    last: dict[str, Any],
    stands: Stands,
    stages: Stages,
    entries: list[dict[str, Any]],
    borders: dict[str, Any],
) -> dict[str, Any]:
    """Return the manifest of the last snapshot, with other files; nothing of it says where anybody was."""
    objects = sum(entry["objects"] for entry in entries)
    manifest = make_manifest(
        snapshot,
        datetime.now(UTC).isoformat(timespec="seconds"),
        stands.space,
        stands.regions,
        stands.reach,
        stands.bounds,
        entries,
        borders,
        id_type=last["id_type"],
        columns=last["columns"],
        time=last["time"],
        ledger=last["ledger"],
        clock=last["clock"],
        policy=last["policy"],
        cycle=last["cycle"],
        source=last["source"],
        parameters=last["parameters"],
        counts={**last["counts"], "kept": objects, "erased": stands.objects - objects},
        timings={name: round(seconds, 3) for name, seconds in stages.seconds.items()},
    )
    manifest["renamed"] = last.get("renamed", {})
    taken = {name: value for name, value in (last.get("input") or {}).items() if name not in ("box", "times")}
    manifest["input"] = {"box": None, "times": None} | taken
    return manifest


def _write_tombstones(home: Store, snapshot: str, last: dict[str, Any], ids: pa.Array) -> dict[str, Any] | None:
    buried = tombstones_of(home, last)
    if buried is None:
        return None
    kept = buried.filter(pa.array(~among(buried.column("id"), ids)))
    left, times = (kept.column(name).combine_chunks() for name in ("id", "t"))
    since = last["tombstones"].get("since")
    return write_tombstones(
        home, snapshot, left if pa.types.is_large_string(left.type) else left.to_numpy(), times, since
    )


def _aside(home: Store, snapshot: str, last: dict[str, Any], mentions: Mentions) -> list[dict[str, Any]]:
    entries = []
    if last.get("quarantine"):
        home.folder.make("snapshots", snapshot, QUARANTINE)
    for entry in last.get("quarantine", ()):
        rows = read_rejected(home.folder, "snapshots", last["snapshot"], *entry["file"].split("/"))
        kept = without_mentions(rows, mentions)
        if len(kept) == len(rows):
            home.link(snapshot, entry["file"], last["snapshot"])
            entries.append(entry)
        elif len(kept):
            data = encode_rejected(kept)
            digest = checksum(data)
            file = f"{QUARANTINE}/{digest[:16]}.parquet"
            home.write(snapshot, file, data)
            entries.append({"file": file, "rows": len(kept), "bytes": data.size, "sha256": digest})
    return sorted(entries, key=lambda one: one["file"])
