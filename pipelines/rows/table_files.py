"""Folders that are tables: a log in them says which of their files have rows that count, and rows of which are gone."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any
from urllib.parse import parse_qs, unquote

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from dtoss.errors import InputError
from dtoss.extras import need

DELTA, ICEBERG, HUDI = "Delta table", "Iceberg table", "Hudi table"
LOGS = {"_delta_log": DELTA, ".hoodie": HUDI}
"""Folders that make a table of the folder that they are in."""
_METADATA = re.compile(r"(v\d+|\d+-[0-9a-f-]+)(\.gz)?\.metadata\.json(\.gz)?")
_HINT = "version-hint.text"
_READABLE = {"timestampNtz", "deletionVectors", "columnMapping", "v2Checkpoint", "vacuumProtocolCheck"}
"""Features of Delta with which files may still be the table's rows, if no file uses the second and the third."""
_TYPES = {"long": "bigint", "integer": "int", "short": "smallint", "byte": "tinyint"}
"""What Spark calls types of Delta, where it calls them otherwise."""
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"


@dataclass(frozen=True)
class TableFiles:
    """The files whose rows are a table's."""

    kind: str  # Such as "Delta table"
    root: str  # The folder that it is, on its file system
    files: frozenset[str]
    version: str
    # The Spark types of columns whose values stand in names of folders
    types: Mapping[str, str] = field(default_factory=dict)


def table_roots(root: str, below: Iterable[tuple[str, ...]]) -> dict[str, str]:
    """Return the folders that are tables, and of which kind.

    Examples
    --------
    >>> table_roots("in", [("a.csv",), ("t", "_delta_log", "00000000000000000000.json")])
    {'in/t': 'Delta table'}
    """
    found: dict[str, str] = {}
    for names in below:
        at = next((number for number, name in enumerate(names[:-1]) if name in LOGS or _hides(name)), len(names) - 2)
        kind = LOGS.get(names[at]) if at >= 0 else None
        if at == len(names) - 2 >= 0 and names[at] == "metadata" and _METADATA.fullmatch(names[-1]):
            kind = ICEBERG
        if kind:
            found["/".join((root.rstrip("/"), *names[:at]))] = kind
    return found


def _hides(name: str) -> bool:
    return name.startswith(".") or (name.startswith("_") and "=" not in name)


def table_of_metadata(filesystem: fs.FileSystem, file: str) -> TableFiles | None:
    """Return the Iceberg table of which a file is the metadata; None where it is none."""
    folder, _, name = file.rpartition("/")
    if not (_METADATA.fullmatch(name) and folder.rpartition("/")[2] == "metadata"):
        return None
    return _iceberg_files(filesystem, folder.rpartition("/")[0], file, file)


def files_of_table(filesystem: fs.FileSystem, root: str, kind: str, said: str, there: Iterable[str]) -> TableFiles:
    """Return the files whose rows are a table's."""
    names = set(there)
    if kind == DELTA:
        return _delta_files(filesystem, root, said, names)
    if kind == ICEBERG:
        return _iceberg_files(filesystem, root, _newest(filesystem, root, names), said)
    raise InputError(f"{root} is {_one(kind)}, which is not read: write its rows as Parquet files, and name those")


def refuse_to_follow(root: str, kind: str) -> InputError:
    """Return the error of who is to read files as they arrive, and finds a table."""
    return InputError(
        f"{root} is {_one(kind)}, whose files are written anew where rows change: no folder where files arrive; read "
        "it whole (dtoss rebuild), or its stream (pipelines.watch.watch, windows, stream)"
    )


def _one(kind: str) -> str:
    return f"an {kind}" if kind == ICEBERG else f"a {kind}"


def _not_by_files(root: str, kind: str, why: str) -> InputError:
    return InputError(
        f"{root} is {_one(kind)} {why}, so that its files alone do not say its rows: write them as Parquet files with "
        "an engine that reads it, and name those"
    )


def _delta_files(filesystem: fs.FileSystem, root: str, said: str, there: set[str]) -> TableFiles:
    delta = need("deltalake", f"{root} is a Delta table; to read which rows it has", "delta")
    try:
        place, options = _place_of(filesystem, root, said)
        table = delta.DeltaTable(place, storage_options=options)
        features = set(table.protocol().reader_features or ())
        config, partitioned = table.metadata().configuration, list(table.metadata().partition_columns)
        actions = pa.table(table.get_add_actions(flatten=False)).to_pylist()
        deletes = "deletionVectors" in features and _deletes(table)
        kinds = {column.name: column.type for column in table.schema().fields}
        version = str(table.version())
    except Exception as error:
        raise InputError(
            f"{root} is a Delta table whose log cannot be read ({_first_line(error)}): mend it, or name single files"
        ) from None
    if deletes:
        raise _not_by_files(root, DELTA, "with deletion vectors")
    if (config or {}).get("delta.columnMapping.mode", "none") != "none":
        raise _not_by_files(root, DELTA, "with column mapping")
    if odd := sorted(features - _READABLE):
        raise _not_by_files(root, DELTA, f"with {', '.join(odd)}")
    types = {name: getattr(kinds[name], "type", "binary") for name in partitioned}
    files = []
    for action in actions:
        path = unquote(action["path"])
        file = f"{root.rstrip('/')}/{path}"
        if file not in there:
            if "://" in path or path.startswith("/"):
                raise _not_by_files(root, DELTA, "with files elsewhere")
            raise InputError(f"the Delta table {root} names {path}, which is not there: restore it, or the table")
        if not _in_folders(path.split("/")[:-1], {name: action["partition"][name] for name in partitioned}):
            raise _not_by_files(root, DELTA, f"whose folders do not say its column {partitioned[0]!r}")
        files.append(file)
    if "binary" in types.values():
        raise _not_by_files(root, DELTA, "with binary values in names of folders")
    spark = {name: _TYPES.get(kind, kind) for name, kind in types.items()}
    return TableFiles(DELTA, root, frozenset(files), version, spark)


