"""Numbers and ids in text that Arrow reads are those that Spark reads where they are written as we take them."""

from __future__ import annotations

from random import Random

import pyarrow as pa

from dtoss.text.text_values import (
    AS_NUMBER,
    AS_TEXT,
    AS_WHOLE,
    LOOSE,
    MOSTLY,
    WHOLE_NUMBER,
    Counts,
    any_whole_numbers,
    numbers,
    plain_pattern,
    strictly,
    whole_numbers,
)

WRITTEN = (
    "0", "-0", "7", "007", "+7", " 7 ", "7\n", "-12", "1.0", "1.", ".5", "-.5e3", "1e5", "1E-5", "1e400", "-1e-400",
    "1,5", "\x7f7", "9223372036854775807", "9223372036854775808", "-9223372036854775808", "99999999999999999999",
    "123456789012345.5",
    "nan", "NaN", "+nan", "Infinity", "-inf", "+Infinity", "infinity ", "1.5f", "0x1p3", "1d", "", " ", "x", "7\u2028",
    "\uff17", "1 2", "--1", "1e", "\t1.5\r", "4.9e-324", "0.1", "1e16", "1e-999",
)  # fmt: skip


def mutated(rng, text):
    letters = list(text)
    at = rng.randrange(len(letters) + 1)
    letters[at : at + rng.randrange(2)] = rng.choice("0123456789+-.eE, \tnafi")
    return "".join(letters)


def test_arrow_reads_what_spark_reads(spark):
    """Whole numbers that are written back as they were read, any whole numbers, and numbers, with either mark."""
    from pyspark.sql import functions as F

    rng = Random(7)
    texts = [*WRITTEN, *(mutated(rng, rng.choice(WRITTEN)) for _ in range(3000))]
    text = F.col("text")
    dotted = F.replace(text, F.lit(","), F.lit("."))
    wanted = {
        "whole": F.when(text.rlike(WHOLE_NUMBER), text.try_cast("bigint")),
        "any": text.try_cast("bigint"),
        "number": F.when(text.rlike(LOOSE), text.try_cast("double")),
        "comma": F.when(dotted.rlike(LOOSE), dotted.try_cast("double")),
        "plain": F.when(text.rlike(plain_pattern(",")), dotted.try_cast("double")),
    }
    frame = spark.createDataFrame(pa.table({"row": range(len(texts)), "text": texts}))
    said = frame.select("row", *(one.alias(name) for name, one in wanted.items())).toArrow().sort_by("row").to_pydict()
    held = pa.array(texts)
    found = {
        "whole": whole_numbers(held), "any": any_whole_numbers(held), "number": numbers(held),
        "comma": numbers(held, ","), "plain": strictly(held, AS_NUMBER, ","),
    }  # fmt: skip
    for name, ours in found.items():
        odd = [(t, s, f) for t, s, f in zip(texts, said[name], ours.to_pylist(), strict=True) if repr(s) != repr(f)]
        assert odd == [], name


def test_kinds_of_columns():
    """All values must be numbers, or nine in ten where others are bad rows; of a type that is wanted most are."""

    def kind(texts, tolerant=False, wanted=None, decimal="."):
        seen = Counts()
        for begin in range(0, len(texts), 7):
            seen.add(pa.array(texts[begin : begin + 7], pa.string()), decimal, tolerant)
        return seen.kind(tolerant, wanted)

    nine = [str(i) for i in range(9)]
    assert [kind([*nine, "", None]), kind([*nine, "x"]), kind([*nine, "x"], True)] == [AS_WHOLE, AS_TEXT, MOSTLY]
    assert [kind([*nine, "007"], True), kind(["x", *nine, "y"], True), kind([])] == [MOSTLY, AS_TEXT, AS_TEXT]
    assert [kind([*nine, "1.5"]), kind([*nine, " +2. "]), kind([*nine, " +2. "], True)] == [AS_NUMBER, AS_TEXT, MOSTLY]
    assert [kind(["1,5", "2"], decimal=","), kind(["1,5", "2"])] == [AS_NUMBER, AS_TEXT]
    assert [kind([*nine, "x"], wanted="bigint"), kind(nine, wanted="string"), kind([], wanted="double")] == [
        MOSTLY, AS_TEXT, AS_NUMBER
    ]  # fmt: skip
