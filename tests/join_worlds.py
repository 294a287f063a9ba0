"""Joins about the worlds of ``tests/worlds.py``: what is asked, and what is wrong with the rows that answer.

The oracle is distances in long double by textbook formulas, and sorting: it shares no code with the index or the jobs.
Objects carry attributes with the names of our own columns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tests import worlds
from tests.worlds import World

PARTITIONS = (1, 2, 7, 64)
KINDS = {"v": "bigint", "distance_": "double", "rank_": "bigint", "query_": "string", "id_": "string"}
"""Attributes as they are asked for, and their Spark types."""

Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Question:
    """A join: ``radius`` None is a kNN join; a string is the column that holds k or the radius of each query."""

    k: int | str | None = None
    radius: float | str | None = None
    how: str = "inner"
    where: str | None = None
    having: str | None = None
    max_distance: float | None = None
    exclude_self: bool = False


CONDITIONS: dict[str, Callable[[Mapping[str, Any]], Mask]] = {
    "v < 3": lambda of: of["v"] < 3,
    "distance_ >= 5 and rank_ <> 2": lambda of: (of["distance_"] >= 5) & (of["rank_"] != 2),
    "query_ = 'q1' or id_ like 'a%'": lambda of: (of["query_"] == "q1") | (np.char.find(of["id_"], "a") == 0),
    "rank_ = 7": lambda of: of["rank_"] == 7,  # nobody
}


def attributes(w: World) -> dict[str, NDArray[Any]]:
    """Return the attributes of a world's objects, by the names under which they are asked for."""
    at = np.random.default_rng([w.seed, 1]).permutation(len(w.ids))
    return {
        "v": w.value,
        "distance_": (at % 11).astype(np.float64),
        "rank_": at % 4,
        "query_": np.array([f"q{i % 3}" for i in at.tolist()], dtype=np.str_),
        "id_": np.array([f"{'abc'[i % 3]}{i}" for i in at.tolist()], dtype=np.str_),
    }


def objects_of(w: World) -> pa.Table:
    """Return a world as a rebuild reads it: column ``object`` is the id, and attributes have the names of ours."""
    x, y = ("lon", "lat") if w.metric == "sphere" else ("x", "y")
    held = {name.rstrip("_"): values for name, values in attributes(w).items()}
    ids = pa.array(w.ids.tolist(), pa.string() if w.ids.dtype == object else pa.int64())
    return pa.table({"object": ids, x: w.positions[:, 0], y: w.positions[:, 1]} | held)


def queries_of(w: World) -> pa.Table:
    """Return places with a k and a radius each; the last three have no position that can be asked about."""
    x, y = ("lon", "lat") if w.metric == "sphere" else ("x", "y")
    places = worlds.queries_of(w)
    m = len(places)
    rng = np.random.default_rng([w.seed, 2])
    radius = np.zeros(m)
    for q, place in enumerate(places):
        far = np.sort(worlds.far_from(w, place).astype(np.float64))
        if len(far):
            radius[q] = far[int(rng.integers(0, min(len(far), 30)))] * rng.choice([0.5, 1.0, 1.0 + 1e-9, 1.5])
    numbers = [*range(m + 3)]
    lost = [(None, 0.0), (np.nan, 1.0), (0.0, np.inf)]
    return pa.table(
        {
            "query_id": numbers if w.seed % 2 else [f"place {i}" for i in numbers],
            x: pa.array([*places[:, 0].tolist(), *(a for a, _ in lost)], pa.float64()),
            y: pa.array([*places[:, 1].tolist(), *(b for _, b in lost)], pa.float64()),
            "k": pa.array([None if i == 4 else i % 6 for i in numbers], pa.int32()),
            "r": pa.array(
                [None if i == 5 else r for i, r in enumerate([*radius.tolist(), 1.0, 1.0, 1.0])], pa.float64()
            ),
            "rank": numbers,
            "distance": numbers,
        }
    )


def objects_as_queries(w: World) -> pa.Table:
    """Return a world's objects as queries whose ids are theirs."""
    table = objects_of(w).slice(0, 40)
    x, y = table.column_names[1:3]
    return pa.table({"query_id": table["object"], x: table[x], y: table[y]})


def questions(w: World) -> list[Question]:
    """Return a kNN join and a range join of a world, with what else its seed says."""
    rng = np.random.default_rng([w.seed, 3])
    texts = [None, *CONDITIONS]
    where, having = (texts[int(rng.choice(len(texts), p=[0.4, 0.2, 0.2, 0.15, 0.05]))] for _ in range(2))
    if rng.integers(0, 3):
        having = None
    radii = np.asarray(queries_of(w)["r"].drop_null())
    most = float(np.median(radii)) if rng.integers(0, 2) else None
    how = str(rng.choice(["inner", "left"]))
    some = float(radii[int(rng.integers(0, len(radii)))])
    return [
        Question(k="k" if rng.integers(0, 2) else int(rng.choice([1, 3, 8, 1000])), how=how, where=where, having=having,
                 max_distance=most),
        Question(radius="r" if rng.integers(0, 2) else some, how=how, where=where, having=having),
        Question(k=3, how=how, where=where, exclude_self=True),
    ]  # fmt: skip


