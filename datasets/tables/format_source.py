"""One description for every format that is rows of delimited fields, and the reader that follows it."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Annotated

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import typer

from datasets.tables.command import BadInput, Out
from datasets.tables.fields import Layout, read_fields
from datasets.tables.legal_positions import Bools, Numbers, is_missing, judge, look_swapped, numbers, pair, wkt
from datasets.tables.standard_rows import Counts, Part, assemble, number_rows, or_null, save, standard_schema
from datasets.tables.time_notations import TIMESTAMP, Times, check_formats, parse_times, times_of_parts

NO_ID = "no {}"
BAD_ID = "{} is not a whole number"
TOO_EARLY = "time before {}, a clock that was not set (time kept)"


class Notation(StrEnum):
    """How a position stands in the file."""

    two_fields = "two fields"
    wkt = "POINT (lon lat)"
    lon_lat = "lon lat"
    lat_lon = "lat lon"


@dataclass(frozen=True)
class Column:
    """A further column."""

    origin: str  # Its name in the source
    type: pa.DataType = field(default_factory=pa.string)  # A string, integer or float type
    missing: tuple[float, ...] = ()  # Numbers that stand for "not known" and become null


@dataclass(frozen=True)
class Source:
    """What is where in a delimited file."""

    layout: Layout = field(default_factory=Layout)  # How the file is written
    # Names of the two fields lon and lat (lon first, wherever they stand in the file), or of the one field that holds
    # both
    position: tuple[str, ...] = ("lon", "lat")
    notation: Notation = Notation.two_fields  # Two fields, or one field that holds both in some way
    # id, uid: fields of the row's and the moving object's own ids; None: rows are numbered, there is no uid
    id: str | None = None
    uid: str | None = None
    id_type: pa.DataType = field(default_factory=pa.int64)  # int64 or string
    uid_type: pa.DataType = field(default_factory=pa.int64)  # int64 or string
    # Whether int64 ids may be written with them, as ``007``; else such a row is dropped, as 7 may be another's id
    leading_zeros: bool = True
    # The uid of all rows of a file, from its path; instead of ``uid``
    uid_of: Callable[[Path], str | int | None] | None = None
    time: tuple[str, ...] = ()  # Fields that make up the time, joined by a blank; () for none
    formats: tuple[str, ...] = ("auto",)
    zone: str = "UTC"
    date: tuple[str, ...] = ()  # Fields year, month, day[, hour[, minute[, second]]], instead of ``time``
    since: str | None = None  # An ISO date before which no time can be true: rows before it are kept with a flaw
    # Further columns by their new names
    columns: Mapping[str, Column] = field(default_factory=lambda: MappingProxyType({}))
    decimal: str = "."  # The decimal mark of positions and numbers
    swap: bool = False  # Exchange lon and lat
    wrap: bool = False  # Take 360 from longitudes above 180
    check_axes: bool = False  # Add a note when lon and lat look exchanged


def source_schema(source: Source) -> pa.Schema:
    """Return the columns that `read_source` yields."""
    return standard_schema(
        id_type=source.id_type if source.id else None,
        uid_type=source.uid_type if source.uid or source.uid_of else None,
        timed=bool(source.time or source.date),
        columns={name: column.type for name, column in source.columns.items()},
    )


def read_source(files: Iterable[Path], source: Source) -> Iterator[Part]:
    """Yield the kept rows of some files in the standard columns, with the counts of all rows.

    Memory is bounded by a few blocks, whatever the size of the files.

    ``files``: in the order of the rows to come.
    """
    single = source.notation is not Notation.two_fields
    if len(source.position) != (1 if single else 2):
        wants = "one field" if single else "two fields"
        raise BadInput(f"a position as {str(source.notation)!r} has {wants}, not {source.position}")
    if source.time and source.date:
        raise BadInput("the time is given both as one field and as parts; give one of them")
    check_formats(source.formats, source.zone)
    schema = source_schema(source)
    return number_rows(chain.from_iterable(_read_file(path, source, schema) for path in files), schema)


def command_of(
    read: Callable[[list[str]], Iterable[Part]], schema: pa.Schema, what: str, files: str
) -> Callable[..., None]:
    """Return the command that reads files as a function does, and writes their rows; it is called as that is.

    ``what``: what it does; ``files``: which files it takes.
    """

    def main(files: Annotated[list[str], typer.Argument(help=files)], out: Out) -> None:
        save(read(files), schema, out, read.__name__)

    main.__doc__ = what
    return main


def _read_file(path: Path, source: Source, schema: pa.Schema) -> Iterator[Part]:
    others = [name for name in (source.id, source.uid) if name]
    others += [column.origin for column in source.columns.values()]
    wanted = tuple(dict.fromkeys((*source.position, *source.time, *source.date, *others)))
    unchecked = source.check_axes
    for raw, lost in read_fields(path, source.layout, wanted):
        lon, lat = _position(raw, source)
        if unchecked and raw.num_rows:
            lost, unchecked = lost + _axes_note(path, lon, lat), False
        columns, rejected, flawed = _columns(path, raw, source)
        batch, counts = assemble(schema, path, raw, lon, lat, _times(raw, source), columns, rejected, flawed)
        yield batch, counts + lost


def _position(raw: pa.RecordBatch, source: Source) -> tuple[Numbers, Numbers]:
    if source.notation is Notation.two_fields:
        lon, lat = (numbers(raw[name], source.decimal) for name in source.position)
    elif source.notation is Notation.wkt:
        lon, lat = wkt(raw[source.position[0]])
    else:
        lon, lat = pair(raw[source.position[0]])
    if (source.notation is Notation.lat_lon) != source.swap:
        lon, lat = lat, lon
    if source.wrap:
        east = (lon.value > 180) & (lon.value <= 360)
        lon = Numbers(np.where(east, lon.value - 360, lon.value), lon.missing, lon.unreadable)
    return lon, lat


def _axes_note(path: Path, lon: Numbers, lat: Numbers) -> Counts:
    legal = np.flatnonzero(~np.logical_or.reduce(list(judge(lon, lat).values())))[:1_000]
    note = look_swapped(lon.value[legal], lat.value[legal])
    return Counts(notes=(f"{path.name}: {note}",) if note else ())


def _times(raw: pa.RecordBatch, source: Source) -> Times | None:
    if source.date:
        return times_of_parts([raw[name] for name in source.date], source.zone)
    if not source.time:
        return None
    first, *rest = (raw[name] for name in source.time)
    times = parse_times(pc.binary_join_element_wise(first, *rest, " "), source.formats, source.zone)
    if source.since is None:
        return times
    begin = pa.scalar(datetime.fromisoformat(source.since).replace(tzinfo=UTC), TIMESTAMP)
    early = pc.fill_null(pc.less(times.t, begin), False).to_numpy(zero_copy_only=False)
    return Times(times.t, {**times.flaws, TOO_EARLY.format(source.since): early})


def _columns(
    path: Path, raw: pa.RecordBatch, source: Source
) -> tuple[dict[str, pa.Array], dict[str, Bools], dict[str, Bools]]:
    columns: dict[str, pa.Array] = {}
    rejected: dict[str, Bools] = {}
    flawed: dict[str, Bools] = {}
    for name, origin, kind in (("id", source.id, source.id_type), ("uid", source.uid, source.uid_type)):
        if origin is not None:
            columns[name], missing, bad = identity(raw[origin], kind, source.leading_zeros)
            rejected[NO_ID.format(name)], rejected[BAD_ID.format(name)] = missing, bad
    if source.uid_of is not None:
        columns["uid"] = pa.array([source.uid_of(path)] * raw.num_rows, source.uid_type)
    for name, column in source.columns.items():
        columns[name], bad = _typed(raw[column.origin], column, source.decimal)
        flawed[f"{name} null: not a number of its type"] = bad
    return columns, rejected, flawed


def identity(texts: pa.Array, kind: pa.DataType, leading_zeros: bool = True) -> tuple[pa.Array, Bools, Bools]:
    """Return ids of that type, int64 or string, and where there is none and where it is no whole number."""
    trimmed = pc.utf8_trim_whitespace(texts)
    missing = is_missing(trimmed).to_numpy(zero_copy_only=False)
    if kind == pa.string():
        return or_null(trimmed, missing), missing, np.zeros(len(missing), dtype=np.bool_)
    whole = pc.replace_substring_regex(trimmed, r"\.0+$", "")
    pattern = r"^-?\d{1,18}$" if leading_zeros else r"^(0|-?[1-9]\d{0,17})$"
    bad = ~pc.fill_null(pc.match_substring_regex(whole, pattern), False).to_numpy(zero_copy_only=False)
    return pc.cast(or_null(whole, bad), pa.int64()), missing, bad & ~missing


def _typed(texts: pa.Array, column: Column, decimal: str) -> tuple[pa.Array, Bools]:
    if column.type == pa.string():
        trimmed = pc.utf8_trim_whitespace(texts)
        empty = pc.equal(trimmed, "").to_numpy(zero_copy_only=False)
        return or_null(trimmed, empty), np.zeros(len(empty), dtype=np.bool_)
    found = numbers(texts, decimal)
    gone = ~np.isfinite(found.value) | np.isin(found.value, column.missing)
    value, bad = found.value, found.unreadable
    if pa.types.is_integer(column.type):
        limits = np.iinfo(column.type.to_pandas_dtype())
        with np.errstate(invalid="ignore"):
            fits = (np.floor(value) == value) & (value >= limits.min) & (value <= limits.max)
        bad = bad | (~fits & ~gone)
        gone = gone | bad
    safe = pa.array(np.where(gone, 0.0, value), mask=gone)
    return pc.cast(safe, column.type, safe=False), bad
