"""Delimited text of any size as record batches of strings: packed or not, LF or CRLF, with a BOM or without.

pyarrow parses; what it cannot read is counted here and never stops a run.
"""

import codecs
import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

from datasets.tables.command import BadInput
from datasets.tables.counts import Counts

__all__ = ["Layout", "header", "read_fields"]

BLOCK = 1 << 20
"""Bytes parsed at a time."""
WRONG_NUMBER = "wrong number of fields"
EMPTY = "empty line"
SWALLOWED = "inside a quote that another line opened (--multiline if it may)"
REPLACED = "bytes that are no {encoding} text, replaced"
_NEVER = "\x1f"


@dataclass(frozen=True)
class Layout:
    """How a delimited file is written.

    Attributes
    ----------
    names
        Column names; None when the first line has them.
    delimiter
        One character.
    quote
        One character, or None when quotes mean nothing.
    skip
        Lines before the header or the first row.
    text
        A column whose values may hold the delimiter without quotes: the fields before it are counted from the
        left, those after it from the right.
    encoding
        As Python knows it. Bytes that do not decode are replaced, and counted. A byte-order mark is dropped.
    multiline
        Quoted values may hold line ends. Else one inside quotes is taken for damage: the lines that the
        quote swallowed are counted as dropped.
    """

    names: tuple[str, ...] | None = None
    delimiter: str = ","
    quote: str | None = '"'
    skip: int = 0
    text: str | None = None
    encoding: str = "utf-8"
    multiline: bool = False


class _Wrong:
    """Lines with the wrong number of fields: how many, and the beginning of the first."""

    def __init__(self) -> None:
        self.lines = 0
        self.first = ""

    def add(self, line: str | None) -> None:
        self.first = self.first if self.lines else (line or "")[:80]
        self.lines += 1


class _Cleaner:
    """Turns blocks of bytes into UTF-8 and counts lines and replaced bytes on the way."""

    def __init__(self, encoding: str) -> None:
        try:
            self._decode = codecs.getincrementaldecoder(encoding)("replace").decode
        except LookupError as error:
            raise BadInput(f"no encoding is called {encoding!r}; utf-8, latin-1 and utf-16 are") from error
        self.lines = 0
        self.replaced = 0
        self._open = False

    def __call__(self, block: bytes) -> bytes:
        text = self._decode(bytes(block), final=not block)
        self.lines += text.count("\n")
        self.replaced += text.count("\ufffd")
        if text:
            self._open = text[-1] != "\n"
        elif self._open:
            self.lines, self._open = self.lines + 1, False
        return text.encode()


def header(path: Path, layout: Layout) -> tuple[str, ...]:
    """Return the column names: the layout's, or those of the file's first line.

    Raises
    ------
    BadInput
        The file has no header line, or cannot be read.
    """
    if layout.names is not None:
        return layout.names
    encoding = "utf-8-sig" if layout.encoding.lower().replace("_", "-") == "utf-8" else layout.encoding
    try:
        with pa.input_stream(str(path)) as stream:
            lines = io.TextIOWrapper(stream, encoding=encoding, errors="replace")
            for _ in range(layout.skip):
                lines.readline()
            line = lines.readline()
    except OSError as error:
        raise BadInput(f"{path}: {error}") from error
    if not line.strip():
        raise BadInput(f"{path} is empty; a line of column names was expected")
    quoted = {"quotechar": layout.quote} if layout.quote else {"quoting": csv.QUOTE_NONE}
    return tuple(name.strip() for name in next(csv.reader([line], delimiter=layout.delimiter, **quoted)))


def read_fields(path: Path, layout: Layout, wanted: Sequence[str]) -> Iterator[tuple[pa.RecordBatch, Counts]]:
    """Yield the wanted columns as strings, with the counts of what could not be read.

    The counts of a batch hold the rows that are *not* in it; the rows in it are still to be judged. Memory is
    bounded by some blocks of 1 MiB.

    Parameters
    ----------
    path
        File; one that ends in .gz, .bz2 or .zst is unpacked.
    layout
        How it is written.
    wanted
        Column names, without repeats.

    Raises
    ------
    BadInput
        A column that is missing or there twice, a file that cannot be unpacked, a quote that is never closed.
    """
    names = header(path, layout)
    for name in wanted:
        if names.count(name) != 1:
            state = "is there twice" if name in names else "is missing"
            raise BadInput(f"{path}: column {name!r} {state}; the columns are {', '.join(names)}")
    if layout.text is not None and layout.text not in names:
        raise BadInput(f"{path}: the text column {layout.text!r} is missing; there is {', '.join(names)}")

    split = layout.text is not None
    columns = ("line",) if split else tuple(str(i) for i in range(len(names)))
    picked = columns if split else tuple(str(names.index(name)) for name in wanted)
    cleaner = _Cleaner(layout.encoding)
    wrong = _Wrong()
    found = 0
    try:
        with pa.input_stream(str(path)) as raw:
            for batch in _parse(pa.TransformInputStream(raw, cleaner), layout, columns, picked, wrong):
                found += batch.num_rows
                rows = _split(batch["line"], layout, names, wanted, wrong) if split else batch
                empty = _all_empty(rows)
                lost = {EMPTY: pc.sum(empty).as_py() or 0}
                rows = rows.filter(pc.invert(empty))
                yield rows.rename_columns(list(wanted)), _lost(lost, {})
    except (pa.ArrowInvalid, OSError) as error:
        raise BadInput(f"{path}: {_explain(error)}") from error
    heading = layout.skip + (layout.names is None)
    swallowed = max(0, cleaner.lines - heading - found - wrong.lines)
    if layout.quote is None or layout.multiline or split:
        swallowed = 0
    lost = {WRONG_NUMBER: wrong.lines, SWALLOWED: swallowed}
    examples = {WRONG_NUMBER: f"{wrong.first!r} in {path.name}"} if wrong.lines else {}
    nothing = pa.record_batch([pa.array([], pa.string()) for _ in wanted], names=list(wanted))
    notes = (f"{path.name}: {cleaner.replaced:,} {REPLACED.format(encoding=layout.encoding)}",)
    yield nothing, _lost(lost, examples, notes if cleaner.replaced else ())


