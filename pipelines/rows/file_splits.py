"""Files cut into pieces, which tasks of either engine read: on any file system that pyarrow reaches."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO
from urllib.parse import unquote

import pyarrow as pa
from pyarrow import fs

from dtoss.errors import InputError
from pipelines.rows.table_formats import PACKED
from pipelines.spark.session import cores

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Place = tuple[fs.FileSystem, str]
"""A file system, and the path of a file there."""
LEAST, MOST = 4 << 20, 64 << 20
"""Bytes of a task, about: fewer are not worth one, and more would keep other processors waiting."""
BLOCK = 1 << 22
"""Bytes that are read at a time."""

_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
_WHOLE = re.compile(r"-?[0-9]{1,18}")


@dataclass(frozen=True)
class Piece:
    """A part of a file."""

    file: int
    begin: int = 0  # A byte: the piece begins with the first line that begins there or behind
    end: int | None = None  # A byte: the piece ends where another one would begin there; None for the end of the file


def folder_values(folders: Sequence[str]) -> dict[str, list[str | None]]:
    """Return the values of the columns that names of folders say, for each file; whole numbers without their zeros."""
    pairs = [[level.partition("=")[::2] for level in below.split("/") if level] for below in folders]
    said = [{unquote(name): None if value == _NO_VALUE else unquote(value) for name, value in some} for some in pairs]
    found = {name: [one.get(name) for one in said] for name in dict.fromkeys(name for one in said for name in one)}
    for name, values in found.items():
        if all(value is None or _WHOLE.fullmatch(value) for value in values):
            found[name] = [None if value is None else str(int(value)) for value in values]
    return found


def bytes_of_task(total: int, tasks: int, least: int = LEAST) -> int:
    """Return about how many bytes a task is to read, given those of all files and how many tasks run at a time."""
    return min(MOST, max(least, -(-total // max(tasks, 1))))


def cut(sizes: Sequence[int], whole: Sequence[bool], each: int) -> list[Piece]:
    """Return files of such sizes as pieces of about so many bytes each, some of them whole."""
    pieces: list[Piece] = []
    for file, (size, uncut) in enumerate(zip(sizes, whole, strict=True)):
        many = 1 if uncut else max(size // each, 1)
        begins = [size * i // many for i in range(many)]
        pieces += [Piece(file, begin, end) for begin, end in zip(begins, [*begins[1:], None], strict=True)]
    return pieces


def groups_of(pieces: Sequence[Piece], sizes: Sequence[int], each: int) -> list[list[Piece]]:
    """Return pieces in their order, so many together as make about so many bytes."""
    groups: list[list[Piece]] = []
    held = each
    for piece in pieces:
        if held >= each:
            groups.append([])
            held = 0
        groups[-1].append(piece)
        held += (sizes[piece.file] if piece.end is None else piece.end) - piece.begin + (each >> 8)
    return groups


def groups_in(
    session: SparkSession | None, sizes: Sequence[int], whole: Sequence[bool], least: int = LEAST
) -> list[list[Piece]]:
    """Return files of such sizes in groups of pieces, a task each, some of them whole.

    No file of fewer than ``least`` bytes is shared by tasks.
    """
    each = bytes_of_task(sum(sizes), cores(session), least)
    return groups_of(cut(sizes, whole, each), sizes, each)


def blocks_of(place: Place, piece: Piece | None = None, *, block: int = BLOCK) -> Iterator[bytes]:
    """Yield the bytes of the lines of a piece, or of a whole file, unpacked where its name says that it is packed."""
    filesystem, file = place
    if piece is None or (piece.begin == 0 and piece.end is None):
        packed = "detect" if file.lower().endswith(PACKED) else None
        with filesystem.open_input_stream(file, compression=packed) as stream:
            yield from blocks_in(stream, block)
        return
    with filesystem.open_input_file(file) as stream:
        begin = line_begin(stream, piece.begin)
        left = (stream.size() if piece.end is None else line_begin(stream, piece.end)) - begin
        stream.seek(begin)
        while left > 0 and (some := stream.read(min(block, left))):
            left -= len(some)
            yield some


def blocks_in(stream: BinaryIO | pa.NativeFile, block: int = BLOCK) -> Iterator[bytes]:
    """Yield the bytes of a stream."""
    while some := stream.read(block):
        yield some


def line_begin(stream: pa.NativeFile, at: int, *, step: int = 1 << 16) -> int:
    """Return where the first line begins that begins at a byte or behind; lines end in a line feed."""
    if at == 0:
        return 0
    stream.seek(at - 1)
    seen = at - 1
    while some := stream.read(step):
        found = some.find(b"\n")
        if found >= 0:
            return seen + found + 1
        seen += len(some)
    return seen


@contextmanager
def reading(file: str, kind: str) -> Iterator[None]:
    """Turn what keeps a file from being read into an error that names it."""
    try:
        yield
    except (OSError, EOFError, pa.ArrowException) as error:
        said = str(error).splitlines()[0]
        short = ", it may be cut short" if isinstance(error, EOFError) or "runcated" in said else ""
        raise InputError(f"{file} cannot be read as {kind}{short}: {said}") from None
