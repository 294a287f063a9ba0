"""Random conditions, each twice: as we read it, and as DuckDB says the same where the two differ on purpose."""

from __future__ import annotations

import datetime
import random
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
import pyarrow as pa

ROWS = 48
TEXTS = [
    "", "taxi", "Taxi", "TAXI rank", "bus", "Bar", "Barista", "bar%", "50%", "5_0", "a_b", "it's", '"q"', "back\\slash",
    "line\nbreak", "tab\there", "Zürich", "ZÜRICH", "straße", "İstanbul", "日本", "naïve", "ǅ", "🚕", "a" * 300,
    "é", "e\u0301", "  blank ", "null", "17", "-3", "2.50", "true", "2008-05-18",
]  # fmt: skip


def _decimals(*texts: str) -> list[Decimal]:
    return [Decimal(text) for text in texts]


NAN, INFINITY = float("nan"), float("inf")
EDGES: dict[str, tuple[pa.DataType, list]] = {
    "i8": (pa.int8(), [-128, -7, -1, 0, 1, 5, 127]),
    "i16": (pa.int16(), [-(2**15), -300, -1, 0, 2, 300, 2**15 - 1]),
    "i32": (pa.int32(), [-(2**31), -1, 0, 3, 70_000, 2**31 - 1]),
    "i64": (pa.int64(), [-(2**63), -(2**53) - 1, -1, 0, 5, 2**53, 2**53 + 1, 2**63 - 1]),
    "u8": (pa.uint8(), [0, 1, 5, 128, 255]),
    "u16": (pa.uint16(), [0, 3, 65_535]),
    "u32": (pa.uint32(), [0, 4, 2**31, 2**32 - 1]),
    "u64": (pa.uint64(), [0, 1, 6, 2**53 + 1, 2**63 - 1, 2**63, 2**64 - 1]),
    "f32": (pa.float32(), [0.0, -0.0, 0.1, 0.5, -1.5, 2.0, 16_777_216.0, 1e38, NAN, INFINITY, -INFINITY]),
    "f64": (
        pa.float64(),
        [0.0, -0.0, 0.1, 0.5, -1.5, 2.5, 2.0**53, 2.0**63, 2.0**64, 1e300, -1e19, NAN, INFINITY, -INFINITY],
    ),
    "dec": (
        pa.decimal128(10, 2),
        _decimals("0.00", "0.10", "-2.55", "2.50", "99999999.99", "-1.00", "5.00"),
    ),
    "fine_dec": (
        pa.decimal128(18, 6),
        _decimals("0.000000", "0.100000", "2.500000", "-2.550001", "3.999999"),
    ),
}
WHOLE = ("i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64")
PLAIN = (
    "free", "other", "true", "false", "null", "1 = 1", "2 > 3", "'a' < 'b'", "free = other", "free > false",
    "free <> true", "free is not distinct from other", "free is distinct from null",
)  # fmt: skip
INTEGERS = (
    -1, 0, 1, 2, 5, 127, 128, 255, 256, -129, 70_000, 2**31, 2**53, 2**53 + 1, -(2**53) - 1, 2**63 - 1, 2**63,
    2**64 - 1, 2**64, -(2**63), -(2**63) - 1, 10**25,
)  # fmt: skip
POINTS = [
    "0.1",
    "0.10",
    "-2.55",
    "2.5",
    ".5",
    "1.0",
    "255.5",
    "-0.001",
    "99999999.99",
    "5.0",
    "9007199254740993.0",
    "127.9",
]
EXPONENTS = ["1e0", "5e-1", "1e19", "-1e19", "1e300", "2.5e0", "9007199254740992e0", "1e-400"]
MOMENTS = (
    "1970-01-01", "1969-12-31 23:59:59", "2008-05-18", "2008-05-18 07:36:40.001", "2099-12-31",
    "1970-01-01 23:59:59.000001",
)  # fmt: skip
F32_NEAR = "case when {}f32 between -100 and 100 then f32 end"
F64_NEAR = "case when {}f64 between -9 and 9 then f64 end"
CASTS = [
    ("int", "dec", "whole"), ("bigint", F32_NEAR, "whole"), ("double", "dec", "f64"), ("double", "i64", "f64"),
    ("decimal(12, 1)", "dec", "dec"), ("decimal(20, 3)", "i32", "dec"), ("float", F64_NEAR, "f32"),
    ("smallint", "i8", "whole"), ("int", "free", "whole"), ("ubigint", "u8", "whole"),
    ("decimal(9, 1)", "fine_dec", "dec"),
]  # fmt: skip
COALESCED = (
    ("whole", "i8", "i64", "7"), ("whole", "u64", "i64"), ("whole", "u8", "u64", "0"),
    ("dec", "dec", "fine_dec", "0.5"), ("f64", "f64", "0.0"), ("f64", "f64", "i8"),
)  # fmt: skip
SMALL = ("i8", "i16", "u8", "u16")
TIMES = {"day": pa.date32(), "utc": pa.timestamp("us", "UTC"), "naive": pa.timestamp("ms"), "fine": pa.timestamp("ns")}
SIGNS = ("=", "<>", "<", "<=", ">", ">=", "!=", "==")
MACROS = """
create macro whole_to_float(i, f) as case when i is null or f is null then null when isnan(f) then 2
    when f > 1e25 then -1 when f < -1e25 then 1 when i::hugeint < floor(f)::hugeint then -1
    when i::hugeint > floor(f)::hugeint then 1 when f > floor(f) then -1 else 0 end;
create macro float_to_float(a, b) as case when a is null or b is null then null when isnan(a) or isnan(b) then 2
    when a < b then -1 when a > b then 1 else 0 end;
"""
"""How numbers compare, 2 where one is NaN: DuckDB itself rounds whole numbers, and has NaN equal itself."""
_HELD = {"=": "= 0", "<>": "<> 0", "<": "= -1", "<=": "in (-1, 0)", ">": "= 1", ">=": "in (0, 1)"}


