"""Real sets as they reach windows: check-ins, aircraft, ships, people, taxis; in what order, and what is asked of them.

Check-ins of Brightkite and Gowalla, aircraft (out of order, spoofed, on both sides of the globe), ships at Piraeus by
sites, raw files of GeoLife, files of the form of T-Drive's, and a day of taxis, some of whose clocks are hours ahead.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from datasets.aircraft import SCHEMA as AIRCRAFT
from datasets.aircraft import aircraft
from datasets.geolife import SCHEMA as GEOLIFE
from datasets.geolife import geolife
from datasets.tables.standard_rows import collect
from datasets.tdrive import SCHEMA as TDRIVE
from datasets.tdrive import tdrive
from tests.data import DATA, RAW

MINUTE, HOUR = 60_000_000, 3_600_000_000


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows in the order in which they arrive."""

    ids: Any
    t: NDArray[np.int64]
    places: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.t)

    def take(self, order: NDArray[Any]) -> Rows:
        """Return some of them, in that order."""
        return Rows(self.ids.take(pa.array(order)), self.t[order], self.places[order])


@dataclass(frozen=True, eq=False)
class Case:
    """A set, and what is asked of it.

    Parameters
    ----------
    rows
        In the order in which they arrive.
    asked
        Arguments of a spec.
    batches
        How many.
    sites
        Keys by the user's own places; by partitions where there are none.
    tasks
        Of a batch.
    cuts
        Where each batch ends; batches of about the same size when None.
    """

    rows: Rows
    asked: dict[str, Any]
    batches: int
    sites: NDArray[np.float64] | None = None
    tasks: int = 2
    cuts: list[int] | None = None


def real_rows(name: str, who: Callable[[pa.Table], Any] = lambda table: table["uid"]) -> Rows:
    """Return a set with ids of whole numbers or texts, in the order of its file."""
    table = pq.read_table(DATA / f"{name}.parquet")
    ids = who(table).combine_chunks()
    ids = ids.cast(pa.string() if pa.types.is_large_string(ids.type) or pa.types.is_string(ids.type) else pa.int64())
    positions = np.stack([table["lon"].to_numpy(), table["lat"].to_numpy()], axis=1)
    return Rows(ids, table["t"].cast(pa.int64()).to_numpy(), positions)


def arriving(rows: Rows, late: int, share: float = 0.1, twice: float = 0.01, seed: int = 0) -> Rows:
    """Return rows by time, of which a share comes up to so many microseconds late, and some a second time."""
    rng = np.random.default_rng(seed)
    again = rng.choice(len(rows), round(twice * len(rows)))
    all_of = np.concatenate([np.arange(len(rows)), again])
    behind = np.where(rng.random(len(all_of)) < share, rng.integers(0, late, len(all_of)), 0)
    behind[len(rows) :] = rng.integers(0, late, len(again))
    return rows.take(all_of[np.argsort(rows.t[all_of] + behind, kind="stable")])


def checkins(name: str, who: Callable[[pa.Table], Any] = lambda table: table["uid"]) -> Iterator[Case]:
    """Check-ins as positions: years by the hour, and in one batch in the order of the file."""
    rows = real_rows(name, who)
    asked = {"lengths": "1h,24h,168h", "slide": "1h", "late": "240h", "max_gap": "12h", "expire": "48h"}
    yield Case(arriving(rows, 200 * HOUR), asked, 9, tasks=3)
    yield Case(rows, asked | {"late": "0s"}, 1)


def _source_and_user(table: pa.Table) -> Any:
    return pc.binary_join_element_wise(table["src"].cast(pa.string()), table["uid"].cast(pa.string()), " ")


def planes() -> Iterator[Case]:
    """All aircraft in the order of their files, in one batch; by time with rows late; and those that jump."""
    rows = real_rows("aircraft_adsb")
    yield Case(rows, {"lengths": "5min,1h", "expire": "10min"}, 1)
    asked = {"lengths": "5min,1h", "slide": "5min", "late": "1h", "max_speed": 350.0, "expire": "10min"}
    yield Case(arriving(rows, 50 * MINUTE), asked, 7, tasks=7)


def raw_planes(name: str) -> Iterator[Case]:
    """A raw sample as its reader gives it, some rows late and some twice: what comes too late is set aside."""
    table = collect(aircraft([RAW / f"aircraft_noisy_{name}.json.gz"]), AIRCRAFT)[0]
    table = table.filter(table["uid"].is_valid())
    positions = np.stack([table["lon"].to_numpy(), table["lat"].to_numpy()], axis=1)
    ids = table["uid"].combine_chunks().cast(pa.string())
    rows = arriving(Rows(ids, table["t"].cast(pa.int64()).to_numpy(), positions), 4 * MINUTE, 0.3)
    for late in ("0s", "1min", "5min"):
        asked = {"lengths": "1min,5min", "slide": "10s", "late": late, "max_gap": "1min", "max_speed": 400.0}
        yield Case(rows, asked, 30)


