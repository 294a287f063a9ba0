"""One object by its id: where it is, what it carries, whose cells touch its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import orjson
import pyarrow as pa

from dtoss.arrow_stream import stream_of
from dtoss.index import Index
from dtoss.partition import Partition
from dtoss.queries.cell_of import cell_at, outline_at
from dtoss.queries.find_by_id import Place
from dtoss.serve.answers.json_out import json_value
from dtoss.serve.answers.open_snapshots import ServedSnapshot


def id_of(index: Index, text: str) -> int | str:
    """Return the id that a text in a path means."""
    if index.string_ids:
        return text
    digits = text[1:] if text.startswith("-") else text
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 19):
        raise KeyError(f"no object has the id {text!r}")
    return int(text)


def seen_at(served: ServedSnapshot, text: str, where: str | None) -> Place:
    """Return where an object is.

    ``where``: A condition on the objects that are seen; None for all of them.
    """
    seen = None if where is None else served.conditions.get(where)
    place = served.index.place_of(id_of(served.index, text))
    if seen is not None and not seen.holds(np.array([place.partition.number]), np.array([place.item]))[0]:
        raise KeyError(f"no object has the id {text!r}")
    return place


def object_body(
    served: ServedSnapshot,
    text: str,
    *,
    neighbours: bool = True,
    cell: bool = False,
    text_ids: bool = False,
    where: str | None = None,
    columns: Sequence[str] | None = None,
) -> tuple[bytes, tuple[float, float]]:
    """Return the JSON of an object, and its position.

    ``neighbours``, ``cell``: whether they are told; not beside a condition, as they tell of objects that are not seen;
    ``where``, ``columns``: A condition on the objects that are seen, and their attributes that are; None for all.
    """
    index = served.index
    object_id = id_of(index, text)
    place = seen_at(served, text, where)
    partition, item, _ = place
    x, y = partition.positions[item].tolist()
    names = ("lon", "lat") if index.space.geographic else ("x", "y")
    told: dict[str, Any] = {"snapshot": served.name, "id": str(object_id) if text_ids else object_id}
    told |= {names[0]: x, names[1]: y}
    told["attributes"] = {name: json_value(column, item) for name, column in seen_of(partition, columns)}
    if neighbours and where is None:
        ids = cell_at(served.cells, place).neighbours.tolist()
        told["neighbours"] = list(map(str, ids)) if text_ids else ids
    if cell and where is None:
        outline, area = outline_at(served.cells, place)
        corners = index.space.positions(outline).tolist()
        told["cell"] = {"type": "Polygon", "coordinates": [[*corners, *corners[:1]]] if corners else []}
        told["area"] = area
    return orjson.dumps(told), (x, y)


def object_table(
    served: ServedSnapshot, text: str, where: str | None = None, columns: Sequence[str] | None = None
) -> tuple[bytes, tuple[float, float]]:
    """Return an Arrow stream of one row, an object with its position and attributes; and its position."""
    index = served.index
    object_id = id_of(index, text)
    partition, item, _ = seen_at(served, text, where)
    x, y = partition.positions[item].tolist()
    names = ("lon", "lat") if index.space.geographic else ("x", "y")
    told = {"id": pa.array([object_id], pa.large_string() if index.string_ids else pa.int64())}
    told |= {names[0]: pa.array([x]), names[1]: pa.array([y])}
    told |= {name: column.slice(item, 1) for name, column in seen_of(partition, columns)}
    table = pa.table(told).replace_schema_metadata({"snapshot": served.name})
    return stream_of(table), (x, y)


def seen_of(partition: Partition, columns: Sequence[str] | None) -> Iterator[tuple[str, pa.Array]]:
    """Yield the attributes of a partition that are seen, with their names; all where None are named."""
    return ((name, column) for name, column in partition.attributes.items() if columns is None or name in columns)