def wrong(w: World, asked: Question, queries: pa.Table, rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return what is wrong with the rows that answer a question about a world, a line each."""
    of = attributes(w)
    every = np.ones(len(w.ids), np.bool_)
    where = every if asked.where is None else CONDITIONS[asked.where](of)
    having = every if asked.having is None else CONDITIONS[asked.having](of)
    at = {id_: i for i, id_ in enumerate(w.ids.tolist())}
    answers: dict[Any, list[Mapping[str, Any]]] = {}
    for row in rows:
        answers.setdefault(row["query_id"], []).append(row)
    found = []
    x, y = ("lon", "lat") if w.metric == "sphere" else ("x", "y")
    for query in queries.to_pylist():
        mine = sorted(answers.pop(query["query_id"], []), key=lambda row: row["rank"] or 0)
        name = f"query {query['query_id']} at ({query[x]}, {query[y]})"
        k, limit = _asked_of(asked, query)
        place = np.array([query[x], query[y]], dtype=np.float64)
        if k == 0 or not np.isfinite(place).all():
            lines = [] if _nothing(mine, asked) else [f"{len(mine)} rows where none are wanted"]
        elif asked.how == "left" and len(mine) == 1 and mine[0]["id"] is None:
            lines = _hits(w, place, where, having, [], k, limit, query, asked, of, at)
        elif asked.how == "left" and not mine:
            lines = ["a left join has no row of it"]
        else:
            lines = _hits(w, place, where, having, mine, k, limit, query, asked, of, at)
        found += [f"{w.name}, {asked}: {name}: {line}" for line in lines]
    found += [f"{w.name}, {asked}: rows of query {query_id!r}, which nobody asked" for query_id in answers]
    return found


def _asked_of(asked: Question, query: Mapping[str, Any]) -> tuple[int | float, float]:
    """Return how many hits a query asks for, infinity for a range and 0 where it can have none, and how far off."""
    if asked.radius is not None:
        limit = query[asked.radius] if isinstance(asked.radius, str) else asked.radius
        return (0, 0.0) if limit is None or not limit >= 0 else (np.inf, limit)
    k = query[asked.k] if isinstance(asked.k, str) else asked.k
    return k or 0, np.inf if asked.max_distance is None else asked.max_distance


def _nothing(mine: list[Mapping[str, Any]], asked: Question) -> bool:
    if asked.how == "inner":
        return not mine
    return len(mine) == 1 and all(value is None for name, value in mine[0].items() if name != "query_id")


def _hits(
    w: World,
    place: NDArray[np.float64],
    where: Mask,
    having: Mask,
    mine: list[Mapping[str, Any]],
    k: float,
    limit: float,
    query: Mapping[str, Any],
    asked: Question,
    of: Mapping[str, NDArray[Any]],
    at: Mapping[Any, int],
) -> list[str]:
    if asked.exclude_self:
        where = where & (w.ids != query["query_id"])
    far = worlds.far_from(w, place)
    eps = worlds.tolerance(w, far)
    if any(row["id"] not in at for row in mine):
        return ["an object that there is not"]
    objects = [at[row["id"]] for row in mine]
    if len(set(objects)) != len(objects):
        return ["an object twice"]
    lines = []
    for row, i in zip(mine, objects, strict=True):
        if not (where[i] and having[i]):
            lines.append(f"{row['id']} does not satisfy the condition")
        if abs(row["distance"] - far[i]) > eps[i]:
            lines.append(f"{row['id']} at {row['distance']!r}, in truth {far[i]}")
        if row["distance"] > limit or row["rank"] > k:
            lines.append(f"{row['id']} at {row['distance']!r} of rank {row['rank']} is beyond what was asked")
        carried = {name: row[name] for name in of}
        if carried != {name: values[i].item() for name, values in of.items()}:
            lines.append(f"{row['id']} carries {carried}")
        nearer, near = (where & (far < far[i] - 2 * eps)).sum(), (where & (far <= far[i] + 2 * eps)).sum()
        if not nearer < row["rank"] <= near:
            lines.append(f"{row['id']} has rank {row['rank']}, {nearer} are nearer and {near} as near")
    keys = [(row["distance"], row["id"]) for row in mine]
    ranks = [row["rank"] for row in mine]
    gaps = asked.having is None and ranks != [*range(1, len(ranks) + 1)]
    if keys != sorted(keys) or ranks != sorted(set(ranks)) or gaps:
        lines.append(f"ranks {ranks} of {keys}")
    held = np.isin(np.arange(len(far)), objects)
    for i in np.flatnonzero(where & having & ~held & (far < limit - eps)).tolist():
        before = where & (far <= far[i] + 2 * eps)
        same = where & (w.positions == w.positions[i]).all(axis=1)
        # of objects on one place those with the lowest ids come first
        before &= ~same | (w.ids <= w.ids[i])
        if before.sum() <= k:
            lines.append(f"{w.ids[i]} at {far[i]} is missing")
    return lines
