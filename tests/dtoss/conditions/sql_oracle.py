"""What DuckDB makes of conditions, and which of them we answer otherwise."""

from __future__ import annotations

from itertools import islice

import duckdb
import pyarrow as pa

from dtoss.conditions.parse import parse_condition
from tests.dtoss.conditions.sql_conditions import MACROS, Conditions, Said, town


def connection(table: pa.Table) -> duckdb.DuckDBPyConnection:
    """Return DuckDB, with the table as `objects`."""
    found = duckdb.connect(config={"threads": 1})
    found.execute("set TimeZone = 'UTC'")
    found.execute(MACROS)
    found.execute("pragma disable_optimizer")
    found.register("arrow_objects", table)
    found.execute("create table objects as select row_number() over () as place, * from arrow_objects")
    return found


def asked(database: duckdb.DuckDBPyConnection, conditions: list[str]) -> list[list[bool | None]]:
    """Return what DuckDB makes of conditions for each row."""
    rows = database.execute(
        f"select {', '.join(f'({one})' for one in conditions)} from objects order by place"
    ).fetchall()
    return [list(column) for column in zip(*rows, strict=True)]


def differing(seed: int, count: int) -> list[Said]:
    """Return those of random conditions over a random table that we and DuckDB answer differently."""
    table = town(seed)
    columns = {name: table[name].combine_chunks() for name in table.column_names}
    types = {field.name: field.type for field in table.schema}
    database = connection(table)
    conditions = iter(Conditions(seed))
    wrong = []
    for _ in range(0, count, 50):
        some = list(islice(conditions, 50))
        expected = asked(database, [one.duck for one in some])
        for one, rows in zip(some, expected, strict=True):
            found = parse_condition(one.ours, types).matches(columns.__getitem__, len(table)).tolist()
            if found != [row is True for row in rows]:
                wrong.append(one)
    return wrong