def ships() -> Iterator[Case]:
    """Ships by twenty places where some of them were."""
    rows = real_rows("ais_piraeus")
    sites = np.unique(rows.places, axis=0)
    sites = sites[np.random.default_rng(2).choice(len(sites), 20, replace=False)]
    asked = {"lengths": "15min,1h,24h", "slide": "5min", "late": "2h", "max_gap": "30min", "expire": "3h"}
    yield Case(arriving(rows, 110 * MINUTE), asked, 12, sites)


def people() -> Iterator[Case]:
    """Raw files of GeoLife through their reader, a file a batch."""
    parts = [collect(geolife([path]), GEOLIFE)[0] for path in sorted((RAW / "geolife").glob("*.plt"))]
    table = pa.concat_tables(parts)
    positions = np.stack([table["lon"].to_numpy(), table["lat"].to_numpy()], axis=1)
    rows = Rows(table["uid"].combine_chunks().cast(pa.int64()), table["t"].cast(pa.int64()).to_numpy(), positions)
    sites = positions[:: max(1, len(positions) // 30)]
    cuts = np.cumsum([len(part) for part in parts]).tolist()
    yield Case(rows, {"lengths": "5min,1h,24h", "max_gap": "5min"}, 0, sites, cuts=cuts)


def beijing() -> Iterator[Case]:
    """Files as T-Drive has them, one a taxi, through its reader: no raw one may be kept here, so rows are of taxis."""
    rows = real_rows("cabspotting_sf")
    rows = rows.take(np.flatnonzero((rows.ids.to_numpy() % 20 == 0) & (rows.t - rows.t.min() < 7 * 24 * HOUR)))
    local = (rows.t + 8 * HOUR).astype("datetime64[us]").astype("datetime64[s]").astype(str)
    with tempfile.TemporaryDirectory() as folder:
        for number in np.unique(rows.ids.to_numpy()).tolist():
            lines = [
                f"{number},{local[i].replace('T', ' ')},{rows.places[i, 0]},{rows.places[i, 1]}\n"
                for i in np.flatnonzero(rows.ids.to_numpy() == number).tolist()
            ]
            (Path(folder) / f"{number}.txt").write_text("".join(lines))
        table = collect(tdrive([folder]), TDRIVE)[0]
    positions = np.stack([table["lon"].to_numpy(), table["lat"].to_numpy()], axis=1)
    found = Rows(table["uid"].combine_chunks().cast(pa.int64()), table["t"].cast(pa.int64()).to_numpy(), positions)
    yield Case(found, {"lengths": "15min,1h,24h", "slide": "5min", "expire": "30min"}, 1)


def taxis() -> Iterator[Case]:
    """A day of taxis: a file each in one batch, and by time where three clocks of all are six hours ahead."""
    rows = real_rows("cabspotting_sf")
    day = rows.t // (24 * HOUR)
    rows = rows.take(np.flatnonzero(day == day.min() + 8))
    who = rows.ids.to_numpy()
    asked = {"lengths": "5min,15min,1h,24h", "slide": "5min", "late": "1h", "expire": "15min"}
    yield Case(rows.take(np.argsort(who, kind="stable")), asked | {"late": "0s"}, 1, tasks=7)
    fast = np.isin(who, np.unique(who)[:3])
    ahead = Rows(rows.ids, rows.t + np.where(fast, 6 * HOUR, 0), rows.places)
    seen = np.argsort(rows.t, kind="stable")  # when they arrive, whatever their clocks say
    yield Case(ahead.take(seen), asked | {"late": "0s"}, 24)
    yield Case(arriving(rows, 55 * MINUTE), asked, 24)


CASES: dict[str, Callable[[], Iterator[Case]]] = {
    "brightkite": lambda: checkins("brightkite_checkins"),
    "gowalla": lambda: checkins("gowalla_checkins", _source_and_user),
    "gowalla week": lambda: checkins("gowalla_weekpattern"),
    "aircraft": planes,
    "aircraft, times out of order": lambda: raw_planes("time_issue"),
    "aircraft, spoofed": lambda: raw_planes("spoofing"),
    "ships": ships,
    "geolife": people,
    "tdrive": beijing,
    "taxis": taxis,
}
