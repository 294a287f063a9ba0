"""Cycles without Spark: the tasks of a cycle in their order, and a full build that shares none of them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from dtoss.buckets import hashes_of
from dtoss.building.border import fix
from dtoss.building.construct import construct
from dtoss.geometry.space import space_of
from dtoss.partitioning.assign import assign
from dtoss.partitioning.pivots import choose_pivots
from dtoss.rows.store_clock import Clock
from dtoss.snapshots.manifest import make_manifest, write_borders, write_partition
from dtoss.snapshots.partition_file import decode, encode, encode_border
from dtoss.snapshots.store import Store
from pipelines.cycles.arrivals import Arrivals, Place, send
from pipelines.cycles.build_tasks import BuildPlan
from pipelines.cycles.current_state import stands_of
from pipelines.cycles.merge_tasks import compare
from pipelines.cycles.store_now import HeardQuery, hear_times
from pipelines.cycles.upsert_rules import Ruling, UpsertRules, remember, rule
from pipelines.cycles.write_snapshot import plan_of, renew_snapshot
from pipelines.engines.progress import Stages
from tests.update_worlds import LONLAT, PLANE, table

CARRIED = (("a:name", "name"), ("a:size", "size"))
BOX = np.array([-2e6, -2e6, 2e6, 2e6])


def state_of(partitions, *, plane=False, seed=0):
    """Space, regions, lambdas and bounds of so many partitions round the awkward places."""
    space = space_of("none" if plane else None, None)
    places = np.array(PLANE if plane else LONLAT) + 0.0
    rng = np.random.default_rng(seed)
    low, high = (places.min(axis=0), places.max(axis=0))
    anywhere = rng.uniform(low, high, (60, 2))
    regions = choose_pivots(space.vectors(np.concatenate([places, anywhere])), partitions, seed=seed)
    reach = np.full(partitions, np.inf if partitions == 1 else (40.0 if plane else 0.05))
    return space, regions, reach, BOX if plane else None


def begun(path, state, *, string_ids=False):
    """A store whose snapshot has these partitions and no object."""
    store = Store(str(path))
    rows = table([], string_ids=string_ids)
    with store.writer(lambda _: None) as lock, store.fresh() as snapshot:
        entries, borders = _full(store, snapshot, state, rows, string_ids)
        manifest = _manifest(snapshot, state, entries, borders, string_ids, None)
        store.finish(snapshot, manifest | {"quarantine": [], "renamed": {}, "input": None}, lock)
    return store


def full_bytes(state, rows, *, string_ids=False):
    """The files of a build of all rows: of each partition, and last the border table."""
    built = _built(state, rows, string_ids)
    borders = fix([one.border for one in built], state[3])
    return [bytes(encode(one.partition)) for one in built] + [bytes(encode_border(borders))]


def stored_bytes(store):
    """The same of a store's current snapshot."""
    manifest = store.manifest()
    files = [entry["file"] for entry in [*manifest["partitions"], manifest["borders"]]]
    return [bytes(store.source(manifest["snapshot"], file).data) for file in files]


