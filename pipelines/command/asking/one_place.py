"""Questions about one place, answered in this process or by a server, and their answers on stdout."""

from __future__ import annotations

import json
import math
import os
import sys
from pathlib import Path
from typing import Literal, TypeAlias

import dtoss
from dtoss.errors import InputError

Asked: TypeAlias = "dtoss.Index | dtoss.RemoteIndex"
"""What is asked: a store's index, or a server's."""
TOKEN = "DTOSS_TOKEN"
"""The variable that may hold the token of a server."""


def index_of(
    store: str | None,
    url: str | None,
    *,
    token_file: str | None = None,
    snapshot: str | None = None,
    verify: bool | Literal["touch"] | None = None,
) -> Asked:
    """Return what is to be asked.

    Parameters
    ----------
    store, url
        One of them.
    token_file
        Holds the token of the server; the variable DTOSS_TOKEN does where it is None.
    snapshot
        The current one where it is None.
    verify
        Which checksums are compared; None where it was not said.

    Raises
    ------
    StoreError
        If the store or the snapshot is missing or damaged.
    DtossError
        If the server cannot be asked.
    ValueError
        If none or both of store and URL are given, or what goes with the other.
    """
    if (store is None) == (url is None):
        raise ValueError("one of --store STORE and --url URL is wanted")
    if url is None:
        if token_file is not None:
            raise ValueError("--token-file is for a server, named by --url")
        assert store is not None
        return dtoss.open(store, snapshot, verify=False if verify is None else verify)
    if verify is not None:
        raise ValueError("--verify is for a store: a server compares checksums before it serves a snapshot")
    return dtoss.connect(url, token=token_of(token_file), snapshot=snapshot)


def token_of(path: str | None) -> str | None:
    """Return the token in a file, that of the environment without a file, None where there is none.

    Raises
    ------
    InputError
        If the file cannot be read, or holds something else than one token.
    """
    if path is None:
        return os.environ.get(TOKEN) or None
    try:
        words = Path(path).read_text(encoding="utf-8").split()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"--token-file {path} cannot be read: {error}") from None
    if len(words) != 1:
        raise InputError(f"--token-file {path} holds {len(words)} words: the token alone is wanted")
    return words[0]


def print_near(
    store: str | None,
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
    verify: bool | Literal["touch"] | None = None,
    url: str | None = None,
    token_file: str | None = None,
    as_json: bool = False,
) -> None:
    """Print the k nearest objects of a place, or without ``k`` all within a radius, or only how many these are.

    As CSV or as JSON; ``columns`` are separated by commas. A store is asked, or with ``url`` a server.

    Raises
    ------
    DtossError, ValueError
        As :func:`index_of`, :meth:`dtoss.Index.knn` and :meth:`dtoss.Index.range`.
    """
    index = index_of(store, url, token_file=token_file, snapshot=snapshot, verify=verify)
    names = column_list(columns)
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


def print_count(index: Asked, number: int, as_json: bool) -> None:
    """Print how many objects there are."""
    print(json.dumps({"snapshot": index.snapshot, "count": number}) if as_json else number)


def print_hits(index: Asked, hits: dtoss.Hits, as_json: bool) -> None:
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
