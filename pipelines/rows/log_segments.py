"""Sealed segments of a log among files that are read: each says in its metadata which column of it is what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from dtoss.errors import InputError
from dtoss.log.log_schema import META, roles_of
from dtoss.rows.input_columns import Columns


class MixedFiles(InputError):
    """Files can be read each, and not together: they are batches of their own."""


def roles_in(schemas: Sequence[pa.Schema], files: Sequence[str]) -> dict[str, str] | None:
    """Return the names of the columns of segments by what they are, None of other files; not of both at once."""
    said = [(one.metadata or {}).get(META) for one in schemas]
    found = dict(zip(said, files, strict=True))
    if len(found) > 1:
        first, other, *_ = found.values()
        raise MixedFiles(
            f"{first} and {other} are not of one log, or one of them of none: they are read apart, as --updates does"
        )
    return roles_of(schemas[0]) if schemas and said[0] is not None else None


def columns_of_log(columns: Columns, roles: Mapping[str, str] | None) -> Columns:
    """Return which columns mean what in files; segments of a log, which have ``roles``, say it, deletions included."""
    if roles is None:
        return columns
    return replace(
        columns, geometry=None, id=roles["id"], x=roles["x"], y=roles["y"], time=roles["time"], deleted=roles["deleted"]
    )
