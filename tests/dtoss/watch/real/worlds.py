"""Real rows with fences where they are: each of a kind of place, with conditions that their columns can answer."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tests.data import DATA, real_set
from tests.dtoss.watch.real.held_real import World
from tests.dtoss.watch.real.plain import EARTH_RADIUS, Fence, Rows, units, words_of

DAY = 86_400_000_000
MANY = 20_000
"""Rows from which on fences of almost all of them want no event of each."""
WANTS = (
    ("enter", "leave"), ("enter", "leave"), ("enter",), ("leave",), ("inside", "enter", "leave"), ("inside",),
)  # fmt: skip


def columns_of(table: pa.Table, names: list[str]) -> dict[str, Any]:
    """Columns as masked arrays; NaN is a value, null is not."""
    found = {}
    for name in names:
        column = table.column(name)
        values = column.fill_null("" if pa.types.is_string(column.type) else 0).to_numpy()
        found[name] = np.ma.masked_array(values, column.is_null().to_numpy())
    return found


def rows_of(table: pa.Table, names: list[str] | None = None, text: list[Any] | None = None) -> Rows:
    """A table of uid, t, lon and lat as rows."""
    id_ = table.column("uid")
    ids = np.array(id_.to_pylist(), object) if not pa.types.is_integer(id_.type) else id_.cast(pa.int64()).to_numpy()
    t = table.column("t").cast(pa.timestamp("us", "UTC")).cast(pa.int64()).to_numpy()
    return Rows(
        ids, t, table.column("lon").to_numpy(), table.column("lat").to_numpy(), columns_of(table, names or []), text
    )


def thinned(table: pa.Table, most: int | None) -> pa.Table:
    """Whole objects of a table, so many rows of them at most."""
    if most is None or len(table) <= most:
        return table
    counts = table.column("uid").combine_chunks().value_counts()
    order = np.random.default_rng(5).permutation(len(counts))
    total, kept = 0, []
    for at in order.tolist():
        size = counts.field("counts")[at].as_py()
        if total + size <= most or not kept:
            kept.append(at)
            total += size
    return table.filter(pc.is_in(table.column("uid"), counts.field("values").take(pa.array(kept)))).slice(0, most)


def in_time(table: pa.Table, late: float = 0.0, seed: int = 0) -> pa.Table:
    """Rows by time, some of them kept back."""
    t = table.column("t").cast(pa.timestamp("us", "UTC")).cast(pa.int64()).to_numpy()
    rng = np.random.default_rng(seed)
    behind = np.where(rng.random(len(t)) < late, rng.uniform(0, 3_600_000_000, len(t)), 0.0)
    return table.take(pa.array(np.argsort(t + behind, kind="stable")))


def without_ties(table: pa.Table) -> pa.Table:
    """One row of each object and moment, the first."""
    seen = table.select(["uid", "t"]).append_column("row", pa.array(np.arange(len(table))))
    first = seen.group_by(["uid", "t"]).aggregate([("row", "min")]).column("row_min").to_numpy()
    return table.take(pa.array(np.sort(first)))


def beside(lon: float, lat: float, bearing: Any, metres: Any) -> Any:
    """Places at bearings and distances from one, (n, 2)."""
    a, d = np.radians(lat), np.asarray(metres) / EARTH_RADIUS
    y = np.arcsin(np.clip(np.sin(a) * np.cos(d) + np.cos(a) * np.sin(d) * np.cos(bearing), -1, 1))
    x = np.arctan2(np.sin(bearing) * np.sin(d) * np.cos(a), np.cos(d) - np.sin(a) * np.sin(y))
    return np.stack([(lon + np.degrees(x) + 180) % 360 - 180, np.degrees(y)], axis=1)


def star(rng: np.random.Generator, lon: float, lat: float, metres: float, corners: int = 9) -> Any:
    """A ring round a place."""
    bearing = 2 * np.pi * (np.arange(corners) + rng.uniform(0.1, 0.9, corners)) / corners
    return beside(lon, lat, bearing, metres * rng.uniform(0.5, 1.0, corners)).tolist()


def fences_at(
    rows: Rows, rng: np.random.Generator, count: int, low: float, high: float, wheres: list[Any], batches: int
) -> list[Fence]:
    """Fences of all kinds at places of rows, of which some come, change and go."""
    found = []
    for number in range(count):
        row = int(rng.integers(len(rows)))
        lon, lat = float(rows.lon[row]), float(rows.lat[row])
        metres = float(np.exp(rng.uniform(np.log(low), np.log(high))))
        wide = False
        draw, place, events = rng.random(), {}, WANTS[int(rng.integers(len(WANTS)))]
        if draw < 0.05:
            place["circle"] = (lon, lat, 0.0)
        elif draw < 0.08:
            place["circle"] = (lon, lat, float(rng.uniform(1.01e7, 2.0e7)))
        elif draw < 0.5:
            lon, lat = beside(lon, lat, rng.uniform(0, 2 * np.pi, 1), metres * 0.7)[0].tolist()
            place["circle"] = (lon, lat, metres)
        elif draw < 0.7:
            corners = beside(lon, lat, np.radians([270.0, 90.0, 180.0, 0.0]), metres)
            west, east = float(corners[0, 0]), float(corners[1, 0])
            wide = rng.random() < 0.15
            if wide:  # the long way round
                west, east = east, west
            place["box"] = (west, float(corners[2, 1]), east, float(corners[3, 1]))
        elif draw < 0.95:
            outer = star(rng, lon, lat, metres, int(rng.integers(3, 14)))
            rings = [outer]
            if rng.random() < 0.5 and len(outer) > 4:
                rings.append(star(rng, lon, lat, 0.2 * metres, 5))
            polygons = [rings]
            if rng.random() < 0.3:
                there = beside(lon, lat, rng.uniform(0, 2 * np.pi, 1), 3.0 * metres)[0].tolist()
                polygons.append([star(rng, *there, metres)])
            place["polygons"] = polygons
        where = None if rng.random() < 0.4 or not wheres else wheres[int(rng.integers(len(wheres)))]
        if len(rows) > MANY and (draw >= 0.95 or 0.05 <= draw < 0.08 or wide):
            events = ("enter", "leave")  # every row would be told to each of them
        fence = Fence(f"f{number}", **place, where=where, events=events)
        found += _lives(fence, rng, batches, rows)
    # what conditions of enter and leave read is kept from the first batch to the last
    for number, where in enumerate(wheres):
        found.append(Fence(f"always{number}", circle=(float(rows.lon[0]), float(rows.lat[0]), low), where=where,
                           events=("enter", "leave")))  # fmt: skip
    return found


def _lives(fence: Fence, rng: np.random.Generator, batches: int, rows: Rows) -> list[Fence]:
    """A fence that is there from the first batch to the last; or comes later, changes, goes, or expires."""
    draw = rng.random()
    if draw < 0.75 or batches < 3:
        return [fence]
    middle = int(rng.integers(1, batches - 1))
    if draw < 0.82:
        return [replace(fence, begins=middle)]
    if draw < 0.88:
        return [replace(fence, ends=middle)]
    if draw < 0.95:
        others = ("enter", "leave") if len(fence.events) == 3 else ("inside", "enter", "leave")
        return [replace(fence, ends=middle), replace(fence, begins=middle, events=others)]
    return [replace(fence, expires=int(rows.t[int(rng.integers(len(rows)))]))]


def land(most: int = 3_000) -> list[Fence]:
    """The land of the Earth as fences of so many corners at most, but for what is too large for a hemisphere."""
    path = DATA / "reference" / "land_50m.geojson"
    if not path.exists():
        return []
    found = []
    for number, polygon in enumerate(json.loads(path.read_text())["geometry"]["coordinates"]):
        rings = [ring[:-1] for ring in polygon]
        corners = units(*np.array(rings[0], float).T)
        middle = corners.sum(axis=0)
        if len(corners) <= most and (corners @ middle).min() > 0.1 * np.linalg.norm(middle):
            found.append(Fence(f"land{number}", polygons=[rings], events=WANTS[number % len(WANTS)]))
    return found


def cuts(rng: np.random.Generator, rows: int, batches: int) -> list[int]:
    """Where batches end, drawn."""
    return [*np.sort(rng.choice(np.arange(1, rows), batches - 1, replace=False)).tolist(), rows]


@cache
def day_of_taxis() -> pa.Table:
    """Of 2008-05-25, all taxis."""
    table = pq.read_table(real_set("cabspotting_sf"), columns=["uid", "t", "lon", "lat", "occupied"])
    begin = pa.scalar(1_211_673_600_000_000, pa.timestamp("us", "UTC"))
    end = pa.scalar(1_211_673_600_000_000 + DAY, pa.timestamp("us", "UTC"))
    t = table.column("t")
    return table.filter(pc.and_(pc.greater_equal(t, begin), pc.less(t, end)))


def taxis(most: int | None, late: float, fences: int, batches: int) -> World:
    """A day of taxis in San Francisco; fences ask for free ones."""
    table = in_time(without_ties(thinned(day_of_taxis(), most)), late)
    rows = rows_of(table, ["occupied"])
    wheres = [
        ("occupied = 0", lambda c: c["occupied"] == 0),
        ("occupied = 1 or id % 2 = 0", lambda c: (c["occupied"] == 1) | (rows.id % 2 == 0)),
    ]
    rng = np.random.default_rng(1)
    return World("taxis", rows, fences_at(rows, rng, fences, 30.0, 3_000.0, wheres[:1] * 3 + wheres[1:], batches),
                 {"occupied": pa.int8()})  # fmt: skip


def ships(most: int | None, late: float, fences: int, batches: int) -> World:
    """Ships at Piraeus; some have no speed, and two of one moment are left to be tied."""
    table = pq.read_table(real_set("ais_piraeus"), columns=["uid", "t", "lon", "lat", "speed"])
    table = in_time(thinned(table, most), late)
    none = np.random.default_rng(2).random(len(table)) < 0.1
    speed = pc.if_else(pa.array(none), pa.scalar(None, pa.float32()), table.column("speed"))
    table = table.set_column(4, "speed", speed)
    rows = rows_of(table, ["speed"])
    wheres = [
        ("speed > 2", lambda c: c["speed"] > 2),
        ("not (speed > 2)", lambda c: ~(c["speed"] > 2)),
        ("speed is null", lambda c: np.ma.getmaskarray(c["speed"])),
        ("coalesce(speed, 0) < 0.5", lambda c: np.ma.filled(c["speed"], 0.0) < 0.5),
    ]
    rng = np.random.default_rng(3)
    found = fences_at(rows, rng, fences, 200.0, 8_000.0, wheres, batches)
    found += land(3_000) if most is None else land(30)[::8]
    return World("ships", rows, found, {"speed": pa.float32()})


def aircraft(most: int | None, late: float, fences: int, batches: int) -> World:
    """Aircraft over the world, with faults of time and positions that were spoofed; some fly across 180 degrees."""
    table = pq.read_table(real_set("aircraft_adsb"), columns=["uid", "t", "lon", "lat", "altitude_ft"])
    table = in_time(thinned(table, most), late)
    # flights over the Pacific, as the same ones moved: a half of the objects are turned so that many meet the line
    uid = np.array(table.column("uid").to_pylist(), object)
    lon = table.column("lon").to_numpy()
    turned = {one: hash_of(one) % 2 == 0 for one in set(uid.tolist())}
    moved = np.array([turned[one] for one in uid.tolist()])
    first = {}
    for one, x in zip(uid.tolist(), lon.tolist(), strict=True):
        first.setdefault(one, x)
    start = np.array([first[one] for one in uid.tolist()])
    lon = np.where(moved, (lon - start + 179.9 + 180) % 360 - 180, lon)
    table = table.set_column(2, "lon", pa.array(lon))
    rows = rows_of(table, ["altitude_ft"])
    wheres = [
        ("altitude_ft < 5000", lambda c: c["altitude_ft"] < 5000),
        ("altitude_ft between 10000 and 30000", lambda c: (c["altitude_ft"] >= 10000) & (c["altitude_ft"] <= 30000)),
        ("altitude_ft is not null and altitude_ft <> 0",
         lambda c: ~np.ma.getmaskarray(c["altitude_ft"]) & (np.ma.filled(c["altitude_ft"], 0) != 0)),
    ]  # fmt: skip
    rng = np.random.default_rng(4)
    found = fences_at(rows, rng, fences, 500.0, 800_000.0, wheres, batches)
    found += land(600) if most is None else land(30)[::8]
    found.append(Fence("line", box=(179.0, -90.0, -179.0, 90.0), events=("enter", "leave")))
    return World("aircraft", rows, found, {"altitude_ft": pa.float32()})


def hash_of(text: str) -> int:
    """A number of a text, the same in each process."""
    return sum(ord(one) * (at + 1) for at, one in enumerate(text))


def check_ins(name: str, most: int | None, late: float, fences: int, batches: int) -> World:
    """People who check in at places, as positions that jump about the world."""
    table = pq.read_table(real_set(name), columns=["uid", "t", "lon", "lat", "poi"])
    table = in_time(thinned(table, most), late)
    rows = rows_of(table, ["poi"])
    wheres = [("poi % 3 = 1", lambda c: c["poi"] % 3 == 1), ("poi > 1000", lambda c: c["poi"] > 1000)]
    rng = np.random.default_rng(6)
    return World(name, rows, fences_at(rows, rng, fences, 20.0, 900_000.0, wheres, batches), {"poi": pa.int64()})


def earthquakes(most: int | None, _late: float, fences: int, batches: int) -> World:
    """Earthquakes as messages: where they are in words, and how strong."""
    table = pq.read_table(real_set("earthquakes_usgs_month"), columns=["uid", "t", "lon", "lat", "mag", "text"])
    table = in_time(table.slice(0, most or len(table)))
    texts = table.column("text").to_pylist()
    rows = rows_of(table, ["mag"], texts)
    wheres = [("mag >= 4.5", lambda c: c["mag"] >= 4.5), ("mag < 1", lambda c: c["mag"] < 1)]
    return messages("earthquakes", rows, fences, batches, wheres, {"mag": pa.float32()}, 20_000.0, 3_000_000.0)


def spoken(name: str, most: int | None, _late: float, fences: int, batches: int) -> World:
    """Check-ins as messages: each place has the name of one in New York, and says also how often it was seen."""
    table = pq.read_table(real_set(name), columns=["uid", "t", "lon", "lat", "poi"])
    table = in_time(table.slice(0, most or len(table)))
    names = pq.read_table(real_set("gowalla_spot_names_nyc"), columns=["text"]).column("text").to_pylist()
    texts = [None if poi % 50 == 7 else names[poi * 7919 % len(names)] for poi in table.column("poi").to_pylist()]
    rows = rows_of(table, ["poi"], texts)
    wheres = [("poi % 3 = 1", lambda c: c["poi"] % 3 == 1)]
    return messages(f"{name} in words", rows, fences, batches, wheres, {"poi": pa.int64()}, 200.0, 500_000.0)


def messages(
    name: str, rows: Rows, count: int, batches: int, wheres: list[Any], kinds: dict[str, Any], low: float, high: float
) -> World:
    """Messages with fences of words of theirs, with places and without."""
    rng = np.random.default_rng(8)
    drawn = fences_at(rows, rng, count, low, high, wheres, batches)
    found = []
    for fence in drawn:
        words = formula(rng, rows, 0)
        anywhere = fence.circle is None and fence.box is None and fence.polygons is None
        if rng.random() < 0.1 and not anywhere:
            words = ("not", words)
        elif only_negated(words) and anywhere:
            words = ("word", "coffee")
        found.append(replace(fence, words=words, events=("inside",), expires=None))
    return World(name, rows, found, kinds, messages=True)


def formula(rng: np.random.Generator, rows: Rows, depth: int) -> Any:
    """Words of the texts, joined at random."""
    while True:
        said = words_of(rows.text[int(rng.integers(len(rows)))])
        if said:
            break
    at = int(rng.integers(len(said)))
    draw = rng.random()
    if depth > 2 or draw < 0.4:
        return ("word", said[at]) if said[at] not in ("and", "or", "not") else ("phrase", said[at])
    if draw < 0.55:
        return ("phrase", " ".join(said[at : at + 2]))
    parts = [formula(rng, rows, depth + 1) for _ in range(int(rng.integers(2, 4)))]
    if draw < 0.75:
        return ("or", *parts)
    if rng.random() < 0.5:
        parts[-1] = ("not", parts[-1])
    return ("and", *parts)


def only_negated(formula: Any) -> bool:
    """Whether a text without any word would do."""
    kind, *parts = formula
    if kind == "not":
        return not only_negated(parts[0])
    if kind in ("and", "or"):
        held = [only_negated(part) for part in parts]
        return all(held) if kind == "and" else any(held)
    return False
