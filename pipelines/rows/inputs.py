"""What is at the paths that a user names, sealed segments of a log too, seen before Spark reads them.

The footers of Parquet files: one set of columns for all of them, or a line that says which file does not fit.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from dtoss.errors import InputError
from dtoss.log.log_reader import META, roles_of
from dtoss.rows.input_columns import Columns
from pipelines.rows.footers import AT_ONCE, MOST_HERE, alike_files, geo_facts
from pipelines.rows.list_files import Listing, listing
from pipelines.rows.table_files import TableFiles
from pipelines.rows.table_formats import PACKED, TABLE_FORMATS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FORMATS = {
    ".csv": "csv", ".txt": "csv", ".tsv": "tsv", ".json": "json", ".jsonl": "json", ".ndjson": "json",
    ".parquet": "parquet", ".pq": "parquet", ".geoparquet": "parquet",
    **{ending: name for name, one in TABLE_FORMATS.items() for ending in one.endings},
}  # fmt: skip
_TABLES = TABLE_FORMATS.values()
*_FIRST, _LAST = ("Parquet", "GeoParquet", "CSV", "TSV", "JSON lines", *(one.shown for one in _TABLES))
_USUAL = (".parquet", ".csv", ".tsv", ".txt", ".json", ".jsonl", ".ndjson", *(one.endings[0] for one in _TABLES))
READ = (
    f"{', '.join(_FIRST)} and {_LAST} are read, all but Parquet also as .gz, .bz2 or .zst, and the name says which "
    f"({', '.join(_USUAL)})"
)
_HEAD = 4096
_MAGIC = {b"PK\x03\x04": "zip", b"\x28\xb5\x2f\xfd": "zstd", b"\x1f\x8b": "gzip", b"BZh": "bzip2", b"PAR1": "Parquet"}
_MARKS = {b"\xff\xfe\0\0": "utf-32", b"\0\0\xfe\xff": "utf-32", b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}
_GEOJSON = re.compile(rb'"type"\s*:\s*"(FeatureCollection|Feature)"')
_Seen = TypeVar("_Seen")


@dataclass(frozen=True)
class Inputs:
    """Files of one format, as Spark is to read them."""

    paths: tuple[str, ...]  # What Spark is told: the files where a path holds more than is read
    kind: str  # "parquet", "csv", "tsv", "json", or one of TABLE_FORMATS
    files: tuple[str, ...] = ()  # That are read; none where only Spark can look
    skipped: tuple[tuple[str, str], ...] = ()  # (file, why) of those below the paths that are not read
    # The directory whose directories ``name=value`` are columns, where Spark is told its files; else None
    base: str | None = None
    # Of tables: the union of the columns over the files, with the metadata of GeoParquet; None where unknown
    schema: pa.Schema | None = None
    differ: bool = False  # Whether some files lack columns that others have
    mark: str | None = None  # "utf-16" or "utf-32" where the text begins with such a mark
    places: tuple[tuple[fs.FileSystem, str], ...] = ()  # Of each file, its file system and the path there
    sizes: tuple[int, ...] = ()  # Of each file, its bytes when it was listed
    named: tuple[str, ...] = ()  # Of each file, how Spark is told of it
    # Of each file, the folders between ``below`` and it, where their names are values of columns; else nothing
    folders: tuple[str, ...] = ()
    # The directory whose directories ``name=value`` are columns; None where there are none, or several
    below: str | None = None
    # The Spark types of such columns, where a table says them; what their values look like when empty
    types: Mapping[str, str] = field(default_factory=dict)
    tables: tuple[TableFiles, ...] = ()  # Folders that are tables, whose log says which of their files are here
    columns: tuple[tuple[str, ...], ...] = ()  # Parquet: the names of the columns in each file
    # Of segments of a log, which column is what (:func:`dtoss.log.log_reader.roles_of`); None of other files
    roles: Mapping[str, str] | None = None

    @property
    def names(self) -> list[str]:
        """The columns of Parquet files; none where they are not known."""
        return [] if self.schema is None else list(self.schema.names)

    def facts(self) -> dict[str, object]:
        """Return what was read, for programs."""
        return {
            "format": self.kind,
            "files": list(self.files) or list(self.paths),
            "skipped": [{"file": file, "why": why} for file, why in self.skipped],
        }


Worker: TypeAlias = "Callable[[Inputs], SparkSession | None]"
"""Returns the Spark that is to work on files of which nothing else is known yet; None where this process is."""


def look(
    paths: Sequence[str], *, schema: str = "union", encoding: str | None = None, session: Worker | None = None
) -> Inputs:
    """Return what is at paths, directories at any depth.

    The format goes by the name, of a file or of a directory above it; without one, what begins as Parquet is Parquet.
    Files of no format that is read are skipped in directories. Of Parquet the footers of all files are read.

    ``schema``: "union" takes the columns of all Parquet files, null where a file has none; "strict" wants all in each;
    ``session``: is asked where the files are more than this process looks into by itself.
    """
    if schema not in ("union", "strict"):
        raise ValueError(f"schema is {schema!r}: union or strict is wanted")
    if not paths:
        raise InputError("no positions are given: name at least one file")
    pairs = [_at(path) for path in paths]
    found, places = [one for one, _ in pairs], [place for _, some in pairs for place in some]
    for path, one in zip(paths, found, strict=True):
        if one.kind != found[0].kind:
            raise InputError(
                f"positions of several formats are mixed ({paths[0]} is {found[0].kind}, {path} is {one.kind}): "
                "give files of one format"
            )
    whole = Inputs(
        paths=tuple(path for one in found for path in one.paths),
        kind=found[0].kind,
        files=tuple(file for one in found for file in one.files),
        skipped=tuple(skipped for one in found for skipped in one.skipped),
        base=found[0].base if len(found) == 1 else None,
        places=tuple(places),
        sizes=tuple(size for one in found for size in one.sizes),
        named=tuple(name for one in found for name in one.named),
        folders=tuple(folders for one in found for folders in one.folders),
        below=found[0].below if len(found) == 1 else None,
        types={name: kind for one in found for name, kind in one.types.items()},
        tables=tuple(table for one in found for table in one.tables),
    )
    if not all(one.files for one in found):
        return replace(whole, files=(), places=(), sizes=())
    return _inside(whole, schema, encoding, session or _nobody)


def some_of(inputs: Inputs, chosen: Sequence[int], *, schema: str = "union", encoding: str | None = None) -> Inputs:
    """Return some of the files of inputs, by their numbers."""
    if any(inputs.folders) and inputs.below is None:
        raise InputError(
            f"{', '.join(inputs.paths)} hold folders whose names are values of a column, and some of their files are "
            "not to be read: name one path at a time"
        )
    named = tuple(inputs.named[i] for i in chosen)
    some = replace(
        inputs,
        paths=named,
        files=tuple(inputs.files[i] for i in chosen),
        base=inputs.below,
        places=tuple(inputs.places[i] for i in chosen),
        sizes=tuple(inputs.sizes[i] for i in chosen),
        named=named,
        folders=tuple(inputs.folders[i] for i in chosen),
    )
    return _inside(some, schema, encoding, _nobody)


def look_in(
    where: Listing, files: Sequence[str], kind: str, *, schema: str = "union", encoding: str | None = None
) -> Inputs:
    """Return some of the files of a folder, all of one format that is known. ``files``: of these, at least one."""
    folders, sizes = (
        dict(zip(where.files, where.folders, strict=True)),
        dict(zip(where.files, where.sizes, strict=True)),
    )
    base = where.path if _valued(where.path, [folders[file] for file in files]) else None
    named = tuple(where.named(file) for file in files)
    whole = Inputs(
        named,
        kind,
        tuple(files),
        base=base,
        places=tuple((where.filesystem, file) for file in files),
        sizes=tuple(sizes[file] for file in files),
        named=named,
        folders=tuple("/".join(folders[file]) if base else "" for file in files),
        below=base,
    )
    return _inside(whole, schema, encoding, _nobody)


def _nobody(inputs: Inputs) -> None:
    return None


def _inside(inputs: Inputs, schema: str, encoding: str | None, session: Worker) -> Inputs:
    """Return inputs with what the first or last bytes of their files say."""
    places = inputs.places
    if inputs.kind == "parquet" or inputs.kind in TABLE_FORMATS:
        see = footer if inputs.kind == "parquet" else partial(_columns_of, inputs.kind)
        runs = alike_files(places, see, session(inputs) if len(places) > MOST_HERE else None)
        schemas, files = [run.schema for run in runs], [inputs.files[run.first] for run in runs]
        together, differ = union(schemas, files, strict=schema == "strict")
        roles = roles_in(schemas, [inputs.files[run.last] for run in runs])
        names = [(tuple(run.schema.names), run.last + 1 - run.first) for run in runs]
        columns = tuple(one for one, many in names for _ in range(many))
        return replace(inputs, schema=together, differ=differ, columns=columns, roles=roles)
    return replace(inputs, mark=_mark(inputs, _each(places, _head), encoding))


def _columns_of(kind: str, filesystem: fs.FileSystem, file: str) -> pa.Schema:
    try:
        return TABLE_FORMATS[kind].look(filesystem, file)
    except (OSError, EOFError, pa.ArrowException) as error:
        raise InputError(f"{file} cannot be read as {kind}: {str(error).splitlines()[0]}") from None


def _each(places: Sequence[tuple[fs.FileSystem, str]], see: Callable[[fs.FileSystem, str], _Seen]) -> list[_Seen]:
    with ThreadPoolExecutor(min(len(places), AT_ONCE)) as pool:
        return list(pool.map(lambda place: see(*place), places))


def _at(path: str) -> tuple[Inputs, list[tuple[fs.FileSystem, str]]]:
    """Return what is at one path, and where its files are."""
    where = listing(path)
    if where is None or (not where.files and not where.hidden and _spark_may_find(path)):
        return Inputs((path,), format_of(path.rstrip("/")) or "parquet"), []
    if not where.files and where.tables:
        raise InputError(f"the {where.tables[0].kind} {where.tables[0].root} has no row")
    if not where.files:
        only = f", only hidden files such as {where.hidden[0]}" if where.hidden else ""
        raise InputError(f"nothing is at {path}{only}: check the path")
    kinds = {file: kind_in(where, file, folders) for file, folders in zip(where.files, where.folders, strict=True)}
    known = list(dict.fromkeys(kind for kind in kinds.values() if kind))
    if not known:
        raise _unread(where.filesystem, where.files[0])
    if len(known) > 1:
        some = [next(file for file, kind in kinds.items() if kind == which) for which in known[:2]]
        raise InputError(
            f"files of several formats are mixed in {path} ({some[0]}, {some[1]}): name those to read, as in "
            f"{path.rstrip('/')}/*{PurePosixPath(some[0]).suffix}"
        )
    files = tuple(file for file, kind in kinds.items() if kind)
    skipped = [(file, "no format that is read") for file, kind in kinds.items() if not kind]
    skipped += [(file, "hidden: its name, or a directory's, begins with _ or .") for file in where.hidden]
    skipped += [(file, f"its rows are gone from the {where.tables[0].kind}") for file in where.left]
    below = [folders for file, folders in zip(where.files, where.folders, strict=True) if kinds[file]]
    valued = _valued(path, below)
    sizes = tuple(size for file, size in zip(where.files, where.sizes, strict=True) if kinds[file])
    named = where.whole and len(files) == len(where.files) and (valued or not any(below))
    paths = (path,) if named else tuple(where.named(file) for file in files)
    found = Inputs(
        paths,
        known[0],
        files,
        tuple(skipped),
        base=path if valued and not named else None,
        sizes=sizes,
        named=tuple(where.named(file) for file in files),
        folders=tuple("/".join(folders) if valued else "" for folders in below),
        below=path if valued else None,
        types={name: kind for table in where.tables for name, kind in table.types.items()},
        tables=where.tables,
    )
    return found, [(where.filesystem, file) for file in files]


def _valued(path: str, folders: Sequence[tuple[str, ...]]) -> bool:
    """Return whether the names of a path's folders are values of columns, given those of each file."""
    levels = {folder for some in folders for folder in some}
    valued = {folder for folder in levels if "=" in folder}
    if valued and (levels - valued or not all(folders)):
        odd = next(iter(sorted(levels - valued)), "files")
        raise InputError(
            f"{path} holds folders such as {min(valued)}, whose names are values of a column, and beside them {odd}: "
            "name the folders to read"
        )
    return bool(valued)


