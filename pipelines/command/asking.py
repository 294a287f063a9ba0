"""Questions about one place, answered in this process, and their answers on stdout."""

from __future__ import annotations

import json
import math
import sys
from typing import Literal

import dtoss


def print_near(
    store: str,
    place: tuple[float, float],
    *,
    k: int | None = None,
    radius: float = math.inf,
    max_distance: float | None = None,
    columns: str = "",
    where: str | None = None,
    having: str | None = None,
    count: bool = False,
    snapshot: str | None = None,
    verify: bool | Literal["touch"] = False,
    as_json: bool = False,
) -> None:
    """Print the k nearest objects of a place, or without ``k`` all within a radius, or only how many these are.

    As CSV or as JSON; ``columns`` are separated by commas.

    Raises
    ------
    StoreError, ValueError
        As :func:`dtoss.open`, :meth:`dtoss.Index.knn` and :meth:`dtoss.Index.range`.
    """
    index, names = dtoss.open(store, snapshot, verify=verify), column_list(columns)
    if k is not None:
        hits = index.knn(place, k, max_distance=max_distance, columns=names, where=where, having=having)
    elif count:
        print_count(index, int(index.count(place, radius, where=where)[0]), as_json)
        return
    else:
        hits = index.range(place, radius, columns=names, where=where, having=having)
    print_hits(index, hits, as_json)


def column_list(columns: str) -> list[str]:
    """Return the names in a text that separates them by commas."""
    return [name.strip() for name in columns.split(",") if name.strip()]


def print_count(index: dtoss.Index, number: int, as_json: bool) -> None:
    """Print how many objects there are."""
    print(json.dumps({"snapshot": index.snapshot, "count": number}) if as_json else number)


def print_hits(index: dtoss.Index, hits: dtoss.Hits, as_json: bool) -> None:
    """Print hits with their attributes."""
    # not by way of an Arrow table, for which Arrow loads pandas
    names = ["query_id", "id", "distance", "rank", *hits.columns]
    columns = [values.tolist() for values in (hits.query, hits.id, hits.distance, hits.rank())]
    rows = list(zip(*columns, *(column.to_pylist() for column in hits.columns.values()), strict=True))
    if as_json:
        found = [dict(zip(names, row, strict=True)) for row in rows]
        print(json.dumps({"snapshot": index.snapshot, "hits": found}, default=str))
        return
    import csv

    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(names)
    writer.writerows(rows)
