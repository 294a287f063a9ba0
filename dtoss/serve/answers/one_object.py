"""One object by its id: where it is, what it carries, whose cells touch its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import numpy as np
import orjson
import pyarrow as pa

from dtoss.arrow_stream import stream_of
from dtoss.index import Index
from dtoss.names import position_names
from dtoss.partition import Partition
from dtoss.queries.cell_of import cell_at, outline_at
from dtoss.queries.find_by_id import Place
from dtoss.serve.answers.json_out import json_value
from dtoss.serve.answers.open_snapshots import ServedSnapshot
from dtoss.serve.core.problems import Problem


class ObjectQuestion(msgspec.Struct, frozen=True):
    """Asks for an object by the text of its id.

    That is no kind of question: it is about no place, and nothing is merged, as one server has all of the answer.
    """

    text: str
    arrow: bool = False
    neighbours: bool = True
    cell: bool = False
    text_ids: bool = False
    where: str | None = None  # One that does not satisfy it is none; None for any
    columns: tuple[str, ...] | None = None  # The attributes that are told; None for all


def no_object(served: ServedSnapshot, text: str) -> Problem:
    """Return what is said of an id that no object has."""
    return Problem(404, f"no object has the id {text!r} in snapshot {served.name}", limit="id", value=text)


def id_of(index: Index, text: str) -> int | str:
    """Return the id that a text in a path means."""
    if index.string_ids:
        return text
    digits = text[1:] if text.startswith("-") else text
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 19):
        raise KeyError(f"no object has the id {text!r}")
    return int(text)


def seen_at(served: ServedSnapshot, text: str, where: str | None) -> Place:
    """Return where an object is."""
    seen = None if where is None else served.conditions.get(where)
    place = served.index.place_of(id_of(served.index, text))
    if seen is not None and not seen.holds(np.array([place.partition.number]), np.array([place.item]))[0]:
        raise KeyError(f"no object has the id {text!r}")
    return place


def object_answer(served: ServedSnapshot, asked: ObjectQuestion) -> tuple[bytes, tuple[float, float]]:
    """Return an object as JSON, or as an Arrow stream of one row; and its position."""
    index = served.index
    object_id, place = id_of(index, asked.text), seen_at(served, asked.text, asked.where)
    partition, item, _ = place
    x, y = partition.positions[item].tolist()
    at = dict(zip(position_names(index.space.geographic), (x, y), strict=True))
    seen = seen_of(partition, asked.columns)
    if asked.arrow:
        columns = {"id": pa.array([object_id], pa.large_string() if index.string_ids else pa.int64())}
        columns |= {name: pa.array([value]) for name, value in at.items()}
        columns |= {name: column.slice(item, 1) for name, column in seen}
        return stream_of(pa.table(columns).replace_schema_metadata({"snapshot": served.name})), (x, y)
    told: dict[str, Any] = {"snapshot": served.name, "id": str(object_id) if asked.text_ids else object_id, **at}
    told["attributes"] = {name: json_value(column, item) for name, column in seen}
    # both tell of objects that are not seen
    if asked.neighbours and asked.where is None:
        ids = cell_at(served.cells, place).neighbours.tolist()
        told["neighbours"] = list(map(str, ids)) if asked.text_ids else ids
    if asked.cell and asked.where is None:
        outline, area = outline_at(served.cells, place)
        corners = index.space.positions(outline).tolist()
        told["cell"] = {"type": "Polygon", "coordinates": [[*corners, *corners[:1]]] if corners else []}
        told["area"] = area
    return orjson.dumps(told), (x, y)


def seen_of(partition: Partition, columns: Sequence[str] | None) -> Iterator[tuple[str, pa.Array]]:
    """Yield the attributes of a partition that are seen, with their names; all where None are named."""
    return ((name, column) for name, column in partition.attributes.items() if columns is None or name in columns)
