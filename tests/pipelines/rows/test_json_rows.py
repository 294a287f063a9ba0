"""JSON has the columns, types and values that Spark gives it."""

from __future__ import annotations

import gzip
import hashlib
import json
import random
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import fs

from dtoss.errors import InputError
from dtoss.rows.json_values import schema_of_kinds
from dtoss.rows.raw_json import text_of
from dtoss.snapshots.column_types import stored_type, type_name
from pipelines.rows.table_tasks import json_batches, kinds_of_lines

CORRUPT = "_corrupt_record"
DEEP = f'{{"a":{5000 * "["}{5000 * "]"}}}'
VALUES = (
    ("1", '"x"', '{"b": 1.50, "c":[1,\'x\']}', "1.50", "[1 , 2]", "true", "NaN", "-INF", "null", "1e400", "-0", '""'),
    ("NaN", "-Infinity", "+INF", "+Infinity", "-INF", "Infinity", '""', "3", "1E5", "1e-5", "1e+5", "1e400", "-0.0"),
    ("-0", "0.5"),
    ("-0", "0", "9223372036854775807", "-9223372036854775808"),
    ("12345678901234567890", "1", "-1"),
    ("12345678901234567890", "1.5"),
    ("9223372036854775808", '""'),
    ("9" * 38, "-1234567890123456789012", "5"),
    ("9" * 39, "1"),
    ("1" * 400, "0.1", "4.9e-324", "1.7976931348623157e308", "123456789012345678", "2e-400"),
    ("{}",),
    ("{}", "1"),
    ("[]",),
    ("[{}]",),
    ("[{}]", "1"),
    ("null",),
    ('""',),
    ("[null]", "[[]]", "[]"),
    ("[]", "{}"),
    ("[]", "[[1]]", '[["x"]]', "[null, [2.5]]"),
    ('{"h":{}}', '{"":2,"b":3}', '{"b":""}', "null"),
    ('{"x":1}', '{"x":"s","y":[1]}', '{"x":{"q":2}}', '{"x":""}'),
    ('[{"x":1},{"y":"s"},null]', "[]", '[{"x":""}]', '[{"x":3,"z":{"w":[1,2.5]}}]'),
    ("[1,2.5]", '["x",{"y":1}]', "[[ ]]"),
    ("[1,2]", '[1,""]', '""', "[true]"),
    ("[1,2]", '[1,""]', '""'),
    ('{"e":1}', '{"e":"","f":2}', '""', '{"e":12345678901234567890}'),
    ("true", "false", '""', "null"),
    ("true", "1"),
    ('"2020-01-01"', '"2020-01-01T00:00:00Z"', '"12:30"'),
    ('"NaN"', "NaN", "1"),
    (r'"\ud800"', r'"\ud83d\ude00"', r'"\udc00x"', r'"\u00e9\/\b\f\n\r\t\"\\\u0000"', '"\x7f\u2028é😀\x85"'),
    ("'x'", '"it\'s"', r"'it\'s'", r'"it\'s"', "'\"'"),
    ('"a" ', ' "b"', '\t"c"'),
)
"""Each are the values of a column, line by line; an empty text where a number is wanted gives null."""
FILES = {
    "bad": b'{"a":1,"b":"s","z":2.5}\nbad\n{"b":"q","a":007,"z":3}\n{"a":+1}\n{"a":INF}\n{"a":1.}\n{"a":tru}\n{"a":x}\n'
    b'{"a":}\n{"a":1\n{"a":\n{"a"\n{"a":1,}\n{"a":1 "z":1}\n{"z":3.5.1}\n{"z":3 4}\n{"b":"x\ty"}\n{"b":"x\\q"}\n{',
    "bad too": b'{"a":[1,]}\n{"a":[,1]}\n{a:1}\n{"a":1,,"b":2}\n{"a" : 1 , "b":[ ]}\n {"a":2}\n{"a":.1}\n{"a":True}\n'
    b'{"a":nan}\n{"a":-}\n{"a":1e}\n{"a":-01}\n{"a":trueX}\n{"a":nullx}\n{"a":12x}\n{"a":1"b":2}\n{"a":"x""b":2}\n'
    b'{"a":0x1}\n{"a":-NaN}\n{"a":"\\u12"}\n{"a" 1}\n{"a":"x\x01y"}\n{,}\n{"a":[1 2]}\n{"a":1.5e+}\n{\'b":1}',
    "comments": b'{"a":1} // c\n/* c */{"a":2}\n# c\n{"a":3}',
    "marks": b'\xef\xbb\xbf{"a":1}\n{"a":2}\n\xef\xbb\xbf{"a":3}\n \xef\xbb\xbf{"a":4}\n\xef\xbb\xbfbad',
    "roots": b'[{"a":1},{"b":2}]\n[]\n[1,2]\n1\n"x"\nnull\ntrue\n[null]\n[[{"a":1}]]\n{}\n[{"a":5},3]\n{"a":9}',
    "no bad roots": b'{"a":1,"b":"q"}\n[{"b":"q","a":""},{"b":"r","a":2}]\n[[{"b":"w"}]]\nnull\n[null]\n[]\n',
    "null roots": b'{"a":1}\nnull x\nnull\n',
    "a wrong null": b'{"a":1}\nnullx\n',
    "lines": b'{"a":1}\r\n\r\n  \n\t\n{"a":2}\r{"a":3}\n\x0b\n\x0c\n{"a":4}\n\n\n',
    "behind": b'{"a":1} x\n{"a":2} {"a":3}\n{"a":4},\n{"a":5}}\n{"a":6}]\n{"a":7',
    "behind, all alike": b'{"a":1}{"a":2}\n{"a":3}\n{"a":4}',
    "misfits": b'{"a":1,"b":"s","c":[1],"d":{"e":1},"z":2.5}\nbad\n{"b":"q","a":"","z":3}\n{"b":"q","c":"","z":3}\n'
    b'{"b":"q","d":"","z":3}\n{"b":"q","z":"","a":3}\n{"b":"q","c":[1,""],"z":3}\n{"b":"q","d":{"e":""},"z":3}\n'
    b'[{"b":"q","a":""},{"b":"r","a":2}]\n[]\n{"d":null,"z":"NaN"}\n',
    "no UTF-8": b'{"a":"\xff"}\n{"a":"\xc3("}\n{"a":"\xed\xa0\x80"}\n{"a":"ok\xc3\xa9"}\n\xff\n{"a":1}\xff\n'
    b'{"a":1 \xff}\n{"a":"\xe2\x82"}\n{"\xff":1}',
    "names": '{"b":1,"a":2,"é":3,"Z":4,"😀":5,"｡":6,"a b":7,"a.b":8,"\\u0061a":9,\'q"\':{"ü":1}}'.encode(),
    "case inside": b'{"s":[{"a":1,"A":2}]}',
    "minus zero": b'{"a":-0}\n{"a":0.5}\n{"a":-0.0}',
    "twice": b'{"a":1,"a":2}',
    "twice inside": b'{"s":{"a":1,"a":2},"b":1}',
    "twice, corrupt": b'{"b":1}\n{"a":1,"a":2',
    "own corrupt": b'{"_corrupt_record":"x","a":1}\nbad\n{"_corrupt_record":5}',
    "own corrupt, quiet": b'{"_corrupt_record":"x","a":1}',
    "own corrupt, a number": b'{"_corrupt_record":5}',
    "deep": b'{"a":1,"b":' + b"[" * 60 + b"]" * 60 + b"}",
    "long": b'{"a":1}\n{"a":%s}\n{"a":2}' % (b"1" * 1001),
    "all bad": b'12x\n1 2\n"abc\n',
    "empty": b"",
    "blank": b"\n \n",
    "nothing": b'{"a":{}}\n{}',
}
WHOLE = {
    "list": b'[{"a":1},\n{"a":"x"}, {"a": {"b": 1.50, \'c\':[1e400,-0,"\\u00e9\x7f/"]}}]',
    "first": b'{"a":1}\n{"a":2}',
    "mark": b'\xef\xbb\xbf{"a":\r\n1}',
    "empty": b"",
    "blank": b"  \n",
    "misfit": b'[{"a":1.50},{"a":""}]',
    "numbers": b'[{"a":NaN,"b":1},{"a":[NaN, 1.0E3,12345678901234567890,1.0000000000000000000000001]}, {"a":"x"}]',
}


