"""Delimited text as rows of strings: what is not in its encoding, or not a whole record, has a reason in ``_flaw``.

A first look at the lines says whether quotes hold line ends and whether all bytes are UTF-8. Where all is well, which
is nearly always, Spark reads the lines in parallel; else files are read whole, or byte by byte, so that each bad record
is found exactly.
"""

from __future__ import annotations

import codecs
from typing import TYPE_CHECKING

from dtoss.errors import InputError
from pipelines.rows.byte_look import bytes_at_hand, look_at_bytes
from pipelines.rows.inputs import PACKED, Inputs
from pipelines.rows.positions import CORRUPT, FLAW, UNDECODED, UNENDED, Columns
from pipelines.rows.texts import exactly

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

LONGEST_RECORD = 100
"""Lines of a record; one of more is taken for a quote that was never closed, and each of its lines is a bad row."""
NAMES = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";", "blank": " ", "space": " ", "pipe": "|"}
"""Names of delimiters that are hard to write in a shell."""
_ENDS, _PIECE = "_dtoss_ends", "_dtoss_piece"
_BYTES = "ISO-8859-1"
"""The encoding in which every byte is one character."""


def check_text(columns: Columns) -> None:
    """Check how text is said to be written, before Spark starts.

    Raises
    ------
    ValueError
        If the encoding is not known, or a mark is not one.
    """
    if columns.encoding is not None:
        charset(columns.encoding)
    if columns.decimal not in (".", ","):
        raise ValueError(f"decimal is {columns.decimal!r}: . or , is wanted")
    if len(NAMES.get(columns.delimiter.lower(), columns.delimiter)) != 1:
        raise ValueError(f"delimiter is {columns.delimiter!r}: one character, or {', '.join(NAMES)}, is wanted")


def charset(encoding: str) -> str:
    """Return Java's name of an encoding that Python knows.

    Raises
    ------
    ValueError
        If it does not.
    """
    try:
        name = codecs.lookup(encoding).name
    except LookupError:
        raise ValueError(f"no encoding is called {encoding!r}: utf-8, latin-1, cp1252 and utf-16 are") from None
    if name in ("utf-8", "utf-8-sig", "ascii"):
        return "UTF-8"
    if name.startswith("iso8859-"):
        return name.replace("iso8859-", "ISO-8859-")
    if name.startswith(("utf-16", "utf-32")):
        return name.upper().replace("-LE", "LE").replace("-BE", "BE")
    return {"mac-roman": "x-MacRoman"}.get(name, name)


def read_delimited(session: SparkSession, inputs: Inputs, columns: Columns) -> DataFrame:
    """Return text with every column a string, ``_corrupt_record`` beside them, and ``_flaw`` where there may be one.

    A line with another number of fields than the first one goes to ``_corrupt_record``.

    Raises
    ------
    InputError
        If there is no line at all.
    """
    from pyspark.sql import functions as F
    from pyspark.sql import types as T

    encoding = charset(columns.encoding or inputs.mark or "utf-8")
    wide = encoding.startswith(("UTF-16", "UTF-32"))
    opened, by_byte = (False, False) if wide else _look_at_lines(session, inputs, encoding)
    whole = columns.multiline or wide or opened
    if encoding not in ("UTF-8", _BYTES):
        session.conf.set("spark.sql.legacy.javaCharsets", "true")
    separator = "\t" if inputs.kind == "tsv" else NAMES.get(columns.delimiter.lower(), columns.delimiter)
    options: dict[str, str | bool] = {
        "sep": separator,
        "encoding": _BYTES if by_byte else encoding,
        "escape": '"',  # a quote within quotes is doubled (RFC 4180)
        "multiLine": whole,
        "ignoreLeadingWhiteSpace": True,
        "ignoreTrailingWhiteSpace": True,
    }
    if inputs.base is not None:
        options["basePath"] = inputs.base
    paths = list(inputs.paths)
    first = session.read.options(header=False, **options).csv(paths).limit(1).toArrow().to_pylist()
    if not first:
        raise InputError(f"{', '.join(inputs.files or paths)} is empty: a header line is wanted")
    # columns of folders come last
    fields = [(value or "").strip() for name, value in first[0].items() if name.startswith("_c")]
    names = [f"c{i + 1}" for i in range(len(fields))]
    if columns.header:
        written = [_decoded(name) for name in fields] if by_byte else fields
        names = [name if name and name not in written[:i] else f"{name}_{i + 1}" for i, name in enumerate(written)]
    as_read = fields if by_byte and len(set(fields)) == len(fields) and all(fields) else names
    schema = T.StructType([T.StructField(name, T.StringType()) for name in [*as_read, CORRUPT]])
    # with pruning, lines are not told from broken ones by the number of their fields
    frame = session.read.options(
        columnPruning=False,
        header=columns.header,
        mode="PERMISSIVE",
        columnNameOfCorruptRecord=CORRUPT,
        # every file's header is compared with the first one's, which ours must be then
        enforceSchema=as_read != fields,
        **options,
    ).csv(paths, schema=schema)
    strings = [*as_read, CORRUPT]
    partitions = [name for name in frame.columns if name not in strings]
    folders = [exactly(name).cast("string").alias(name) for name in partitions]
    frame = frame.select(*map(exactly, as_read), *folders, CORRUPT).toDF(*names, *partitions, CORRUPT)
    values = [exactly(name) for name in (*names, CORRUPT)]
    if by_byte:
        texts = [F.encode(value, _BYTES).cast("string") for value in values]
        flaw = F.when(_any([F.coalesce(~F.is_valid_utf8(text), F.lit(False)) for text in texts]), F.lit(UNDECODED))
        restored = [F.make_valid_utf8(text).alias(name) for name, text in zip((*names, CORRUPT), texts, strict=True)]
        frame = frame.select(*restored, *map(exactly, partitions), flaw.alias(FLAW))
    elif encoding not in ("UTF-8", _BYTES):
        lost = [F.coalesce(F.contains(value, F.lit("\ufffd")), F.lit(False)) for value in values]
        frame = frame.withColumn(FLAW, F.when(_any(lost), F.lit(UNDECODED)))
    return _in_lines(frame, names, separator) if whole and not columns.multiline else frame