def _parse(
    stream: pa.NativeFile,
    layout: Layout,
    columns: tuple[str, ...],
    picked: tuple[str, ...],
    wrong: _Wrong,
) -> Iterator[pa.RecordBatch]:
    def count(row: pa_csv.InvalidRow) -> str:
        wrong.add(row.text)
        return "skip"

    one_field = layout.text is not None
    try:
        yield from pa_csv.open_csv(
            stream,
            read_options=pa_csv.ReadOptions(
                column_names=list(columns),
                block_size=BLOCK,
                skip_rows=layout.skip + (layout.names is None),
            ),
            parse_options=pa_csv.ParseOptions(
                delimiter=_NEVER if one_field else layout.delimiter,
                quote_char=False if one_field or layout.quote is None else layout.quote,
                newlines_in_values=layout.multiline and not one_field,
                ignore_empty_lines=False,
                invalid_row_handler=count,
            ),
            convert_options=pa_csv.ConvertOptions(
                column_types={name: pa.string() for name in columns},
                include_columns=list(picked),
                strings_can_be_null=False,
            ),
        )
    except pa.ArrowInvalid as error:
        if "Empty CSV file" not in str(error):
            raise


def _split(
    lines: pa.Array, layout: Layout, names: tuple[str, ...], wanted: Sequence[str], wrong: _Wrong
) -> pa.RecordBatch:
    """Cut lines at the delimiters before the text column, and at those after it from the right."""
    assert layout.text is not None
    before = names.index(layout.text)
    after = len(names) - before - 1
    blank = pc.equal(lines, "")
    enough = pc.or_(blank, pc.greater_equal(pc.count_substring(lines, layout.delimiter), before + after))
    for line in lines.filter(pc.invert(enough)).to_pylist():
        wrong.add(line)
    lines = lines.filter(enough)
    padded = pc.if_else(pc.equal(lines, ""), layout.delimiter * (before + after), lines)
    left = pc.split_pattern(padded, layout.delimiter, max_splits=before)
    rest = pc.list_element(left, before)
    right = pc.split_pattern(rest, layout.delimiter, max_splits=after, reverse=True)
    fields = [pc.list_element(left, i) for i in range(before)]
    fields += [pc.list_element(right, i) for i in range(after + 1)]
    if layout.quote is not None:
        fields = [_unquote(column, layout.quote) for column in fields]
    return pa.record_batch([fields[names.index(name)] for name in wanted], names=list(wanted))


def _unquote(texts: pa.Array, quote: str) -> pa.Array:
    quoted = pc.and_(pc.starts_with(texts, quote), pc.ends_with(texts, quote))
    quoted = pc.and_(quoted, pc.greater_equal(pc.utf8_length(texts), 2))
    inner = pc.utf8_slice_codeunits(texts, 1, -1)
    return pc.if_else(quoted, pc.replace_substring(inner, quote * 2, quote), texts)


def _all_empty(rows: pa.RecordBatch) -> pa.Array:
    return reduce(pc.and_, (pc.equal(column, "") for column in rows.columns))


def _lost(dropped: dict[str, int], examples: dict[str, str], notes: tuple[str, ...] = ()) -> Counts:
    dropped = {reason: rows for reason, rows in dropped.items() if rows}
    return Counts(read=sum(dropped.values()), dropped=dropped, examples=examples, notes=notes)


def _explain(error: Exception) -> str:
    if "out of sync with chunker" in str(error):
        return (
            "a quoted value goes over a line end; say that it may (--multiline), "
            "or that quotes mean nothing (--quote none)"
        )
    return str(error)