def town(seed: int) -> pa.Table:
    """Return a table of all types: edges, nulls, NaN, texts that want quoting."""
    rng = random.Random(seed)

    def some(values: list, kind: pa.DataType) -> pa.Array:
        drawn = [*values, *(rng.choice(values) for _ in range(ROWS))][:ROWS]
        rng.shuffle(drawn)
        return pa.array([None if rng.random() < 0.12 else value for value in drawn], kind)

    columns = {name: some(values, kind) for name, (kind, values) in EDGES.items()}
    columns |= {"text": some(TEXTS, pa.string()), "my kind": some(TEXTS[:9], pa.string()).dictionary_encode()}
    columns |= {"free": some([True, False], pa.bool_()), "other": some([True, False], pa.bool_())}
    seconds = [0, 86_399, 86_400, 1_211_068_800, 1_211_096_200, -1, -86_400, 4_102_444_800]
    start = datetime.datetime(1970, 1, 1)
    moments = [start + datetime.timedelta(seconds=s, microseconds=m) for s in seconds for m in (0, 1000)]
    columns["day"] = some([m.date() for m in moments], TIMES["day"])
    for name in ("utc", "naive"):
        columns[name] = some(moments, TIMES[name])
    ticks = [np.datetime64(m, "ns") + n for m in moments for n in (0, 1)]
    columns["fine"] = some([int(t.astype("int64")) for t in ticks], pa.int64()).cast(TIMES["fine"])
    return pa.table(columns)


@dataclass(frozen=True)
class Said:
    """An expression as we read it and as DuckDB does, and its kind: whole, big, dec, f32, f64, text, bool, time."""

    ours: str
    duck: str
    kind: str


