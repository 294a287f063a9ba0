"""A Delta log over the files by time, so that other tools read a history as a table; no byte of them is copied."""

from __future__ import annotations

import errno
import json
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.types as kinds

from dtoss.commits.folder import LocalFolder, link_if_absent
from dtoss.errors import InputError
from dtoss.extras import need
from dtoss.history.data_file import POINT_COLUMN
from dtoss.history.maintenance.history_facts_of import counting_files
from dtoss.history.segments import gone_error
from dtoss.history.versions import Home, Version

LOG = "_delta_log"
LINKED = "rows-"
"""How names of files begin that are links to files of a history: what begins otherwise is left alone."""
_SIGNED = {pa.uint8(): pa.int16(), pa.uint16(): pa.int32(), pa.uint32(): pa.int64()}
"""Delta has no unsigned numbers: the next larger ones."""


@dataclass(frozen=True)
class Exported:
    """What an export did."""

    version: int  # Of the history, which the table now has
    table_version: int
    added: int  # added, removed: files that came and went since the table's version before
    removed: int
    rows: int


def export_delta(home: Home, directory: str, number: int | None = None) -> Exported:
    """Write what a version has by time as a Delta table, or bring one up to date, and return what was done.

    ``directory``: of the table; made if it is not there. The folder of the history itself, or any on the same disk;
    ``number``: of the version; the newest one if None.

    Elsewhere than in the history the table's files are second names of its files: gc of the history does not take them,
    and the next export takes those that no version has any more. Rows that were forgotten are in a table until it is
    exported anew. Within the history an export is whole until the next gc. Cost O(files).
    """
    delta = need("deltalake", "a Delta table", "delta")
    need("deltalake.transaction", "a Delta table", "delta")
    if not isinstance(home.folder, LocalFolder) or "://" in directory:
        raise InputError(
            f"{directory} over {home.shown} cannot be a Delta table: both have to be on one local disk, nothing is "
            "copied"
        )
    version = home.version(number)
    root = Path(directory).absolute()
    schema = delta.Schema.from_arrow(columns_of(version))
    root.mkdir(parents=True, exist_ok=True)
    inside = root.resolve() == Path(home.folder.root).resolve()
    table = _table_of(delta, str(root), schema)
    wanted = _files_of(version, inside)
    for path, name in wanted.items():
        if not inside:
            _link(Path(home.folder.path(*version.files.name[name].split("/"))), root / path)
    adding, removing, table_version = _write_log(delta, str(root), table, schema, version, wanted)
    if not inside:
        _clear(root, set(wanted))
    return Exported(version.number, table_version, adding, removing, version.rows)


def columns_of(version: Version) -> pa.Schema:
    """Return the columns of a version's Delta table: Delta has less types than Arrow."""
    schema = version.schema.arrow
    point = pa.struct([("x", pa.float64()), ("y", pa.float64())])
    fields = [pa.field("id", _plain("id", schema.field("id").type)), pa.field("t", schema.field("t").type)]
    fields += [pa.field(POINT_COLUMN, point), pa.field("deleted", pa.bool_())]
    return pa.schema(fields + [pa.field(name, _plain(name, kind)) for name, kind in version.schema.attributes.items()])


def _plain(name: str, kind: pa.DataType) -> pa.DataType:
    if kind in _SIGNED:
        return _SIGNED[kind]
    if kinds.is_large_string(kind):
        return pa.string()
    if kinds.is_large_binary(kind):
        return pa.binary()
    signed = kinds.is_signed_integer(kind) or kinds.is_float32(kind) or kinds.is_float64(kind)
    if signed or kinds.is_boolean(kind) or kinds.is_date32(kind) or kind == pa.timestamp("us", "UTC"):
        return kind
    raise InputError(f"column {name!r} is {kind}, which Delta lacks: leave it out, or cast it before it is appended")


def _files_of(version: Version, inside: bool) -> dict[str, int]:
    """Return the numbers of the files by time, by their paths in the table."""
    return {one.name if inside else LINKED + one.name.rpartition("/")[2]: one.number for one in counting_files(version)}


def _table_of(delta: Any, root: str, schema: Any) -> Any:
    """Return the table that stands there, None where there is none."""
    if not delta.DeltaTable.is_deltatable(root):
        return None
    table = delta.DeltaTable(root)
    came = {field.name: field.type for field in schema.fields}
    if any(came.get(field.name) != field.type for field in table.schema().fields):
        raise InputError(f"{root} is a Delta table of other columns: choose another folder, or remove it")
    return table


def _write_log(
    delta: Any, root: str, table: Any, schema: Any, version: Version, wanted: dict[str, int]
) -> tuple[int, int, int]:
    """Commit to a table what its files are, and return how many came and went, and its version."""
    files, now = version.files, int(time.time() * 1000)
    made = delta.transaction
    actions = {}
    for path, number in wanted.items():
        counts = json.dumps({"numRecords": int(files.rows[number])})
        actions[path] = made.AddAction(path, int(files.bytes[number]), {}, now, True, counts)
    if table is None:
        made.create_table_with_add_actions(root, schema, list(actions.values()))
        return len(actions), 0, 0
    held = {field.name for field in table.schema().fields}
    if fresh := [field for field in schema.fields if field.name not in held]:
        table.alter.add_columns(fresh)
        table = delta.DeltaTable(root)
    there = {os.path.relpath(path, Path(root).resolve()) for path in map(_plain_path, table.file_uris())}
    adding = [action for path, action in actions.items() if path not in there]
    removing = [
        made.RemoveAction(path, data_change=True, deletion_timestamp=now) for path in sorted(there - set(actions))
    ]
    if adding or removing:
        table.create_write_transaction([*removing, *adding], "append", schema, [])
    return len(adding), len(removing), int(delta.DeltaTable(root).version())


def _plain_path(uri: str) -> str:
    return str(Path(uri.removeprefix("file://")).resolve())


def _link(source: Path, target: Path) -> None:
    try:
        if not link_if_absent(source, target):
            # of the same bytes, as its name says; but one that was damaged has been made again
            target.unlink()
            link_if_absent(source, target)
    except FileNotFoundError:
        raise gone_error(str(source)) from None
    except OSError as error:
        if error.errno not in (errno.EXDEV, errno.EPERM, errno.EMLINK, errno.ENOTSUP):
            raise
        raise InputError(
            f"{target.parent} cannot have second names of the files in {source.parent}: choose a folder on the same "
            "disk, or the history itself; nothing is copied"
        ) from None


def _clear(root: Path, keep: set[str]) -> None:
    """Remove the links that a table needs no more."""
    for path in root.glob(f"{LINKED}*.parquet"):
        if path.name not in keep:
            path.unlink(missing_ok=True)
