"""Columns with odd names, conditions with what they say, and both kinds of places against the library."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

import dtoss
from tests.dtoss.watch.judged_plane import random_plane
from tests.dtoss.watch.judged_sphere import random_sphere

CONDITIONS = {
    None: lambda row: True,
    '"a b" = 1': lambda row: row["a b"] == 1,
    "distance > 0.5": lambda row: row["distance"] is not None and row["distance"] > 0.5,
    "id = 3": lambda row: row["id"] == 3,
    '"say ""so""" is null': lambda row: row['say "so"'] is None,
    "`Größe` in ('x', 'ß')": lambda row: row["Größe"] in ("x", "ß"),
    "\"select\" and not kind = 'taxi'": lambda row: row["select"] is True and row["kind"] not in (None, "taxi"),
    "x1 >= timestamp '2020-01-01 00:00:00'": lambda row: row["x1"] is not None and row["x1"] >= 1_577_836_800_000_000,
    "cast(kind as integer) > 3": lambda row: (
        row["kind"] is not None and row["kind"].strip().isdecimal() and int(row["kind"]) > 3
    ),
}
"""Texts, and what they say of a row."""


def random_columns(rng, count):
    """Columns with odd names and values, as a table of some layout, and as rows."""
    pick = lambda values: [values[i] for i in rng.integers(len(values), size=count)]  # noqa: E731
    held = {
        "a b": pa.array(pick([0, 1, None]), pa.int16()),
        "distance": pa.array(pick([0.0, 0.75, None, float("nan"), float("inf")]), pa.float32()),
        "id": pa.array(np.arange(count)),
        'say "so"': pa.array(pick([None, b"x"]), pa.binary()),
        "Größe": pa.array(pick(["x", "ß", "ss", None]), pa.large_string()).dictionary_encode(),
        "select": pa.array(pick([True, False, None])),
        "x1": pa.array(pick([None, 0, 1_577_836_800_000_000, 1_577_836_799_999_999]), pa.timestamp("us", "Asia/Tokyo")),
        "kind": pa.array(pick(["taxi", "bus", None, "7", " 4 ", "2"]), pa.string()),
    }
    rows = [
        dict(zip(held, values, strict=True))
        for values in zip(*(_plain(column) for column in held.values()), strict=True)
    ]
    return held, rows


def _plain(column):
    return (column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column).to_pylist()


def differing(seed, plane):
    """What the library says otherwise of a made world, in lines: pairs too many or too few, and wrong distances."""
    rng = np.random.default_rng(seed + 7)
    places, positions = (random_plane if plane else random_sphere)(seed)
    held, rows = random_columns(rng, len(positions))
    texts = [list(CONDITIONS)[rng.integers(len(CONDITIONS))] if rng.random() < 0.5 else None for _ in places]
    wants = ["inside", "enter", "leave"]
    asked = [
        {"id": number, **place.said, "where": text, "events": wants}
        for number, (place, text) in enumerate(zip(places, texts, strict=True))
    ]
    x, y = ("x", "y") if plane else ("lon", "lat")
    table = pa.table({x: positions[:, 0], y: positions[:, 1], **held})
    if rng.random() < 0.3:
        cut = int(rng.integers(len(table)))
        table = pa.concat_tables([table.slice(0, cut), table.slice(cut)])
    found = dtoss.subscriptions(asked, metric="plane" if plane else None).match(table)
    pairs = list(zip(found.row.tolist(), found.subscription.tolist(), strict=True))
    if pairs != sorted(set(pairs)):
        return [f"seed {seed}: pairs are not each there once, in their order"]
    told = dict(zip(pairs, found.distance.tolist(), strict=True))
    wrong = []
    for number, place in enumerate(places):
        within, sure, far = place.judge(positions)
        for row in np.flatnonzero(sure).tolist():
            said = told.get((row, number))
            holds = bool(within[row]) and CONDITIONS[texts[number]](rows[row])
            tolerance = 1e-9 * max(far[row], 0.0) + (0.0 if plane else 2e-3)
            if holds != (said is not None) or (
                holds and not np.isnan(far[row]) and not abs(said - far[row]) <= tolerance
            ):
                where = positions[row].tolist()
                wrong.append(f"seed {seed}: {asked[number]!s:.300} and {where}: {said}, not {holds}, {far[row]}")
    return wrong
