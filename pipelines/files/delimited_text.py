"""Places in delimited text, as batches of texts: by Arrow where it reads as Spark does, else record by record."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, BinaryIO

import pyarrow as pa
from pyarrow import fs

from dtoss.errors import InputError
from pipelines.files.plain_text import Looks, look_at
from pipelines.files.raw_lines import Row, rows_of
from pipelines.files.text_values import BLANKS
from pipelines.rows.inputs import PACKED, Inputs

_BLOCK = 1 << 22
_ROWS = 1 << 16
_UTF8 = "utf-8"


class UnevenRows(Exception):
    """Rows have more or fewer fields than the header, which Arrow would leave out."""


@dataclass(frozen=True)
class Text:
    """Files of delimited text with one header, which may be read several times.

    Parameters
    ----------
    files
        On their file system.
    filesystem
        Where they are.
    delimiter
        One character.
    names
        Of the columns.
    skipped
        Of each file, the lines up to its header; None where it is empty.
    looks
        What their bytes say.
    encoding
        Of the text.
    """

    files: tuple[str, ...]
    filesystem: fs.FileSystem
    delimiter: str
    names: tuple[str, ...]
    skipped: tuple[int | None, ...]
    looks: Looks
    encoding: str

    def batches(self, wanted: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield some columns, each once, as strings; null where a value is empty, in the order of the rows.

        Raises
        ------
        InputError
            If a file cannot be read.
        UnevenRows
            If Arrow reads, and a row has more or fewer fields than the header.
        """
        for file, skipped in zip(self.files, self.skipped, strict=True):
            if skipped is None:
                continue
            try:
                yield from self._quick(file, wanted, skipped) if self.looks.plain else self._slow(file, wanted)
            except (OSError, EOFError, pa.ArrowException) as error:
                raise InputError(f"{file} cannot be read as csv: {str(error).splitlines()[0]}") from None

    def record_by_record(self) -> Text:
        """Return the same files, to be read without Arrow."""
        return replace(self, looks=replace(self.looks, plain=False))

    def _quick(self, file: str, wanted: Sequence[str], skipped: int) -> Iterator[pa.RecordBatch]:
        from pyarrow import csv

        uneven: list[Any] = []

        def odd_row(row: Any) -> str:
            uneven.append(row)
            return "skip"

        numbered = [f"c{i}" for i in range(len(self.names))]
        chosen = [f"c{self.names.index(name)}" for name in wanted]
        reader = csv.open_csv(
            opened(self.filesystem, file),
            read_options=csv.ReadOptions(column_names=numbered, skip_rows=skipped, block_size=_BLOCK),
            parse_options=csv.ParseOptions(delimiter=self.delimiter, invalid_row_handler=odd_row),
            convert_options=csv.ConvertOptions(
                include_columns=chosen, column_types=dict.fromkeys(chosen, pa.string()), null_values=[""],
                strings_can_be_null=True, quoted_strings_can_be_null=True,
            ),
        )  # fmt: skip
        for batch in reader:
            if uneven:
                break
            columns = [_stripped(column) for column in batch.columns] if self.looks.blanks else batch.columns
            yield pa.record_batch(columns, names=list(wanted))
        if uneven:
            raise UnevenRows

    def _slow(self, file: str, wanted: Sequence[str]) -> Iterator[pa.RecordBatch]:
        rows = self.rows(file)
        next(rows, None)  # the header
        places = [self.names.index(name) for name in wanted]
        while some := list(islice(rows, _ROWS)):
            columns = [pa.array([row[at] if at < len(row) else None for row in some], pa.string()) for at in places]
            yield pa.record_batch(columns, names=list(wanted))

    def rows(self, file: str) -> Iterator[Row]:
        """Yield the fields of each record of a file, the header first."""
        whole = self.looks.opened or self.encoding != _UTF8
        with opened(self.filesystem, file) as stream:
            yield from rows_of(stream, self.encoding, self.delimiter, whole=whole)


def text_of(inputs: Inputs, filesystem: fs.FileSystem) -> Text:
    """Return files of delimited text, looked through once.

    Raises
    ------
    InputError
        If they hold no line, cannot be read, or have different headers.
    """
    delimiter = "\t" if inputs.kind == "tsv" else ","
    encoding = inputs.mark or _UTF8
    looks = Looks(plain=encoding == _UTF8)
    if looks.plain:
        for file in inputs.files:
            try:
                with opened(filesystem, file) as stream:
                    looks = looks.and_those(look_at(stream, delimiter))
            except (OSError, EOFError) as error:
                raise InputError(f"{file} cannot be read as csv: {str(error).splitlines()[0]}") from None
    text = Text(inputs.files, filesystem, delimiter, (), (), looks, encoding)
    headers = [next(text.rows(file), None) for file in inputs.files]
    there = [(file, header) for file, header in zip(inputs.files, headers, strict=True) if header is not None]
    if not there:
        raise InputError(f"{', '.join(inputs.files)} is empty: a header line is wanted")
    first = [name or "" for name in there[0][1]]
    for file, header in there[1:]:
        if [(name or "").casefold() for name in header] != [name.casefold() for name in first]:
            raise InputError(
                f"the header line of {file} is not that of the other files: name files with the same columns"
            )
    names = tuple(name if name and name not in first[:i] else f"{name}_{i + 1}" for i, name in enumerate(first))
    skipped = tuple(
        None if header is None else _lines_to_header(filesystem, file)
        for file, header in zip(inputs.files, headers, strict=True)
    )
    return replace(text, names=names, skipped=skipped)


def opened(filesystem: fs.FileSystem, file: str) -> BinaryIO:
    """Return the bytes of a file, unpacked where its name says that it is packed."""
    packed = "detect" if file.lower().endswith(PACKED) else None
    stream: BinaryIO = io.BufferedReader(filesystem.open_input_stream(file, compression=packed), _BLOCK)
    return stream


def _lines_to_header(filesystem: fs.FileSystem, file: str) -> int:
    with opened(filesystem, file) as stream:
        for number, line in enumerate(io.TextIOWrapper(stream, encoding="utf-8-sig", errors="replace"), 1):
            if line.strip(BLANKS):
                return number
    return 0


def _stripped(texts: pa.Array) -> pa.Array:
    """Return texts without blanks at their ends, null where nothing else was there."""
    import pyarrow.compute as pc

    bare = pc.utf8_trim(texts, characters=BLANKS)
    return pc.if_else(pc.equal(bare, ""), None, bare)
