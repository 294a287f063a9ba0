"""One object by its id: where it is, what it carries, whose cells touch its own."""

from __future__ import annotations

from typing import Any

import orjson
import pyarrow as pa

from dtoss.index import Index
from dtoss.queries.cell_of import cell_at, outline_at
from dtoss.serve.answers import json_value
from dtoss.serve.serving import Served


def id_of(index: Index, text: str) -> Any:
    """Return the id that a text in a path means.

    Raises
    ------
    KeyError
        If no object can have it.
    """
    if index.string_ids:
        return text
    digits = text[1:] if text.startswith("-") else text
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 19):
        raise KeyError(f"no object has the id {text!r}")
    return int(text)


def object_body(
    served: Served, text: str, *, neighbours: bool = True, cell: bool = False, text_ids: bool = False
) -> tuple[bytes, tuple[float, float]]:
    """Return the JSON of an object, and its position.

    Raises
    ------
    KeyError
        If there is no object of this id.
    """
    index = served.index
    object_id = id_of(index, text)
    place = index.place_of(object_id)
    partition, item, _ = place
    x, y = partition.positions[item].tolist()
    names = ("lon", "lat") if index.space.geographic else ("x", "y")
    told: dict[str, Any] = {"snapshot": served.name, "id": str(object_id) if text_ids else object_id}
    told |= {names[0]: x, names[1]: y}
    told["attributes"] = {name: json_value(column, item) for name, column in partition.attributes.items()}
    if neighbours:
        ids = cell_at(served.cells, place).neighbours.tolist()
        told["neighbours"] = list(map(str, ids)) if text_ids else ids
    if cell:
        outline, area = outline_at(served.cells, place)
        corners = index.space.positions(outline).tolist()
        told["cell"] = {"type": "Polygon", "coordinates": [[*corners, *corners[:1]]] if corners else []}
        told["area"] = area
    return orjson.dumps(told), (x, y)


def object_table(served: Served, text: str) -> tuple[bytes, tuple[float, float]]:
    """Return an Arrow stream of one row, an object with its position and attributes; and its position.

    Raises
    ------
    KeyError
        If there is no object of this id.
    """
    index = served.index
    object_id = id_of(index, text)
    partition, item, _ = index.place_of(object_id)
    x, y = partition.positions[item].tolist()
    names = ("lon", "lat") if index.space.geographic else ("x", "y")
    columns = {"id": pa.array([object_id], pa.large_string() if index.string_ids else pa.int64())}
    columns |= {names[0]: pa.array([x]), names[1]: pa.array([y])}
    columns |= {name: column.slice(item, 1) for name, column in partition.attributes.items()}
    table = pa.table(columns).replace_schema_metadata({"snapshot": served.name})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes(), (x, y)
