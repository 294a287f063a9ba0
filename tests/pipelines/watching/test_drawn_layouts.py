"""Events do not depend on which worker tells them: layouts change with each batch, held to one task and to the loop."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dtoss.watch.subscription import COMPLEMENT, CROSS, EVERYWHERE
from dtoss.watch.watch_folder import EVENTS, Home, Limits
from tests.dtoss.watch.oracle import Watched
from tests.dtoss.watch.processing.held import by_object, rows_before
from tests.dtoss.watch.streams import (
    BEGIN,
    SECOND,
    SPHERE,
    change,
    circle,
    random_asked,
    random_pairs,
    random_rows,
    run,
    settings_of,
    stands,
    told,
)
from tests.examples import ALL
from tests.pipelines.watching.drawn_layouts import WORDS, run_drawn

FORMULAS = [
    "coffee",
    "tea or cake",
    "coffee and not decaf",
    '"coffee cake" or 東京',
    "(tea and cake) or (decaf and coffee)",
    "not tea",
]


def spoken(rng, rows):
    """Rows with texts of some words."""
    texts = [None if rng.random() < 0.2 else " ".join(rng.choice(WORDS, rng.integers(0, 5)).tolist()) for _ in rows]
    return [row | {"text": text} for row, text in zip(rows, texts, strict=True)]


def asked_with_words(rng, name):
    """A subscription of any kind, with words now and then, which want inside only."""
    made = random_asked(rng, name, crosses=True)
    if rng.random() < 0.7:
        made |= {"words": FORMULAS[rng.integers(len(FORMULAS))], "events": 1}
    elif made["kind"] != EVERYWHERE and not made["events"] & CROSS:
        made["events"] |= COMPLEMENT
    return made


def all_columns(home, commit):
    """The events of a commit as its files have them, whatever they say."""
    tables = [
        pq.read_table(pa.BufferReader(home.folder.read(EVENTS, one["name"]))) for one in commit.document["events"]
    ]
    return [row for table in tables for row in table.to_pylist()]


MORE = pytest.mark.deep("more seeds of the same kinds")
FEW = (0, 1, 2, 3, 5, 16)
"""Texts, messages, text ids and expiry, each with and without the others."""


@pytest.mark.parametrize("seed", [pytest.param(seed, marks=() if seed in FEW else MORE) for seed in range(24)])
def test_events_are_those_of_one_task_in_the_same_order(tmp_path, seed):
    """With texts and without, of objects and of messages, some of which expire; state and counts are the same, too."""
    rng = np.random.default_rng(seed)
    text, messages = seed % 2 == 0, seed % 6 == 0
    made = settings_of(text="text" if text else None, messages=messages, ids="string" if seed % 5 == 0 else "int64")
    plain, spread = (Home(str(tmp_path / name), "w", Limits(least_delta=3)) for name in ("plain", "spread"))
    expire = 20 * SECOND if seed % 3 == 0 else None
    loop = None if text or made.id_type == "string" else Watched(SPHERE, made.schema, expire)
    rows = random_rows(rng, int(rng.integers(10, 70)), seconds=int(rng.integers(2, 120)))
    rows = spoken(rng, rows) if text else rows
    if made.id_type == "string":
        rows = [row | {"id": str(row["id"])} for row in rows]
    names = [f"s{number}" for number in range(9)]
    more = {"ids": made.id_type, "expire": expire, "carry": ("kind",)}
    for part in np.array_split(np.arange(len(rows)), 5 if ALL[0] else 3):
        some = [rows[row] for row in part]
        new = [(asked_with_words if text else random_asked)(rng, name) for name in rng.choice(names, 3, replace=False)]
        gone = rng.choice(names, rng.integers(0, 2)).tolist()
        new += [] if messages or seed % 3 else [random_pairs(np.random.default_rng(seed), "near")]
        for home in (plain, spread):
            change(home, new, gone)
        tasks = int(rng.choice([1, 2, 7]))
        wanted = run(plain, made, some, tasks, **more)
        found = run_drawn(spread, made, some, rng, tasks, **more)
        assert all_columns(spread, found) == all_columns(plain, wanted)
        if loop is not None:
            number, table = stands(plain)
            mine = [event for event in told(spread, found.number) if event[1] != "near" or event[0] == "reset"]
            assert by_object(mine) == by_object(loop.batch(some, number, table))
        assert found.document["counts"] == wanted.document["counts"]
        assert found.document["clock"] == wanted.document["clock"]
        if not messages:
            assert rows_before(spread, found) == rows_before(plain, wanted)


def test_crosses_are_those_of_one_task(tmp_path):
    """Ways lead through cells of several workers, and those that a row begins and ends in have not the place."""
    rng = np.random.default_rng(1)
    made, homes = settings_of(), [Home(str(tmp_path / name)) for name in ("plain", "spread")]
    crossed = 0
    for number in range(4):
        rows = [
            {
                "id": id,
                "t": BEGIN + (60 * number + id) * SECOND,
                "x": side,
                "y": float(rng.uniform(-0.1, 0.1)),
                "attributes": {},
            }
            for id, side in enumerate([-0.2, 0.2] * 5 if number % 2 else [0.2, -0.2] * 5)
        ]
        for home in homes:
            change(home, [circle(f"s{number}{one}", 0.0, 0.05 * one - 0.1, 4000.0, events=12) for one in range(5)])
        wanted = run(homes[0], made, rows, 2, carry=("kind",))
        found = run_drawn(homes[1], made, rows, rng, 2, carry=("kind",))
        assert all_columns(homes[1], found) == all_columns(homes[0], wanted)
        crossed += found.document["counts"]["cross"]
    assert crossed > 30
