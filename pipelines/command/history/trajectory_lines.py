"""Trajectories as lines: GeoParquet, a line for each run of rows without a long silence."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dtoss.extras import need

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from dtoss.history.query.history import History
    from dtoss.hits import Hits


def write_lines(past: History, hits: Hits, path: str, gap: float | None) -> int:
    """Write lines of rows to a GeoParquet file and return how many they are.

    ``gap``: seconds: after a longer silence a new line begins; None for never.

    Columns id, t_from, t_to, rows and the line; a row by itself is a line from its place to the same place. Nothing is
    drawn between two rows but a straight line: no roads, no antimeridian.
    """
    geopandas = need("geopandas", "--line", "frames")
    import numpy as np
    import shapely

    t = _numbers(past, hits)
    limit = np.inf if gap is None else gap * (1e6 if past.schema.t_type == "timestamp" else 1.0)
    fresh = np.ones(len(hits), np.bool_)
    fresh[1:] = (hits.query[1:] != hits.query[:-1]) | (np.diff(t) > limit)
    first = np.flatnonzero(fresh)
    end = np.append(first[1:], len(hits))
    places = hits.positions
    lines = []
    for begin, stop in zip(first.tolist(), end.tolist(), strict=True):
        part = places[begin:stop]
        lines.append(shapely.LineString(part if len(part) > 1 else np.repeat(part, 2, axis=0)))
    times = hits.columns["t"].to_numpy(zero_copy_only=False)
    columns = {"id": hits.id[first], "t_from": times[first], "t_to": times[end - 1], "rows": end - first}
    crs = None if past.space.crs.lower() == "none" else past.space.crs
    geopandas.GeoDataFrame(columns, geometry=lines, crs=crs).to_parquet(path)
    return len(lines)


def _numbers(past: History, hits: Hits) -> NDArray[np.float64]:
    from dtoss.history.row_tables import t_numbers

    return t_numbers(hits.columns["t"]).astype(float)
