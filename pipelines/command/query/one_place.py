"""Questions about one place, answered in this process or by a server."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Literal

import dtoss
from dtoss.compiled.notice import quiet
from dtoss.errors import InputError
from pipelines.command.query.print_answers import Asked, columns_for, form_of, print_count, print_hits
from pipelines.command.terminal.lengths import Length, in_space

TOKEN = "DTOSS_TOKEN"
"""The variable that may hold the token of a server."""
FEW = 1_000
"""Up to so many rows of a disc are asked for as the nearest ones."""


def index_of(
    store: str | None,
    url: str | None,
    *,
    token_file: str | None = None,
    snapshot: str | None = None,
    verify: bool | Literal["touch"] | None = None,
) -> Asked:
    """Return what is to be asked.

    ``token_file``: holds the token of the server; the variable DTOSS_TOKEN does where it is None; ``snapshot``: the
    current one where it is None; ``verify``: which checksums are compared; None where it was not said.
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
    """Return the token in a file, that of the environment without a file, None where there is none."""
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
    radius: Length | None = None,
    max_distance: Length | None = None,
    columns: str = "",
    where: str | None = None,
    having: str | None = None,
    count: bool = False,
    limit: int | None = None,
    snapshot: str | None = None,
    verify: bool | Literal["touch"] | None = None,
    url: str | None = None,
    token_file: str | None = None,
    as_json: bool = False,
    geojson: bool = False,
) -> None:
    """Print the k nearest objects of a place, or without ``k`` all within a radius, or only how many these are.

    As CSV, JSON or GeoJSON; ``columns`` are separated by commas. A store is asked, or with ``url`` a server.
    """
    form = form_of(as_json, geojson, limit, "--count" if count else None)
    index = index_of(store, url, token_file=token_file, snapshot=snapshot, verify=verify)
    names = column_list(columns)
    asked = columns_for(index, names, form)
    if k is not None:
        furthest = None if max_distance is None else in_space("--max-distance", max_distance, index.space)
        hits = index.knn(place, k, max_distance=furthest, columns=asked, where=where, having=having)
        print_hits(index, hits, form, names)
        return
    within = math.inf if radius is None else in_space("--radius", radius, index.space)
    if count:
        print_count(index, int(index.count(place, within, where=where)[0]), as_json)
    elif limit is None or limit > FEW or having is not None:
        print_hits(index, index.range(place, within, columns=asked, where=where, having=having), form, names)
    else:
        # the first of a disc are the nearest ones: the others need not be gathered
        hits = index.knn(place, limit, max_distance=within, columns=asked, where=where)
        all_told = len(hits) < limit or quiet()
        total = len(hits) if all_told else int(index.count(place, within, where=where)[0])
        print_hits(index, hits, form, names, total)


def column_list(columns: str) -> list[str]:
    """Return the names in a text that separates them by commas."""
    return [name.strip() for name in columns.split(",") if name.strip()]
