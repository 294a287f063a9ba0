"""Delimited text of any size as record batches of strings: packed or not, LF or CRLF, with a BOM or without.

What cannot be read is counted here and never stops a run.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from datasets.tables.command import BadInput
from datasets.tables.standard_rows import Counts
from dtoss.delimited import record_batches
from dtoss.delimited.record_batches import CORRUPT, FLAW
from dtoss.delimited.records import UNENDED, Dialect, check_encoding
from dtoss.errors import InputError

BLOCK = 1 << 20
"""Bytes parsed at a time."""
WRONG_NUMBER = "wrong number of fields"
EMPTY = "empty line"
SWALLOWED = "inside a quote that another line opened (--multiline if it may)"
REPLACED = "bytes that are no {encoding} text, replaced"
_NEVER = "\x1f"


@dataclass(frozen=True)
class Layout:
    """How a delimited file is written."""

    names: tuple[str, ...] | None = None  # Column names; None when the first line has them
    delimiter: str = ","
    quote: str | None = '"'  # One character, or None when quotes mean nothing
    skip: int = 0  # Lines before the header or the first row
    # A column whose values may hold the delimiter without quotes: the fields before it are counted from the left, those
    # after it from the right
    text: str | None = None
    # As Python knows it. Bytes that do not decode are replaced, and counted. A byte-order mark is dropped
    encoding: str = "utf-8"
    # Quoted values may hold line ends. Else one inside quotes is taken for damage: the lines of such a record are
    # counted as dropped
    multiline: bool = False
    # A character that makes a quote, a delimiter or itself, where one follows, a plain character
    escape: str | None = None
    null: str | None = None  # A value that stands for none

    @property
    def dialect(self) -> Dialect:
        """How its records are written; lines that hold a text column are records of one field."""
        if self.text is not None:
            return Dialect(
                _NEVER, None, encoding=self.encoding, header=self.names is None, skip=self.skip, trim=False
            )  # fmt: skip
        return Dialect(
            self.delimiter, self.quote, self.escape, self.null, self.encoding, self.multiline, self.names is None,
            self.skip,
        )  # fmt: skip


def header(path: Path, layout: Layout) -> tuple[str, ...]:
    """Return the column names: the layout's, or those of the file's first line."""
    if layout.names is not None:
        return layout.names
    with _named(path):
        found = record_batches.layout_of(_blocks(path), replace(layout, text=None).dialect)
    if found is None:
        raise BadInput(f"{path} is empty; a line of column names was expected")
    return found.heading or ()


def read_fields(path: Path, layout: Layout, wanted: Sequence[str]) -> Iterator[tuple[pa.RecordBatch, Counts]]:
    """Yield the wanted columns as strings, with the counts of what could not be read.

    The counts of a batch hold the rows that are *not* in it; the rows in it are still to be judged. Memory is
    bounded by some blocks of 1 MiB.

    ``layout``: how it is written; ``wanted``: column names, without repeats.
    """
    try:
        check_encoding(layout.encoding)
    except ValueError as error:
        raise BadInput(str(error)) from error
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
    kept = swallowed = lost = 0
    inside = False
    with _named(path):
        for part in record_batches.read_text_rows(
            _blocks(path), record_batches.Layout(layout.dialect, None, columns), picked
        ):
            good = pc.is_null(part.rows.column(CORRUPT))
            bad = part.rows.select([CORRUPT, FLAW]).filter(pc.invert(good))
            read = part.rows.select(picked).filter(good)
            rows, wrong = _split(read.column(0), layout, names, wanted) if split else (_filled(read), [])
            empty = _all_empty(rows)
            rows = rows.filter(pc.invert(empty))
            counts = _lost(path, bad, wrong, part.blank + (pc.sum(empty).as_py() or 0))
            kept, swallowed = kept + len(rows), swallowed + counts.dropped.get(SWALLOWED, 0)
            lost, inside = lost + part.lost, part.inside
            yield rows.rename_columns(list(wanted)), counts
    if inside or (swallowed and not kept):
        instead = "" if layout.multiline else "say that it may (--multiline), or "
        raise BadInput(
            f"{path}: a quoted value goes over a line end{' and never ends' if inside else ''}; {instead}"
            "say that quotes mean nothing (--quote none)"
        )
    nothing = pa.record_batch([pa.array([], pa.string()) for _ in wanted], names=list(wanted))
    notes = (f"{path.name}: {lost:,} {REPLACED.format(encoding=layout.encoding)}",)
    yield nothing, Counts(notes=notes if lost else ())


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """Let errors name the file."""
    try:
        yield
    except (InputError, pa.ArrowInvalid, OSError, EOFError) as error:
        raise BadInput(f"{path}: {error}") from error


def _blocks(path: Path) -> Iterator[bytes]:
    with pa.input_stream(str(path)) as stream:
        while block := stream.read(BLOCK):
            yield block


def _filled(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Return rows in which what is empty is an empty text."""
    columns = [pc.fill_null(column, "") if column.null_count else column for column in rows.columns]
    return pa.record_batch(columns, names=rows.schema.names)