def _spark_may_find(path: str) -> bool:
    """Return whether a path that is not on this machine may be one on the file system of a cluster."""
    return "://" not in path and any(os.environ.get(n) for n in ("HADOOP_CONF_DIR", "PYSPARK_GATEWAY_PORT"))


def format_of(name: str) -> str | None:
    """Return the format that the name of a file says: "parquet", "csv", "tsv" or "json"; None for another ending."""
    name = name.lower()
    for packed in PACKED:
        name = name.removesuffix(packed)
    return next((kind for suffix, kind in FORMATS.items() if name.endswith(suffix)), None)


def kind_in(where: Listing, file: str, folders: tuple[str, ...]) -> str | None:
    """Return the format of a file in a folder, by its name, those of the folders above it, or its first bytes."""
    name = file.rpartition("/")[2]
    if kind := format_of(name):
        return kind
    if "." not in name or name.startswith("part-"):
        for above in (*reversed(folders), where.path.rstrip("/")):
            if kind := format_of(above):
                return kind
    try:
        with where.filesystem.open_input_stream(file, compression=None) as stream:
            return "parquet" if stream.read(4) == b"PAR1" else None
    except OSError:
        return None


def _unread(filesystem: fs.FileSystem, file: str) -> InputError:
    suffix = PurePosixPath(file).suffix
    head = _head(filesystem, file)
    packed = next((name for magic, name in _MAGIC.items() if head.startswith(magic)), None)
    if packed:
        return InputError(f"{file} is packed ({packed}): {READ}; unpack it first")
    what = f"ends in {suffix}" if suffix else "has no ending that says its format"
    return InputError(f"{file} {what}: {READ}")


