"""What conditions may hold, what not, and where they differ from DuckDB: `docs/queries.md` has these tables."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

WORKS = [
    ("comparisons", "speed > 3, kind <> 'bus', seats != 4, seats == 4"),
    ("and, or, not", "not (seats = 4 or free) and speed > 3"),
    ("in", "kind in ('taxi', 'van'), seats not in (2, 4)"),
    ("between, in either order with symmetric", "seats between 2 and 4, seats not between symmetric 4 and 2"),
    ("like; ilike without case", "kind like 'ta%', kind not like 'Bar%', kind ilike 'TA_I'"),
    ("escape, by itself a backslash", r"kind like '50!%' escape '!', kind like '50\%'"),
    ("is null, is true, is false", "kind is null, free is not true, kind notnull"),
    ("is distinct from: null is a value", "kind is distinct from 'taxi', seats is not distinct from null"),
    ("+ - * / %", "seats * 2 - 1 > 3, seats / 2 = 1.5, seats % 2 = 0"),
    ("text put together", "kind || ' rank' = 'taxi rank'"),
    ("lower, upper, abs, mod", "lower(kind) = 'taxi', upper(kind) = 'TAXI', abs(speed) > 3, mod(seats, 2) = 0"),
    ("coalesce, ifnull, nvl", "coalesce(kind, 'none') = 'none', ifnull(seats, 0) = 0"),
    ("starts_with", "starts_with(kind, 'ta')"),
    ("case", "case when seats > 4 then 'van' else kind end = 'van', case seats when 4 then free end"),
    ("cast", "cast(seats as varchar) = '4', seats::double / 3 > 1, cast(price as decimal(9, 1)) = 2.5"),
    ("times", "seen >= '2008-05-18 07:30', seen < timestamp '2008-05-18T07:30:00', day = date '2008-05-18'"),
    ("constants", "true, 1 = 1, null"),
    ("names in double quotes or backticks", '"my seats" = 4, `my seats` = 4'),
]  # fmt: skip
"""What works: the form, and conditions that hold it."""

REFUSED = [
    ("other functions", "length(kind) = 4, now() > seen, substring(kind, 1, 2) = 'ta'"),
    ("regular expressions", "kind ~ 'ta.*', kind similar to 'ta', regexp_matches(kind, 'ta')"),
    ("queries", "seats in (select 4), exists (select 1)"),
    ("intervals and parts of times", "seen > timestamp '2008-05-18' - interval '1' hour, extract(hour from seen) = 7"),
    ("powers, whole division, bits", "seats ** 2 = 4, seats // 2 = 1, seats & 1 = 1"),
    ("lists, rows, any, all", "seats = any(array[1, 2]), (seats, free) = (4, true), kind like any ('a', 'b')"),
    ("casts that try; of floats to decimals", "try_cast(kind as int) = 4, cast(speed as decimal) = 1"),
    ("patterns that are columns", "kind like make"),
    ("several conditions, statements", "free; free, select 1, drop table objects"),
]  # fmt: skip
"""What does not work, and is an error that says so."""

ERROR = "error"


@dataclass(frozen=True)
class Difference:
    """A condition that DuckDB answers otherwise.

    Parameters
    ----------
    of : what it shows.
    condition : over one row with these columns.
    here, there : what we and DuckDB make of the row: True, False, None for unknown, or ERROR.
    """

    of: str
    condition: str
    columns: dict[str, pa.Array]
    here: bool | str | None
    there: bool | str | None


def _row(**values: pa.Array) -> dict[str, pa.Array]:
    return values


_NAN = _row(speed=pa.array([float("nan")]))
_SEATS = _row(seats=pa.array([4], pa.int32()))
_KIND = _row(kind=pa.array(["50%"]))
_BIG = _row(big=pa.array([2**53 + 1]), real=pa.array([2.0**53]))
_SMALL = _row(seats=pa.array([200], pa.uint8()))
_SINGLE = _row(speed=pa.array([0.1], pa.float32()))
_TIMES = _row(
    seen=pa.array([1_211_094_000_000_000], pa.timestamp("us", "UTC")),
    fine=pa.array([1_211_094_000_000_000_000], pa.timestamp("ns")),
)
DIFFERENCES = [
    Difference("NaN compares with nothing, as IEEE 754 says", "speed = speed", _NAN, False, True),
    Difference("NaN compares with nothing, as IEEE 754 says", "speed > 1", _NAN, False, True),
    Difference("whole numbers are compared with floating point ones exactly", "big = real", _BIG, False, True),
    Difference("whole numbers are computed in 64 bits", "seats * seats = 40000", _SMALL, True, ERROR),
    Difference("floating point numbers are computed in 64 bits", "speed * 3 > 0.3", _SINGLE, True, False),
    Difference("a whole number divided by zero leaves an unknown remainder", "seats % 0 = 0", _SEATS, None, ERROR),
    Difference("a backslash makes `%` and `_` plain in patterns", r"kind like '50\%'", _KIND, True, False),
    Difference("names are spelled as they are", "SEATS = 4", _SEATS, ERROR, True),
    Difference("only what is alike is compared", "seats = '4'", _SEATS, ERROR, True),
    Difference("only what is alike is compared", "seats = true", _SEATS, ERROR, False),
    Difference("only text is put together", "kind || 4 = '50%4'", _KIND, ERROR, True),
    Difference("only text of digits is cast to a whole number", "cast('1e3' as int) = 1000", _SEATS, ERROR, True),
    Difference("a zone in a time's text counts", "seen = timestamp '2008-05-18 09:00:00+02'", _TIMES, True, False),
    Difference("times of all units are compared", "fine < timestamptz '2099-12-31'", _TIMES, True, ERROR),
    Difference("the bounds of between may change places", "seats between symmetric 5 and 3", _SEATS, True, ERROR),
]  # fmt: skip
"""Where we differ on purpose."""

_WORDS = {True: "yes", False: "no", None: "unknown", ERROR: "error"}


def tables() -> str:
    """Return the three tables as Markdown."""
    lines = ["| what works | such as |", "|---|---|"]
    lines += [f"| {form} | {_conditions(example)} |" for form, example in WORKS]
    lines += ["", "| what does not | such as |", "|---|---|"]
    lines += [f"| {form} | {_conditions(example)} |" for form, example in REFUSED]
    lines += ["", "| where we differ | condition | of | here | DuckDB |", "|---|---|---|---|---|"]
    for one in DIFFERENCES:
        values = ", ".join(
            f"{name} {_said(column)}" for name, column in one.columns.items() if name in one.condition.lower()
        )
        lines.append(
            f"| {one.of} | {_conditions(one.condition)} | {values} | {_WORDS[one.here]} | {_WORDS[one.there]} |"
        )
    return "\n".join(lines) + "\n"


def _said(column: pa.Array) -> str:
    value = column.cast(pa.timestamp("us"))[0].as_py() if pa.types.is_timestamp(column.type) else column[0].as_py()
    return f"{value} ({column.type})"


def _conditions(text: str) -> str:
    ticks = "``" if "`" in text else "`"
    return f"{ticks}{text.replace('|', chr(92) + '|')}{ticks}"
