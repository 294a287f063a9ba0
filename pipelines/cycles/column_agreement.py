"""Updates in the columns of a store: each one there, of its type and in its order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dtoss.errors import InputError
from dtoss.names import columns_of_manifest, free_names
from dtoss.rows.input_columns import DELETED, REASON, Unfitting, attribute_column, attribute_name
from pipelines.rows.inputs import Inputs
from pipelines.rows.position_frame import Positions


def check_columns(inputs: Inputs, manifest: dict[str, Any] | None, missing: str) -> None:
    """Check that no file lacks a column of a store that other files have: null would stand for what it does not say."""
    if manifest is None or missing == "null":
        return
    stored = columns_of_manifest(manifest)
    shared = [name for name in inputs.names if name in stored]
    for file, names in zip(inputs.files, inputs.columns, strict=False):
        if lacking := next((name for name in shared if name not in names), None):
            raise Unfitting(
                f"{file} has no column {lacking!r}, which snapshot {manifest['snapshot']} has: a row is the whole "
                "object; --missing null stores null there"
            )


def agree_columns(
    positions: Positions, manifest: dict[str, Any] | None, order: Sequence[str], missing: str
) -> tuple[Positions, tuple[tuple[str, str], ...]]:
    """Return updates with a store's attributes, in its order, and pairs of (column, attribute) of them.

    ``manifest``: of the snapshot that stands; None where nothing does; ``order``: its attributes, in the order in which
    they are stored; ``missing``: "error", or "null" where a column that the store has may be missing.
    """
    if not positions.timed:
        raise Unfitting("updates need a time, which says what of an object is the latest: name its column (--time)")
    given = [column for column in positions.columns if column.startswith("a:")]
    free = free_names(map(attribute_name, given))
    column_of = {free[attribute_name(column)]: column for column in given}
    if manifest is None:
        return positions, tuple((column, name) for name, column in column_of.items())
    name = manifest["snapshot"]
    kinds = positions.types
    said = manifest["time"]
    if kinds["t"] != said["type"]:
        raise InputError(
            f"times of the updates are {kinds['t']}, those of snapshot {name} ({said['column']}) are {said['type']}: "
            "cast one of them (--time-format reads text)"
        )
    kind = "string" if positions.string_ids else "int64"
    if kind != manifest["id_type"]:
        way = "read them as text (--id-type text)"
        if kind == "string":
            way = "rebuild from all rows with --id-type text, which keeps all ids as text"
        raise InputError(f"ids of the updates are {kind}, those of snapshot {name} are {manifest['id_type']}: {way}")
    stored = columns_of_manifest(manifest)
    pairs, absent = [], {}
    for attribute in [*order, *(other for other in column_of if other not in stored)]:
        column = column_of.get(attribute)
        if column is None:
            if missing != "null":
                raise Unfitting(
                    f"the updates have no column {attribute!r}, which snapshot {name} has: a row is the whole object; "
                    "--missing null stores null there"
                )
            column = attribute_column(attribute)
            absent[column] = stored[attribute]
        elif attribute in stored and kinds[column] != stored[attribute]:
            raise InputError(
                f"column {attribute!r} is {kinds[column]} in the updates and {stored[attribute]} in snapshot "
                f"{name}: cast it"
            )
        pairs.append((column, attribute))
    names = ["id", "x", "y", "t", *([DELETED] if DELETED in positions.columns else []), REASON]
    return positions.with_nulls(absent).only([*names, *(column for column, _ in pairs)]), tuple(pairs)