def _head(filesystem: fs.FileSystem, file: str) -> bytes:
    """Return the first bytes of a file, unpacked."""
    packed = file.lower().endswith(PACKED)
    try:
        with filesystem.open_input_stream(file, compression="detect" if packed else None) as stream:
            return bytes(stream.read(_HEAD))
    except (OSError, pa.ArrowInvalid) as error:
        raise InputError(f"{file} cannot be read: {str(error).splitlines()[0]}") from None


def _mark(inputs: Inputs, heads: Sequence[bytes], encoding: str | None) -> str | None:
    """Return the encoding that the marks of text files say, after a look at what is no text at all."""
    seen: dict[str | None, str] = {}
    for file, head in zip(inputs.files, heads, strict=True):
        if other := next((name for magic, name in _MAGIC.items() if head.startswith(magic)), None):
            raise InputError(f"{file} is {other} inside, which its name does not say: {READ}")
        if inputs.kind == "json" and _GEOJSON.search(head):
            raise InputError(f"{file} is GeoJSON: call it so (.geojson), and its points are read")
        mark = next((name for magic, name in _MARKS.items() if head.startswith(magic)), None)
        if mark is None and encoding is None and head.count(0) > len(head) // 4:
            raise InputError(f"{file} is full of zero bytes: is it UTF-16 without a mark (--encoding utf-16-le)?")
        if head:
            seen.setdefault(mark, file)
    if len(seen) > 1:
        raise InputError(
            f"{' and '.join(seen.values())} are of different encodings: files that are read together have one"
        )
    mark = next(iter(seen), None)
    if mark and inputs.kind == "json":
        raise InputError(f"{inputs.files[0]} is {mark.upper()}: JSON lines are read in UTF-8")
    return mark