def side_by_side(columns):
    """Lines of objects, with a column of each tuple of values."""
    lines = []
    for i in range(max(map(len, columns))):
        lines.append(",".join(f'"c{j:03}":{one[i]}' for j, one in enumerate(columns) if i < len(one)))
    return "".join(f"{{{line}}}\n" for line in lines).encode()


def drawn_value(rng, depth=0):
    simple = [
        lambda: str(rng.randint(-5, 5)),
        lambda: str(rng.getrandbits(rng.choice([20, 63, 64, 80, 140])) * rng.choice([1, -1])),
        lambda: repr(rng.uniform(-1e3, 1e3) * 10.0 ** rng.randint(-20, 20)),
        lambda: json.dumps("".join(rng.choices("ab1 é\n'\"\\/\x00😀", k=rng.randrange(5)))),
        lambda: rng.choice(["true", "false", "null", '""', "NaN", "{}", "[]", "1e5", "-INF", "1.0"]),
    ]
    if depth < 3 and rng.random() < 0.35:
        inner = [drawn_value(rng, depth + 1) for _ in range(rng.randrange(4))]
        if rng.random() < 0.5:
            return f"[{', '.join(inner)}]"
        return f"{{{', '.join(f'{json.dumps(name)}: {one}' for name, one in zip('abc', inner, strict=False))}}}"
    return rng.choice(simple)()