def _look_at_lines(session: SparkSession, inputs: Inputs, encoding: str) -> tuple[bool, bool]:
    """Return whether a line has an odd number of quotes, and whether one is not UTF-8 where it should be.

    In records of one line each, quotes come in pairs.
    """
    from pyspark.sql import functions as F

    if bytes_at_hand(inputs.paths, inputs.files, PACKED):
        opened, undecoded = look_at_bytes(inputs.files)
        return opened, undecoded and encoding == "UTF-8"
    line, quote = F.col("value"), F.lit('"')
    odd = F.octet_length(line) - F.octet_length(F.replace(line, quote, F.lit("")))
    measures = [F.count(F.when(F.contains(line, quote), F.when(odd % 2 == 1, 1))).alias("opened")]
    if encoding == "UTF-8":
        measures.append(F.count(F.when(~F.is_valid_utf8(line), 1)).alias("undecoded"))
    seen = session.read.text(list(inputs.paths)).agg(*measures).toArrow().to_pylist()[0]
    return seen["opened"] > 0, seen.get("undecoded", 0) > 0


def _in_lines(frame: DataFrame, names: list[str], delimiter: str) -> DataFrame:
    """Return records with a reason where they hold line ends; very long ones as a row for each line."""
    from pyspark.sql import functions as F

    # a broken record is as it was read, with the end of its last line
    broken = F.rtrim(F.col(CORRUPT), F.lit("\r\n"))
    text = F.coalesce(broken, F.concat_ws(delimiter, *(F.coalesce(exactly(name), F.lit("")) for name in names)))
    ends = F.length(text) - F.length(F.replace(text, F.lit("\n"), F.lit("")))
    pieces = F.when(ends >= LONGEST_RECORD, F.split(F.rtrim(text, F.lit("\r\n")), "\n"))
    others = [name for name in frame.columns if name not in (CORRUPT, FLAW)]
    frame = frame.select("*", ends.alias(_ENDS), F.explode_outer(pieces).alias(_PIECE))
    piece = F.col(_PIECE)
    flaw = F.col(FLAW) if FLAW in frame.columns else F.lit(None).cast("string")
    flaw = F.when(F.col(_ENDS) > 0, F.coalesce(flaw, F.lit(UNENDED))).otherwise(flaw)
    return frame.select(
        *(F.when(piece.isNull(), exactly(name)).alias(name) for name in others),
        F.coalesce(piece, F.col(CORRUPT)).alias(CORRUPT),
        flaw.alias(FLAW),
    )


def _decoded(name: str) -> str:
    return name.encode(_BYTES).decode("utf-8", "replace").lstrip("\ufeff")


def _any(conditions: list[Column]) -> Column:
    found = conditions[0]
    for condition in conditions[1:]:
        found = found | condition
    return found