_SAME = {
    "large_string": "string", "string_view": "string", "large_binary": "binary", "binary_view": "binary",
    "date64[ms]": "date32[day]",
}  # fmt: skip
"""Types of Arrow that Parquet writes alike."""


def footer(filesystem: fs.FileSystem, file: str) -> pa.Schema:
    """Return the columns of a Parquet file, from its last bytes."""
    try:
        with pq.ParquetFile(filesystem.open_input_file(file)) as reader:
            return _with_moments(reader.schema_arrow, reader.schema)
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"{file} cannot be read as parquet: {str(error).splitlines()[0]}") from None


def _with_moments(schema: pa.Schema, written: Any) -> pa.Schema:
    """Return columns with those of 96 bits as moments: so Spark writes and reads times, and Arrow sees no zone."""
    for i in range(len(written)):
        one = written.column(i)
        if one.physical_type == "INT96" and (at := schema.get_field_index(one.path)) >= 0:
            schema = schema.set(at, schema.field(at).with_type(pa.timestamp("us", "UTC")))
    return schema


def union(schemas: Sequence[pa.Schema], files: Sequence[str], *, strict: bool = False) -> tuple[pa.Schema, bool]:
    """Return the columns of all files, in the order in which they are met, and whether some files lack some of them.

    Names that differ in case only are one column, as Spark reads them.
    """
    found: dict[str, tuple[pa.Field, str, str]] = {}
    lengths = set()
    last: pa.Schema | None = None
    for file, schema in zip(files, schemas, strict=True):
        if last is not None and schema.equals(last):
            continue
        last = schema
        lengths.add(len({name.casefold() for name in schema.names}))
        for seen in schema:
            shape = _shape(seen.type)
            if "decimal256" in shape:
                raise InputError(
                    f"column {seen.name!r} of {file} is {seen.type}: at most 38 digits are read, write fewer or text"
                )
            before, its_shape, where = found.setdefault(seen.name.casefold(), (seen, shape, file))
            if shape != its_shape:
                raise InputError(
                    f"column {seen.name!r} is {before.type} in {where} and {seen.type} in {file}: "
                    "files that are read together have one type of it"
                )
    differ = lengths != {len(found)} and bool(found)
    if differ and strict:
        raise _lacking(schemas, files, [field.name for field, _, _ in found.values()])
    geo = _geo(schemas, files)
    fields = [field for field, _, _ in found.values()]
    return pa.schema(fields, metadata=None if geo is None else {b"geo": geo}), differ


