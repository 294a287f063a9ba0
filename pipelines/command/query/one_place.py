"""Questions about one place, answered in this process or by a server."""

from __future__ import annotations

import math
import os
from pathlib import Path

import dtoss
from dtoss.compiled.notice import quiet
from dtoss.errors import InputError
from pipelines.command.query.print_answers import Asked, columns_for, print_count, print_hits
from pipelines.command.query.query_options import Filter, Form, Reach, Target
from pipelines.command.terminal.lengths import in_space

TOKEN = "DTOSS_TOKEN"
"""The variable that may hold the token of a server."""
FEW = 1_000
"""Up to so many rows of a disc are asked for as the nearest ones."""


def index_of(target: Target) -> Asked:
    """Return what is to be asked."""
    if (target.store is None) == (target.url is None):
        raise ValueError("one of --store STORE and --url URL is wanted")
    if target.url is None:
        if target.token_file is not None:
            raise ValueError("--token-file is for a server, named by --url")
        assert target.store is not None
        return dtoss.open(target.store, target.snapshot, verify=target.checked_by(False))
    if target.check is not None:
        raise ValueError("--verify is for a store: a server compares checksums before it serves a snapshot")
    return dtoss.connect(target.url, token=token_of(target.token_file), snapshot=target.snapshot)


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


def print_near(target: Target, place: tuple[float, float], reach: Reach, objects: Filter, form: Form) -> None:
    """Print the k nearest objects of a place, or without ``k`` all within a radius, or only how many these are."""
    form.check("--count" if reach.count else None)
    index = index_of(target)
    names, where, having = list(objects.columns), objects.where, objects.having
    asked = columns_for(index, names, form)
    if reach.k is not None:
        length = reach.max_distance
        furthest = None if length is None else in_space("--max-distance", length, index.space)
        hits = index.knn(place, reach.k, max_distance=furthest, columns=asked, where=where, having=having)
        print_hits(index, hits, form, names)
        return
    within = math.inf if reach.radius is None else in_space("--radius", reach.radius, index.space)
    limit = form.limit
    if reach.count:
        print_count({"snapshot": index.snapshot}, int(index.count(place, within, where=where)[0]), form.as_json)
    elif limit is None or limit > FEW or having is not None:
        print_hits(index, index.range(place, within, columns=asked, where=where, having=having), form, names)
    else:
        # the first of a disc are the nearest ones: the others need not be gathered
        hits = index.knn(place, limit, max_distance=within, columns=asked, where=where)
        all_told = len(hits) < limit or quiet()
        total = len(hits) if all_told else int(index.count(place, within, where=where)[0])
        print_hits(index, hits, form, names, total)