def cycled(store, rows, *, now, expire=None, deleted_for=None, tasks=1, plane=False, deletes=True, told=None):
    """One cycle in place; returns the counts of its manifest. ``told``: takes what tasks say."""
    stands = stands_of(store, store.manifest())
    clock = Clock(stands.scale, float(now), "given", expire, deleted_for, None)
    stages = Stages()
    with store.writer(lambda _: None) as lock, store.fresh() as snapshot:
        place = Place(store, snapshot)
        place.make()
        sent = []
        for task in range(tasks):
            some = rows.filter(pa.array(hashes_of(rows.column("id").combine_chunks()) % tasks == task))
            sent.append(
                send(
                    place,
                    task,
                    _named(some, plane).to_batches(),
                    ["a:name", "a:size"],
                    stands.regions,
                    stands.reach,
                    stands.space,
                )
            )
        arrivals = Arrivals(place, tuple(one for one in sent if one is not None), tasks)
        names = tuple(name for _, name in CARRIED)
        build = BuildPlan(store, snapshot, stands.space, stands.regions, stands.reach, stands.bounds, names)
        plan = plan_of(stands, build, arrivals, clock, CARRIED)
        compared = [one for some in _shares(len(stands.entries), tasks) for one in compare(plan, some)]
        found = [one for some in compared for one in some.findings]
        upsert = UpsertRules(arrivals, stands.deletions, clock, deletes, True)
        files = _shares(len(arrivals.parcels), 2)
        said = [one.verdicts for one in compared]
        ruled = [one for some in files for one in rule(upsert, said, some)]
        ruling = Ruling.of(found, ruled)
        if told is not None:
            asked = HeardQuery(0.0, 0.0, 60.0, len(arrivals))
            told += [sent, compared, ruled, hear_times(plan, asked, range(len(stands.entries)))]
        made = renew_snapshot(None, plan, ruling, found, False, stands, stages)
        remembers = stands.deletions is not None or (deletes and len(arrivals))
        tombstones = remember(upsert, ruling.deletions) if remembers else None
        place.clear()
        state = (stands.space, stands.regions, stands.reach, stands.bounds)
        manifest = _manifest(snapshot, state, made.entries, made.borders, stands.string_ids, tombstones)
        store.finish(snapshot, manifest | {"quarantine": [], "renamed": {}, "input": None}, lock)
        store.tidy(2, lock, lambda _: None)
    return dict(ruling.counts) | {"linked": made.linked}


def _shares(many, tasks):
    """Numbers below ``many``, shared among tasks; none has nothing."""
    return [some for task in range(tasks) if (some := range(task, many, tasks))]


def _named(rows, plane):
    x, y = ("x", "y") if plane else ("lon", "lat")
    order = ["id", "t", "deleted", x, y, "name", "size"]
    return rows.select(order).rename_columns(["id", "t", "deleted", "x", "y", "a:name", "a:size"])


def _built(state, rows, string_ids):
    space, regions, reach, bounds = state
    x, y = (name for name in rows.column_names if name in ("lon", "lat", "x", "y"))
    places = np.stack([rows.column(x).to_numpy(), rows.column(y).to_numpy()], axis=1).reshape(-1, 2).astype(float)
    sent = assign(space.vectors(places), regions, reach)
    made = []
    for number in range(len(regions)):
        known = np.concatenate([np.flatnonzero(sent.home == number), sent.row[sent.partition == number]])
        some = rows.take(pa.array(known)).combine_chunks()
        ids = some.column("id").combine_chunks()
        made.append(
            construct(
                number, ids.cast(pa.large_string()) if string_ids else ids.to_numpy(), places[known],
                sent.home[known], space, regions, float(reach[number]), bounds,
                attributes={name: some.column(name).combine_chunks() for name in ("name", "size")},
                times=some.column("t").combine_chunks(),
            )
        )  # fmt: skip
    return made


def _full(store, snapshot, state, rows, string_ids):
    built = _built(state, rows, string_ids)
    borders = write_borders(store, snapshot, fix([one.border for one in built], state[3]))
    return [write_partition(store, snapshot, one.partition, one.area) for one in built], borders


def _manifest(snapshot, state, entries, borders, string_ids, tombstones):
    space, regions, reach, bounds = state
    return make_manifest(
        snapshot, "now", space, regions, reach, bounds, entries, borders,
        id_type="string" if string_ids else "int64", columns={"name": "string", "size": "double"}, parameters={},
        counts={"read": 0, "kept": 0, "duplicates": 0, "quarantined": {}}, timings={},
        time={"column": "t", "type": "bigint", "unit": "s"}, tombstones=tombstones,
    )  # fmt: skip


def objects(store):
    """{id: (t, x, y, attributes)} of a store's objects, from its files."""
    manifest = store.manifest()
    found = {}
    for entry in manifest["partitions"]:
        partition = decode(store.source(manifest["snapshot"], entry["file"]).data, "")
        ids = partition.ids.to_pylist() if isinstance(partition.ids, pa.Array) else partition.ids.tolist()
        for i in range(partition.owned_objects):
            attributes = tuple(partition.attributes[name][i].as_py() for name in ("name", "size"))
            assert ids[i] not in found
            found[ids[i]] = (partition.times[i].as_py(), *partition.positions[i].tolist(), attributes)
    return found
