"""Questions about one place, and how answers are printed: as CSV, JSON or GeoJSON, all rows or the first ones."""

from __future__ import annotations

import csv
import json
import math
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import dtoss
from dtoss.compiled.notice import quiet
from dtoss.errors import InputError
from dtoss.names import position_names
from pipelines.command.query.query_options import Filter, Form, Reach, Target
from pipelines.command.terminal.notes import note
from pipelines.command.terminal.options import in_space

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from dtoss.geometry.space import Space
    from dtoss.history.query.history import History


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


Asked: TypeAlias = "dtoss.Index | dtoss.RemoteIndex"
"""What is asked: a store's index, or a server's."""


def columns_for(index: Asked, names: list[str], form: Form) -> list[str]:
    """Return the columns to ask for: those of the user, and positions where they are printed."""
    wanted = position_names(index.space.geographic) if form.geojson else ()
    return [*names, *(name for name in wanted if name not in names)]


def print_count(about: dict[str, Any], number: int, as_json: bool) -> None:
    """Print how many there are."""
    print(json.dumps({**about, "count": number}) if as_json else number)


def print_hits(index: Asked, hits: dtoss.Hits, form: Form, names: list[str], total: int | None = None) -> None:
    """Print hits with their attributes.

    ``total``: how many hits there are, where the answer is only the first of them.
    """
    way_out = "ask with --columns x,y, or rebuild the store with --crs"
    hits, names = limit_hits(hits, form, "hits", total), list(dict.fromkeys(names))
    columns = [hits.rank().tolist(), *(hits.columns[name].to_pylist() for name in names)]
    print_rows({"snapshot": index.snapshot}, index, hits, form, ["rank", *names], columns, way_out)


def limit_hits(hits: dtoss.Hits, form: Form, what: str, total: int | None = None) -> dtoss.Hits:
    """Return the first of the hits where no more are to be printed, and say of how many."""
    found = len(hits) if total is None else total
    if form.limit is not None and form.limit < found:
        hits = hits[: form.limit]
        note(f"the first {len(hits):,} of {found:,} {what}: --limit {form.limit}")
    return hits


def print_rows(
    about: dict[str, Any],
    of: Asked | History,
    hits: dtoss.Hits,
    form: Form,
    names: list[str],
    columns: list[list[Any]],
    way_out: str,
) -> None:
    """Print hits with other columns by their names. ``way_out``: of a plane without CRS, where degrees are wanted."""
    # not by way of an Arrow table, for which Arrow loads pandas
    header = ["query_id", "id", "distance", *names]
    rows = zip(hits.query.tolist(), hits.id.tolist(), hits.distance.tolist(), *columns, strict=True)
    if form.geojson:
        print_points(about, degrees_of(hits.positions, of.space, way_out), header, rows)
    elif form.as_json:
        said = [dict(zip(header, row, strict=True)) for row in rows]
        print(json.dumps({**about, "hits": said}, default=str))
    else:
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)


def print_points(
    about: dict[str, Any], positions: NDArray[np.float64], names: list[str], rows: Iterator[tuple[Any, ...]]
) -> None:
    """Print a FeatureCollection of points as in RFC 7946, a line a feature.

    ``positions``: lon, lat of WGS 84, float64 (n, 2), not finite where there are none.
    """
    write = sys.stdout.write
    head = json.dumps({"type": "FeatureCollection", **about})
    write(f'{head[:-1]}, "features": [')
    nowhere = 0
    for number, (place, row) in enumerate(zip(positions.tolist(), rows, strict=True)):
        there = math.isfinite(place[0]) and math.isfinite(place[1])
        nowhere += not there
        feature = {
            "type": "Feature",
            "geometry": {"type": "Point", "coordinates": place} if there else None,
            "properties": {name: _value(value) for name, value in zip(names, row, strict=True)},
        }
        write(("," if number else "") + "\n" + json.dumps(feature, default=str))
    write("\n]}\n")
    if nowhere:
        print(f"warning: {nowhere:,} hits have no place in degrees: their geometry is null", file=sys.stderr)


def _value(value: Any) -> Any:
    """Return a value that JSON can say: it has no NaN and no infinity."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def degrees_of(positions: NDArray[np.float64], space: Space, way_out: str) -> NDArray[np.float64]:
    """Return positions as lon, lat of WGS 84, float64 (n, 2)."""
    from dtoss.geometry.space import LONLAT, NO_CRS, same_crs

    if space.crs.lower() == NO_CRS:
        raise ValueError(f"--geojson wants degrees, and this plane has no CRS: {way_out}")
    if same_crs(space.crs, LONLAT):
        return positions
    import numpy as np
    import pyproj

    turn = pyproj.Transformer.from_crs(space.crs, LONLAT, always_xy=True)
    return np.stack(turn.transform(positions[:, 0], positions[:, 1]), axis=1)
