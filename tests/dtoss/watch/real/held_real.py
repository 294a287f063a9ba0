"""The batch function over real rows, without Spark, held to the plain account of what is told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dtoss.commits.offsets import Source
from dtoss.geometry.space import space_of
from dtoss.watch import watch_settings as product
from dtoss.watch.events.watch_tables import verify_watch
from dtoss.watch.processing.watch_plan import Options, plan_batch
from dtoss.watch.subscriptions.changes import subscribe, unsubscribe
from dtoss.watch.subscriptions.validation import Against, check_subscriptions
from dtoss.watch.watch_folder import EVENTS, Home
from dtoss.watch.watch_settings import Settings
from tests.dtoss.watch.real.plain import KINDS, Fence, Rows, Told, life, told, track_of
from tests.dtoss.watch.watch_batch import run_batch

NOW = 2_000_000_000_000_000
DISTANCES = 1e-6
"""Metres by which a distance may differ from the plain one."""


@dataclass(frozen=True)
class World:
    """Rows in the order in which they arrive, and fences."""

    name: str
    rows: Rows
    fences: list[Fence]
    kinds: dict[str, pa.DataType]
    messages: bool = False


@dataclass(frozen=True)
class Held:
    """What a run has told, and what of it was compared."""

    batches: int
    events: int
    unsure: int
    by_object: Any
    names: list[list[str]]
    counts: dict[str, int]


def product_rows(world: World, begin: int, end: int) -> product.Rows:
    """Some rows as the product takes them."""
    rows, some = world.rows, slice(begin, end)
    columns = {
        name: pa.array(np.ma.getdata(values)[some], kind, mask=np.ma.getmaskarray(values)[some])
        for name, (values, kind) in ((name, (rows.columns[name], world.kinds[name])) for name in world.kinds)
    }
    return product.Rows(
        np.ascontiguousarray(np.stack([rows.lon[some], rows.lat[some]], axis=1)),
        pa.array(rows.id[some].tolist()),
        np.ascontiguousarray(rows.t[some]),
        None if rows.text is None else pa.array(rows.text[some], pa.string()),
        columns,
    )


def asked(fences: list[Fence], settings: Settings) -> pa.Table:
    """Fences as the product's table, from what a user would write."""
    against = Against(settings.space, settings.schema, settings.text is not None, True)
    table, bad = check_subscriptions([fence.record() for fence in fences], against)
    assert not bad, bad[:3]
    return table


def hold(world: World, folder: Any, ends: list[int], tasks: int, expire: int | None = None) -> Held:
    """Run a world in batches with so many tasks, and hold each batch's events to the plain account."""
    rows = world.rows
    id_type = "string" if isinstance(rows.id[:1].tolist()[0], str) else "int64"
    text = None if rows.text is None else "text"
    settings = Settings(space_of(), id_type, "timestamp", text, world.messages, world.kinds)
    home = Home(str(folder), "real")
    track = track_of(rows, ends, expire)
    versions, change = {}, 0
    begin = 0
    names, found, counts = [], [], []
    for batch, end in enumerate(ends):
        fresh = [number for number, fence in enumerate(world.fences) if fence.begins == batch]
        ids = {world.fences[number].id for number in fresh}
        gone = [fence.id for fence in world.fences if fence.ends == batch and fence.id not in ids]
        if fresh:
            subscribe(home, asked([world.fences[number] for number in fresh], settings))
            change += 1
            versions |= dict.fromkeys(fresh, change)
        if gone:
            unsubscribe(home, gone)
            change += 1
        options = Options(expire=expire, max_ahead=None)
        plan = plan_batch(home, settings, Source(query="q", batch=batch), options, NOW + batch)
        commit = run_batch(plan, product_rows(world, begin, end), tasks)
        names.append([file["name"] for part in ("events", "state") for file in commit.document[part]])
        table = [
            pq.read_table(pa.BufferReader(home.folder.read(EVENTS, file["name"]))) for file in commit.document["events"]
        ]
        found.append(pa.concat_tables(table) if table else None)
        counts.append(commit.document["counts"])
        assert commit.document["clock_before"] == track.clocks[batch] or batch == 0
        for name, value in track.counts[batch].items() if not world.messages else ():
            assert counts[-1].get(name, 0) == value, (world.name, batch, name, counts[-1], value)
        begin = end
    assert verify_watch(home).damaged == []
    if world.messages:
        total, unsure = _messages(world, ends, found, versions)
        return Held(len(ends), total, unsure, None, names, {})
    wanted = told(world.fences, rows, track)
    total, by_object = compared(world, wanted, found, track, versions)
    _resets(world, found, track.clocks, versions)
    sums: dict[str, int] = {}
    for count in counts:
        sums = {name: sums.get(name, 0) + value for name, value in count.items()}
    return Held(len(ends), total, len(wanted.unsure), by_object, names, sums)