def _first_line(error: Exception) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]


def _deletes(table: Any) -> bool:
    """Return whether files have rows that are deleted, also where it cannot be read which."""
    try:
        return bool(pa.table(table.deletion_vectors()).num_rows)
    except Exception:
        return True


def _place_of(filesystem: fs.FileSystem, root: str, said: str) -> tuple[str, dict[str, str] | None]:
    """Return how deltalake is told of a folder: its path or URI, and what the URI of the user says beside."""
    scheme, found, rest = said.partition("://")
    if isinstance(filesystem, fs.LocalFileSystem) or not found:
        return root, None
    query = {name: values[-1] for name, values in parse_qs(rest.partition("?")[2]).items()}
    options = {}
    if "endpoint_override" in query:
        options["AWS_ENDPOINT_URL"] = f"{query.get('scheme', 'https')}://{query['endpoint_override']}"
        options["AWS_ALLOW_HTTP"] = str(query.get("scheme") == "http").lower()
    if "region" in query:
        options["AWS_REGION"] = query["region"]
    return f"{scheme}://{root}", options


def _in_folders(folders: list[str], values: Mapping[str, Any]) -> bool:
    """Return whether names of folders say the values of columns, all of them and no others."""
    if len(folders) != len(values):
        return False
    for folder, (name, value) in zip(folders, values.items(), strict=True):
        column, found, text = folder.partition("=")
        if not found or unquote(column) != name or (value is None) != (text == _NO_VALUE):
            return False
        if isinstance(value, str | bool | int) and unquote(text).lower() != str(value).lower():
            return False
    return True


def _newest(filesystem: fs.FileSystem, root: str, there: set[str]) -> str:
    """Return the file of an Iceberg table's current metadata, where its folder says which one that is."""
    folder = f"{root.rstrip('/')}/metadata"
    found = sorted(
        file for file in there if file.startswith(f"{folder}/") and _METADATA.fullmatch(file[len(folder) + 1 :])
    )
    if f"{folder}/{_HINT}" in there:
        with filesystem.open_input_stream(f"{folder}/{_HINT}") as stream:
            hint = bytes(stream.read()).decode(errors="replace").strip()
        named = [
            file
            for file in found
            if re.fullmatch(rf"v{re.escape(hint)}(\.gz)?\.metadata\.json(\.gz)?", file[len(folder) + 1 :])
        ]
        if len(named) == 1:
            return named[0]
    if len(found) == 1:
        return found[0]
    raise InputError(
        f"{root} is an Iceberg table, and a catalog says which metadata is current: name that file, such as {found[-1]}"
    )


def _iceberg_files(filesystem: fs.FileSystem, root: str, metadata: str, said: str) -> TableFiles:
    iceberg = _pyiceberg(root)
    scheme, found, _ = said.partition("://")
    try:
        place = metadata if isinstance(filesystem, fs.LocalFileSystem) or not found else f"{scheme}://{metadata}"
        table = iceberg.StaticTable.from_metadata(place)
        tasks = list(table.scan().plan_files())
        known = {(one.field_id, one.name) for one in table.schema().fields}
        every = {(one.field_id, one.name) for schema in table.schemas().values() for one in schema.fields}
        kinds = {str(one.file.file_format).rpartition(".")[2].upper() for one in tasks}
        paths = [one.file.file_path for one in tasks]
        version = str(getattr(table.current_snapshot(), "snapshot_id", "none"))
        parted = [table.schema().find_column_name(one.source_id) for one in table.spec().fields]
    except Exception as error:
        raise InputError(
            f"{root} is an Iceberg table that cannot be read ({_first_line(error)}): mend it, or name files one by one"
        ) from None
    if any(one.delete_files for one in tasks):
        raise _not_by_files(root, ICEBERG, "with delete files")
    if every - known:
        raise _not_by_files(root, ICEBERG, "whose columns were renamed or dropped")
    if kinds - {"PARQUET"}:
        raise _not_by_files(root, ICEBERG, f"with files of {', '.join(sorted(kinds))}")
    files = [re.sub(r"^file:(//)?", "", path) if place == metadata else path.partition("://")[2] for path in paths]
    for file, info in zip(files, filesystem.get_file_info(files), strict=True):
        if info.type != fs.FileType.File:
            raise InputError(f"the Iceberg table {root} names {file}, which is not there: restore it, or the table")
        if parted and set(parted) - set(pq.read_schema(file, filesystem=filesystem).names):
            raise _not_by_files(root, ICEBERG, f"whose files lack its column {parted[0]!r}")
    return TableFiles(ICEBERG, root, frozenset(files), version)


def _pyiceberg(root: str) -> Any:
    try:
        return import_module("pyiceberg.table")
    except ModuleNotFoundError:
        raise InputError(
            f"{root} is an Iceberg table, whose files alone do not say which rows it has: pip install pyiceberg, or "
            "write its rows as Parquet files and name those"
        ) from None