def _lacking(schemas: Sequence[pa.Schema], files: Sequence[str], names: list[str]) -> InputError:
    for file, schema in zip(files, schemas, strict=True):
        there = {name.casefold() for name in schema.names}
        if missing := [name for name in names if name.casefold() not in there]:
            return InputError(f"{file} has no column {', '.join(missing)}, which other files have (--schema strict)")
    raise AssertionError("no file lacks a column")


def _shape(kind: pa.DataType) -> str:
    """Return a text that is the same for types that Spark reads as the same from Parquet."""
    if pa.types.is_dictionary(kind):
        return _shape(kind.value_type)
    if pa.types.is_timestamp(kind):
        return f"timestamp[{'ns' if kind.unit == 'ns' else 'us'}{'' if kind.tz is None else ', UTC'}]"
    if pa.types.is_duration(kind):
        return "int64"
    if pa.types.is_struct(kind):
        return f"struct<{', '.join(f'{field.name}: {_shape(field.type)}' for field in kind)}>"
    if pa.types.is_map(kind):
        return f"map<{_shape(kind.key_type)}, {_shape(kind.item_type)}>"
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return f"list<{_shape(kind.value_type)}>"
    if pa.types.is_fixed_size_binary(kind):
        return "binary"
    return _SAME.get(str(kind), str(kind))


def _geo(schemas: Sequence[pa.Schema], files: Sequence[str]) -> bytes | None:
    """Return the metadata of GeoParquet of the first file that has some."""
    first: tuple[bytes, object, str] | None = None
    known: set[bytes] = set()
    for file, schema in zip(files, schemas, strict=True):
        data = (schema.metadata or {}).get(b"geo")
        if data is None or data in known:
            continue
        known.add(data)
        if (facts := geo_facts(data)) is None:
            raise InputError(f"the metadata of GeoParquet in {file} is damaged")
        if first is None:
            first = (data, facts, file)
        elif facts != first[1]:
            raise InputError(
                f"{first[2]} and {file} state different CRS, encodings or geometry columns: files read together "
                "have one"
            )
    return None if first is None else first[0]


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
