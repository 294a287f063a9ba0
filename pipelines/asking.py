"""Questions about one place, answered in this process, and their answers on stdout."""

from __future__ import annotations

import json
import sys
from typing import Literal

import dtoss


def print_nearest(
    store: str,
    place: tuple[float, float],
    k: int,
    *,
    max_distance: float | None = None,
    columns: str = "",
    where: str | None = None,
    having: str | None = None,
    snapshot: str | None = None,
    verify: bool | Literal["touch"] = False,
    as_json: bool = False,
) -> None:
    """Print the k nearest objects of a place, as CSV or as JSON; ``columns`` are separated by commas.

    Raises
    ------
    StoreError, ValueError
        As :func:`dtoss.open` and :meth:`dtoss.Index.knn`.
    """
    index = dtoss.open(store, snapshot, verify=verify)
    names = column_list(columns)
    print_hits(
        index, index.knn(place, k, max_distance=max_distance, columns=names, where=where, having=having), as_json
    )


def print_range(
    store: str,
    place: tuple[float, float],
    radius: float,
    *,
    columns: str = "",
    where: str | None = None,
    having: str | None = None,
    count: bool = False,
    snapshot: str | None = None,
    verify: bool | Literal["touch"] = False,
    as_json: bool = False,
) -> None:
    """Print all objects within a radius of a place, or only how many there are.

    Raises
    ------
    StoreError, ValueError
        As :func:`dtoss.open` and :meth:`dtoss.Index.range`.
    """
    index = dtoss.open(store, snapshot, verify=verify)
    if count:
        print_count(index, int(index.count(place, radius, where=where)[0]), as_json)
        return
    print_hits(index, index.range(place, radius, columns=column_list(columns), where=where, having=having), as_json)


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