def compared(world: World, wanted: Told, found: list[Any], track: Any, versions: dict[int, int]) -> Any:
    """Compare all events but resets, and return how many there are, and each with its object."""
    tables = []
    for batch, table in enumerate(found):
        if table is not None:
            table = table.filter(pc.not_equal(table.column("kind").cast(pa.string()), "reset"))
            tables.append(table.append_column("place", pa.array(np.full(len(table), batch))))
    table = pa.concat_tables(tables).unify_dictionaries().combine_chunks()
    batch = table.column("place").to_numpy()
    object_ = pc.index_in(table.column("object"), pa.array(track.ids)).to_numpy()
    kind = pc.index_in(table.column("kind").cast(pa.string()), pa.array(list(KINDS))).to_numpy()
    # of one id and version there is one fence
    ids = sorted({fence.id for fence in world.fences})
    many = max(versions.values()) + 1
    numbers = np.full(len(ids) * many, -1)
    for number, fence in enumerate(world.fences):
        numbers[ids.index(fence.id) * many + versions[number]] = number
    of = pc.index_in(table.column("subscription").cast(pa.string()), pa.array(ids)).to_numpy()
    fence = numbers[of.astype(np.int64) * many + table.column("version").to_numpy()]
    t, far = table.column("t").to_numpy(), table.column("distance").to_numpy(zero_copy_only=False)
    over = table.column("reason").cast(pa.string()).fill_null("").to_numpy(zero_copy_only=False) == "expired"
    # the order in which an object's events are told is that of the file
    order = np.lexsort((object_, batch))
    mine, theirs = (
        _sure(world, wanted.unsure, fence[order], object_[order]),
        _sure(world, wanted.unsure, wanted.fence, wanted.object),
    )
    for name, ours, plain in (
        ("object", object_, wanted.object),
        ("t", t, wanted.t),
        ("kind", kind, wanted.kind),
        ("fence", fence, wanted.fence),
        ("batch", batch, wanted.batch),
    ):
        one, other = ours[order][mine], plain[theirs]
        assert len(one) == len(other), (world.name, name, len(one), len(other))
        wrong = np.flatnonzero(one != other)
        assert len(wrong) == 0, (world.name, name, len(wrong), one[wrong[:3]], other[wrong[:3]])
    ours, plain = far[order][mine], wanted.far[theirs]
    assert (np.isnan(ours) == np.isnan(plain)).all(), world.name
    assert np.nanmax(np.abs(ours - plain), initial=0.0) <= DISTANCES, world.name
    assert (over == _marks(track, batch, object_, t, kind)).all(), world.name
    by_object = np.lexsort((order.argsort(), object_))
    return len(table), np.stack([object_, t, kind, fence], axis=1)[by_object]


def _marks(track: Any, batch: Any, object_: Any, t: Any, kind: Any) -> Any:
    """Which events are leaves of objects that are over."""
    mark = track.row < 0
    if not mark.any():
        return np.zeros(len(t), bool)
    keys = np.stack([track.batch[mark], track.object[mark], track.t[mark]], axis=1)
    there = {tuple(key) for key in keys.tolist()}
    leaves = np.flatnonzero(kind == KINDS["leave"])
    found = np.zeros(len(t), bool)
    found[leaves] = [key in there for key in zip(*(one[leaves].tolist() for one in (batch, object_, t)), strict=True)]
    return found


def _sure(world: World, unsure: set[tuple[int, int]], fence: Any, object_: Any) -> Any:
    if not unsure:
        return np.ones(len(fence), bool)
    many = len(world.rows) + 1
    return ~np.isin(fence * many + object_, [number * many + one for number, one in unsure])


def _resets(world: World, found: list[Any], clocks: list[int | None], versions: dict[int, int]) -> None:
    """Compare what ends memberships."""
    wanted: list[set[Any]] = [set() for _ in clocks]
    begun = {(fence.id, fence.begins) for fence in world.fences}
    for number, fence in enumerate(world.fences):
        _, end, why = life(fence, clocks)
        if why is not None and end < len(clocks):
            why = "changed" if why == "removed" and (fence.id, end) in begun else why
            wanted[end - 1 if why == "expired" else end].add((fence.id, versions[number], why))
    for batch, table in enumerate(found):
        there = set()
        if table is not None:
            some = table.filter(pc.equal(table.column("kind").cast(pa.string()), "reset")).to_pylist()
            assert all(row["object"] is None and row["t"] is None for row in some)
            there = {(row["subscription"], row["version"], row["reason"]) for row in some}
            assert len(there) == len(some)
        assert there == wanted[batch], (world.name, batch, there ^ wanted[batch])


def _messages(world: World, ends: list[int], found: list[Any], versions: dict[int, int]) -> tuple[int, int]:
    """Compare what is told of messages: each by itself, whatever it follows; return how many, and unsure pairs."""
    from collections import Counter

    from tests.dtoss.watch.real.plain import held_by

    rows = world.rows
    wanted: list[Counter[Any]] = [Counter() for _ in ends]
    strange: set[tuple[str, Any, Any]] = set()
    for number, fence in enumerate(world.fences):
        at, odd, _ = held_by(fence, rows)
        strange |= {(fence.id, rows.lon[row], rows.lat[row]) for row in odd}
        batch_of = np.searchsorted(ends, at, "right")
        last = len(ends) if fence.ends is None else fence.ends
        for row, batch in zip(at.tolist(), batch_of.tolist(), strict=True):
            if fence.begins <= batch < last:
                key = (fence.id, versions[number], rows.id[row], int(rows.t[row]), rows.lon[row], rows.lat[row])
                wanted[batch][key] += 1
    total = 0
    for batch, table in enumerate(found):
        there: Counter[Any] = Counter()
        for row in table.to_pylist() if table is not None else ():
            if row["kind"] != "reset":
                assert row["kind"] == "inside"
                key = (row["subscription"], row["version"], row["object"], row["t"], row["x"], row["y"])
                there[key] += 1
        total += there.total()
        for key in set(there) | set(wanted[batch]):
            if (key[0], key[4], key[5]) not in strange:
                assert there[key] == wanted[batch][key], (world.name, batch, key)
    return total, len(strange)