def drawn_column(rng):
    """Values of a column: of one form with some others, or anything."""
    first = drawn_value(rng)
    return tuple(
        first if rng.random() < 0.4 else rng.choice(["null", '""']) if rng.random() < 0.3 else drawn_value(rng)
        for _ in range(rng.randint(1, 5))
    )


def broken_line(rng, columns):
    """A line with a character too many, too few, or another, at its top."""
    line = f'{{"x": {rng.randint(0, 9)}, "y": "{rng.choice("ab")}"{columns}}}'
    at = rng.randrange(len(line))
    return line[:at] + rng.choice(["", "", *"{}[],:\"'x 0-.\\\t"]) + line[at + rng.randint(0, 1) :]


def drawn_files(seed):
    rng = random.Random(seed)
    files = {f"drawn {i}": side_by_side([drawn_column(rng) for _ in range(100)]) for i in range(4)}
    broken = [broken_line(rng, rng.choice(["", ', "z": [1.5]'])) for _ in range(400)]
    return files | {"broken": "\n".join(['{"x":1,"y":"a","z":[1]}', *broken]).encode()}


def places(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    return [(fs.LocalFileSystem(), str(tmp_path / name))]


def json_schema(files, multiline=False):
    """The columns that all lines of files say."""
    return schema_of_kinds([kinds_of_lines(place, None, multiline=multiline) for place in files])


def ours(files, multiline=False):
    """Names and types, and rows; what was wrong where they cannot be read."""
    try:
        schema = json_schema(files, multiline=multiline)
    except InputError:
        return "refused", []
    if schema.names == [CORRUPT]:
        return "refused", []
    batches = [batch for file in files for batch in json_batches(file, schema, multiline=multiline)]
    rows = pa.Table.from_batches(batches, schema=schema)
    return [(field.name, type_name(field.type)) for field in schema], rows.to_pylist()


def of_spark(spark, path, multiline=False):
    from pyspark.errors import AnalysisException

    try:
        frame = spark.read.json(path, mode="PERMISSIVE", columnNameOfCorruptRecord=CORRUPT, multiLine=multiline)
        if not frame.columns:
            return [], []
        table = frame.toArrow()
    except AnalysisException:
        return "refused", []
    # bytes that are no UTF-8 stand in a text
    at = table.schema.get_field_index(CORRUPT)
    if at >= 0:
        texts = [text and text_of(text) for text in table[CORRUPT].cast(pa.binary()).to_pylist()]
        table = table.set_column(at, CORRUPT, pa.array(texts, pa.string()))
    return [(field.name, type_name(stored_type(field.type))) for field in table.schema], table.to_pylist()


TOLD = Path(__file__).with_name("json_told_by_spark.json")
"""The hash of what Spark said of each file: names and types of columns, and rows.

``python -m tests.pipelines.rows.json_told_by_spark`` writes it anew.
"""
LIVE = ("values.json", "misfits.json", "no UTF-8.json", "packed.json.gz", "whole list.json", "whole first.json.gz")


def all_files():
    """Yield the name of each file, its bytes, and whether it is one value over many lines."""
    contents = {"values": side_by_side(VALUES)} | FILES | drawn_files(7)
    yield from ((f"{name}.json", content, False) for name, content in contents.items())
    yield "packed.json.gz", gzip.compress(contents["misfits"]), False
    for name, content in WHOLE.items():
        yield f"whole {name}.json", content, True
        yield f"whole {name}.json.gz", gzip.compress(content), True


def told(kinds, rows):
    """The hash of what was read."""
    return hashlib.sha256(repr((kinds, rows)).encode("utf-8", "surrogatepass")).hexdigest()[:16]


def alike_in_spark(spark, tmp_path, name, content, multiline):
    """Assert that Spark reads the same, and return it.

    Spark keeps what it has understood of some lines that are broken; they are bad anyway, and all null to us.
    """
    files = places(tmp_path, name, content)
    kinds, rows = ours(files, multiline)
    expected_kinds, expected = of_spark(spark, files[0][1], multiline)
    assert kinds == expected_kinds, name
    for i, row in enumerate(rows):
        if row.get(CORRUPT) is not None and name == "broken.json":
            expected[i] = dict.fromkeys(row) | {CORRUPT: expected[i][CORRUPT]}
    assert list(map(repr, rows)) == list(map(repr, expected)), name
    return kinds, rows


def test_rows_are_what_spark_said(tmp_path):
    """Of each file, also of those that it refused."""
    wanted = json.loads(TOLD.read_text())
    for name, content, multiline in all_files():
        found = ours(places(tmp_path, name, content), multiline)
        assert told(*found) == wanted[name], (name, *found)


READ_ANEW = pytest.mark.deep("Spark reads each anew; what it said before is held to in test_rows_are_what_spark_said")


@pytest.mark.parametrize("some", [pytest.param(None, marks=READ_ANEW, id="all"), pytest.param(LIVE, id="some")])
def test_rows_are_those_of_spark(spark, tmp_path, some):
    wanted = json.loads(TOLD.read_text())
    for name, content, multiline in all_files():
        if some is None or name in some:
            assert told(*alike_in_spark(spark, tmp_path, name, content, multiline)) == wanted[name], name


@pytest.mark.parametrize(
    ("lines", "kinds", "rows"),
    [
        ('{"b":1,"a":"x"}\n{"b":2.5}', {"a": "string", "b": "double"}, [("x", 1.0), (None, 2.5)]),
        ('{"a":1}\n{"a":{"b": 1.50}}', {"a": "string"}, [("1",), ('{"b": 1.50}',)]),
        ('{"a":12345678901234567890}', {"a": "decimal(20,0)"}, [(Decimal("12345678901234567890"),)]),
        ('{"a":1}\n{"a":""}', {"a": "bigint"}, [(1,), (None,)]),
        ("{'a':'x'}\n007", {CORRUPT: "string", "a": "string"}, [(None, "x"), ("007", None)]),
        ('{"a":1}\r\n\n{"a":2} x', {"a": "bigint"}, [(1,), (2,)]),
        ('{"a":-0}\n{"a":-0.0}', {"a": "double"}, [(0.0,), (-0.0,)]),
        ('{"a":{},"b":[{}],"c":null}', {"c": "string"}, [(None,)]),
        ('[{"a":1},{"a":"2020-01-01"}]', {"a": "string"}, [("1",), ("2020-01-01",)]),
        ('{"a":"2020-01-01"}', {"a": "string"}, [("2020-01-01",)]),
        ('{"a":1}{"a":2}\n{"a":3}', {"a": "bigint"}, [(1,), (3,)]),
        ('{"a":1}\n{"a":""}\n[1]', {CORRUPT: "string", "a": "bigint"}, [(None, 1), ('{"a":""}', None), ("[1]", None)]),
        (f'{{"a":1}}\n{DEEP}\n', {CORRUPT: "string", "a": "bigint"}, [(None, 1), (DEEP, None)]),
        (r'{"a":"\ud800"}', {"a": "string"}, [("?",)]),
    ],
)  # fmt: skip
def test_lines_have_types_and_values(tmp_path, lines, kinds, rows):
    found, values = ours(places(tmp_path, "a.json", lines.encode()))
    assert dict(found) == kinds
    assert repr([tuple(row.values()) for row in values]) == repr(rows)


def test_all_files_have_the_same_columns(tmp_path):
    files = [*places(tmp_path, "a.json.gz", gzip.compress(b'{"a":1}')), *places(tmp_path, "b.json", b'{"b":[true]}')]
    assert ours(files)[1] == [{"a": 1, "b": None}, {"a": None, "b": [True]}]


@pytest.mark.parametrize("content", [b'{"a":1}\n' * 7, b'{"a":""}\n' + b'{"a":1}\n' * 6])
def test_rows_come_in_small_batches(tmp_path, content):
    files = places(tmp_path, "a.json", content)
    batches = list(json_batches(files[0], json_schema(files), most=3))
    assert list(map(len, batches)) == [3, 3, 1]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b'{"a":1}\n{"A":1}', "there twice"),
        (b'{"a":1,"a":2}', "twice in an object"),
        (b'{"_corrupt_record":5}', "of another type than text"),
        ('{"a":1}'.encode("utf-16"), "not written in UTF-8"),
    ],
)
def test_what_is_not_read_is_an_error_that_says_so(tmp_path, content, words):
    with pytest.raises(InputError, match=words):
        json_schema(places(tmp_path, "a.json", content))
