"""The columns of a log: those of the input that a store was built of, and one that says whether a row deletes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from dtoss.errors import InputError, StoreError
from dtoss.names import position_names, types_in_input
from dtoss.rows.input_columns import DELETED as DELETED
from dtoss.snapshots.column_types import type_named
from dtoss.snapshots.manifest import space_of_manifest

META = b"dtoss.log"
"""Under this key the metadata of a schema say which column is what (:func:`roles_of`)."""


def log_schema(manifest: Mapping[str, Any]) -> pa.Schema:
    """Return the columns of a log of a store: id, x, y, time, the attributes, ``deleted``.

    They are called as in the input that the snapshot was built of, so that a cycle reads them as it reads that, and
    have the store's types. A store without times, or with an attribute ``deleted``, is an InputError.
    """
    time = manifest.get("time")
    if time is None:
        raise InputError(
            f"snapshot {manifest['snapshot']} has no times, by which of two rows of an id one counts: rebuild it with "
            "--time COLUMN"
        )
    source = manifest.get("source") or {}
    x, y = position_names(space_of_manifest(dict(manifest)).geographic)
    attributes = types_in_input(manifest)
    roles = {
        "id": source.get("id") or "id",
        "x": source.get("x") or x,
        "y": source.get("y") or y,
        "time": source.get("time") or time["column"],
        "deleted": DELETED,
    }
    if any(name.casefold() == DELETED for name in (*attributes, *list(roles.values())[:-1])):
        raise InputError(
            f"the objects of snapshot {manifest['snapshot']} carry a column {DELETED!r}, which says of rows that are "
            "told whether they delete: rebuild it without (--columns), or with --deleted"
        )
    fields = [
        pa.field(roles["id"], pa.string() if manifest["id_type"] == "string" else pa.int64(), nullable=False),
        pa.field(roles["x"], pa.float64()),
        pa.field(roles["y"], pa.float64()),
        pa.field(roles["time"], type_named(time["type"]), nullable=False),
    ]
    known = {field.name for field in fields}
    fields += [pa.field(name, type_named(kind)) for name, kind in attributes.items() if name not in known]
    fields.append(pa.field(DELETED, pa.bool_(), nullable=False))
    return pa.schema(fields, metadata={META: json.dumps(roles)})


def roles_of(schema: pa.Schema) -> dict[str, str]:
    """Return the names of the columns of a log by what they are: id, x, y, time, deleted.

    Examples
    --------
    >>> roles_of(pa.schema([], metadata={META: '{"id": "id", "x": "lon", "y": "lat", "time": "t"}'}))["x"]
    'lon'
    """
    roles: dict[str, str] = json.loads((schema.metadata or {})[META])
    return roles


def fit(rows: pa.Table, schema: pa.Schema, where: str) -> pa.Table:
    """Return rows in the columns of a schema: those that it has beside theirs are null, those that it lacks go.

    A segment may have been written before the columns of the store changed.
    """
    if rows.schema.equals(schema):
        return rows.replace_schema_metadata(schema.metadata)
    columns = []
    for field in schema:
        if field.name not in rows.schema.names:
            if not field.nullable:
                raise StoreError(
                    f"{where} has no column {field.name!r}: its rows cannot be taken for those of the store"
                )
            columns.append(pa.nulls(len(rows), field.type))
            continue
        try:
            columns.append(rows.column(field.name).cast(field.type))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            kind = rows.schema.field(field.name).type
            raise StoreError(
                f"column {field.name!r} is {kind} in {where} and {field.type} in the store: its rows cannot be taken "
                "for those of the store"
            ) from None
    return pa.table(columns, schema=schema)