def _lost(path: Path, bad: pa.RecordBatch, wrong: Sequence[str], empty: int) -> Counts:
    """Return the counts of rows that could not be read, of lines that could not be cut, and of empty ones."""
    reasons = {None: WRONG_NUMBER, UNENDED: SWALLOWED}
    pairs = [(reasons.get(flaw, flaw), raw) for raw, flaw in zip(*(column.to_pylist() for column in bad), strict=True)]
    pairs += [(WRONG_NUMBER, line) for line in wrong]
    dropped = dict(Counter(reason for reason, _ in pairs)) | ({EMPTY: empty} if empty else {})
    examples = {reason: f"{raw[:80]!r} in {path.name}" for reason, raw in reversed(pairs)}
    return Counts(read=sum(dropped.values()), dropped=dropped, examples=examples)


def _split(
    lines: pa.Array, layout: Layout, names: tuple[str, ...], wanted: Sequence[str]
) -> tuple[pa.RecordBatch, list[str]]:
    """Cut lines at the delimiters before the text column, and those after it from the right; return what has less."""
    assert layout.text is not None
    before = names.index(layout.text)
    after = len(names) - before - 1
    blank = pc.equal(lines, "")
    enough = pc.or_(blank, pc.greater_equal(pc.count_substring(lines, layout.delimiter), before + after))
    wrong = lines.filter(pc.invert(enough)).to_pylist()
    lines = lines.filter(enough)
    padded = pc.if_else(pc.equal(lines, ""), layout.delimiter * (before + after), lines)
    left = pc.split_pattern(padded, layout.delimiter, max_splits=before)
    rest = pc.list_element(left, before)
    right = pc.split_pattern(rest, layout.delimiter, max_splits=after, reverse=True)
    fields = [pc.list_element(left, i) for i in range(before)]
    fields += [pc.list_element(right, i) for i in range(after + 1)]
    if layout.quote is not None:
        fields = [_unquote(column, layout.quote) for column in fields]
    return pa.record_batch([fields[names.index(name)] for name in wanted], names=list(wanted)), wrong


def _unquote(texts: pa.Array, quote: str) -> pa.Array:
    quoted = pc.and_(pc.starts_with(texts, quote), pc.ends_with(texts, quote))
    quoted = pc.and_(quoted, pc.greater_equal(pc.utf8_length(texts), 2))
    inner = pc.utf8_slice_codeunits(texts, 1, -1)
    return pc.if_else(quoted, pc.replace_substring(inner, quote * 2, quote), texts)


def _all_empty(rows: pa.RecordBatch) -> pa.Array:
    return reduce(pc.and_, (pc.equal(column, "") for column in rows.columns))