class Conditions:
    """Random conditions of one seed."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)

    def __iter__(self) -> Iterator[Said]:
        while True:
            yield self.truth(self.rng.choice((0, 0, 0, 1, 1, 2)))

    # -- conditions

    def truth(self, depth: int) -> Said:
        draw = self.rng.random()
        if depth > 0 and draw < 0.45:
            a, b = self.truth(depth - 1), self.truth(depth - 1)
            sign = self.rng.choice(("and", "or"))
            if self.rng.random() < 0.3:  # without parentheses: what binds closer
                c = self.truth(0)
                other = self.rng.choice(("and", "or"))
                return Said(
                    f"{a.ours} {sign} {b.ours} {other} {c.ours}", f"{a.duck} {sign} {b.duck} {other} {c.duck}", "bool"
                )
            return Said(f"({a.ours}) {sign} ({b.ours})", f"({a.duck}) {sign} ({b.duck})", "bool")
        if depth > 0 and draw < 0.55:
            a = self.truth(depth - 1)
            return Said(f"not ({a.ours})", f"not ({a.duck})", "bool")
        if depth > 0 and draw < 0.6:
            a, c = self.truth(depth - 1), self.truth(0)
            wanted = self.rng.choice(("is true", "is false", "is null", "is not null", "is not true", "is unknown"))
            return Said(f"({a.ours}) {wanted} or {c.ours}", f"({a.duck}) {wanted} or {c.duck}", "bool")
        if depth > 0 and draw < 0.65:
            return self.case([self.truth(0) for _ in range(3)], "bool")
        return self.rng.choices(
            (self.comparison, self.listed, self.between, self.like, self.null, self.plain),
            (8, 3, 3, 4, 2, 1),
        )[0]()

    def plain(self) -> Said:
        text = self.rng.choice(PLAIN)
        return Said(f"({text})", f"({text})", "bool")

    def null(self) -> Said:
        name = self.rng.choice((*EDGES, *TIMES, "text", '"my kind"', "free"))
        wanted = self.rng.choice(("is null", "is not null", "isnull", "notnull"))
        return Said(f"{name} {wanted}", f"{name} {wanted}", "bool")

    def comparison(self) -> Said:
        pair = self.rng.choice((self.numbers, self.numbers, self.texts, self.times))
        sign = self.rng.choice((*SIGNS, "is distinct from", "is not distinct from"))
        return compared(*pair(), sign)

    def listed(self) -> Said:
        pairs = self.rng.choice((self.numbers, self.texts, self.times))
        value, first = pairs()
        items = [first]
        for _ in range(self.rng.randrange(4)):
            again = self.literal(value.kind)
            items.append(again)
        if self.rng.random() < 0.15:
            items.append(Said("null", "null::timestamp" if value.kind in ("time", "fine") else "null", value.kind))
        word = self.rng.choice(("in", "not in"))
        ours = f"{value.ours} {word} ({', '.join(item.ours for item in items)})"
        each = " or ".join(compared(value, item, "=").duck for item in items)
        return Said(ours, f"({'not ' if word == 'not in' else ''}({each}))", "bool")

    def between(self) -> Said:
        value, low = self.rng.choice((self.numbers, self.texts, self.times))()
        high = self.literal(value.kind)
        word = self.rng.choice(("between", "between", "not between", "between symmetric", "not between symmetric"))
        inner = f"({compared(value, low, '>=').duck} and {compared(value, high, '<=').duck})"
        if "symmetric" in word:
            inner = f"({inner} or ({compared(value, high, '>=').duck} and {compared(value, low, '<=').duck}))"
        duck = f"(not {inner})" if word.startswith("not") else inner
        return Said(f"{value.ours} {word} {low.ours} and {high.ours}", duck, "bool")

    def like(self) -> Said:
        value = self.text()
        if self.rng.random() < 0.15:
            other = self.text()
            return Said(f"starts_with({value.ours}, {other.ours})", f"starts_with({value.duck}, {other.duck})", "bool")
        word = self.rng.choice(("like", "not like", "ilike", "not ilike"))
        text = self.rng.choice(TEXTS)
        start = self.rng.randrange(len(text) + 1)
        pattern = text[start : self.rng.randrange(start, len(text) + 1)]
        escape = self.rng.choice(("\\", "\\", "!", "e"))
        pieces = []
        for character in pattern:
            if character in ("%", "_", escape):
                pieces.append(
                    self.rng.choice((escape + character, character if character != escape else escape + character))
                )
            else:
                pieces.append(self.rng.choice((character,) * 5 + ("_", "%", escape + character)))
        pattern = self.rng.choice(("", "%", "_")) + "".join(pieces) + self.rng.choice(("", "%", "%", "_"))
        said = f"{value.ours} {word} {quoted(pattern)}" + ("" if escape == "\\" else f" escape {quoted(escape)}")
        return Said(said, f"{value.duck} {word} {quoted(pattern)} escape {quoted(escape)}", "bool")

    # -- values

    def case(self, parts: list[Said], kind: str) -> Said:
        condition = self.rng.choice((self.comparison, self.null, self.plain))()
        if self.rng.random() < 0.5:
            form = "(case when {} then {} else {} end)"
            ours = form.format(condition.ours, parts[0].ours, parts[1].ours)
            return Said(ours, form.format(condition.duck, parts[0].duck, parts[1].duck), kind)
        key, when = self.whole(), self.literal("whole")
        form = "(case when {} then {} when {} then {} end)"
        ours = f"(case {key.ours} when {when.ours} then {parts[0].ours} when 5 then {parts[1].ours} end)"
        same = [compared(key, one, "=").duck for one in (when, Said("5", "5", "whole"))]
        return Said(ours, form.format(same[0], parts[0].duck, same[1], parts[1].duck), kind)

    def literal(self, kind: str) -> Said:
        """A constant of the kinds that compare with this one."""
        if kind == "text":
            text = quoted(self.rng.choice(TEXTS))
            return Said(text, text, "text")
        if kind in ("time", "fine"):
            return self.moment()
        draw = self.rng.random()
        if draw < 0.55:
            number = self.rng.choice(INTEGERS)
            return Said(str(number), f"({number})", "whole")
        points = draw < 0.8
        text = self.rng.choice(POINTS if points else EXPONENTS)
        return Said(text, f"({text})", "literal" if points else "f64")

    def whole(self) -> Said:
        name = self.rng.choice(WHOLE)
        return Said(name, name, "whole")

    def number(self) -> Said:
        draw = self.rng.random()
        if draw < 0.35:
            return self.whole()
        if draw < 0.55:
            name = self.rng.choice(("f32", "f64"))
            return Said(name, name, name)
        if draw < 0.65:
            name = self.rng.choice(("dec", "fine_dec"))
            return Said(name, name, "dec")
        if draw < 0.9:
            return self.computed()
        if draw < 0.95:
            name, other = self.rng.choice(SMALL), self.rng.choice(SMALL)
            return self.case(
                [Said(name, f"{name}::bigint", "whole"), Said(other, f"{other}::bigint", "whole")], "whole"
            )
        kind, *parts = self.rng.choice(COALESCED)
        duck = [f"{part}::hugeint" for part in parts] if kind == "whole" else parts
        return Said(f"coalesce({', '.join(parts)})", f"coalesce({', '.join(duck)})", kind)

    def computed(self) -> Said:
        draw = self.rng.random()
        names = [self.rng.choice(SMALL) for _ in range(3)]
        wide = [f"{name}::bigint" for name in names]
        if draw < 0.2:
            form = self.rng.choice(("({} + {} * {})", "({} - {} - {})", "(-{} * ({} + {}))", "({} + {} - -{})"))
            return Said(form.format(*names), form.format(*wide), "whole")
        if draw < 0.35:
            divisor = self.rng.choice((names[1], "3", "-1", "0", "-7"))
            wrapped = f"({divisor})::bigint"
            return Said(
                f"{names[0]} % {divisor}", f"(case when {wrapped} <> 0 then {wide[0]} % {wrapped} end)", "whole"
            )
        if draw < 0.5:
            name, sign = self.rng.choice(("f64", "f32", "i32", "dec")), self.rng.choice("+-*/")
            ours = f"({name} {sign} {names[1]})"
            if name[0] == "f" or sign == "/":
                return Said(ours, f"({name}::double {sign} {names[1]}::double)", "f64")
            if name == "dec":
                return Said(ours, f"(dec {sign} {wide[1]})", "dec")
            return Said(ours, f"(i32::bigint {sign} {wide[1]})", "whole")
        if draw < 0.6:
            text = self.rng.choice(("0.5", "2.25", "-1.1", "7"))
            sign = self.rng.choice("+-*")
            return Said(f"dec {sign} {text}", f"(dec {sign} ({text}))", "dec")
        if draw < 0.7:
            name, kind = self.rng.choice((("i8", "whole"), ("f64", "f64"), ("dec", "dec"), ("i32", "whole")))
            return Said(f"abs({name})", f"abs({name}{'::bigint' if kind == 'whole' else ''})", kind)
        if draw < 0.78:
            return Said("u64 + 1", "(u64::hugeint + 1)", "whole")
        if draw < 0.86:
            text = self.rng.choice(("2", "0.7", "1.5"))
            return Said(f"fine_dec % {text}", f"(fine_dec % {text})", "dec")
        target, source, kind = self.rng.choice(CASTS)
        column = "f32" if "f32" in source else "f64"
        ours, duck = source.format(""), source.format(f"not isnan({column}) and ")
        return Said(f"cast({ours} as {target})", f"cast({duck} as {target})", kind)

    def numbers(self) -> tuple[Said, Said]:
        left = self.number()
        if self.rng.random() < 0.08:
            return left, left  # NaN is not even equal to itself
        return left, self.number() if self.rng.random() < 0.35 else self.literal(left.kind)

    def text(self) -> Said:
        name = self.rng.choice(("text", "text", '"my kind"', "`my kind`"))
        plain = Said(name, name.replace("`", '"'), "text")
        draw = self.rng.random()
        if draw < 0.6:
            return plain
        if draw < 0.75:
            function = self.rng.choice(("lower", "upper"))
            return Said(f"{function}({plain.ours})", f"{function}({plain.duck})", "text")
        if draw < 0.85:
            other = quoted(self.rng.choice(TEXTS))
            return Said(f"({plain.ours} || {other})", f"({plain.duck} || {other})", "text")
        if draw < 0.92:
            return Said(f"coalesce({plain.ours}, 'none')", f"coalesce({plain.duck}, 'none')", "text")
        name = self.rng.choice(("i8", "i64", "u64", "free", "dec", "day"))
        return Said(f"cast({name} as varchar)", f"cast({name} as varchar)", "text")

    def texts(self) -> tuple[Said, Said]:
        return self.text(), self.text() if self.rng.random() < 0.3 else self.literal("text")

    def moment(self) -> Said:
        text = self.rng.choice(MOMENTS)
        if self.rng.random() < 0.5:
            return Said(f"'{text}'", f"timestamptz '{text}'", "time")
        return Said(f"timestamp '{text}'", f"timestamptz '{text}'", "time")

    def time(self) -> Said:
        name = self.rng.choice(tuple(TIMES))
        if name == "fine":
            return Said(name, name, "fine")
        if self.rng.random() < 0.15:
            to = self.rng.choice(("date", "timestamp"))
            return Said(f"cast({name} as {to})", f"cast({name} as {to})", "time")
        return Said(name, name, "time")

    def times(self) -> tuple[Said, Said]:
        return self.time(), self.time() if self.rng.random() < 0.35 else self.moment()


def compared(left: Said, right: Said, sign: str) -> Said:
    """Return a comparison; for DuckDB as exact as ours, and unordered where there is a NaN."""
    ours = f"{left.ours} {sign} {right.ours}"
    if sign.endswith("distinct from"):
        same = (
            f"coalesce({compared(left, right, '=').duck}, false) or (({left.duck}) is null and ({right.duck}) is null)"
        )
        return Said(ours, f"({same})" if "not" in sign else f"(not ({same}))", "bool")
    plain = {"!=": "<>", "==": "="}.get(sign, sign)
    a, b = left.duck, right.duck
    kinds = left.kind, right.kind
    if "fine" in kinds:
        # DuckDB does not compare its type of nanoseconds with one that has a zone
        return Said(ours, f"(epoch_ns({a}) {plain} epoch_ns({b}))", "bool")
    floats = [kind in ("f32", "f64") for kind in kinds]
    if not any(floats):
        return Said(ours, f"({a} {plain} {b})", "bool")
    if "whole" in kinds:
        if floats[0]:
            a, b = b, a
            plain = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}.get(plain, plain)
        return Said(ours, f"(whole_to_float({a}, ({b})::double) {_HELD[plain]})", "bool")
    if "f32" in kinds and ("dec" in kinds or "literal" in kinds):
        return Said(ours, f"(float_to_float(({a})::float, ({b})::float) {_HELD[plain]})", "bool")
    return Said(ours, f"(float_to_float(({a})::double, ({b})::double) {_HELD[plain]})", "bool")


def quoted(text: str) -> str:
    """Return a text as SQL writes it."""
    return "'" + text.replace("'", "''") + "'"
