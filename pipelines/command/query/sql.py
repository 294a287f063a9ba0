"""``dtoss sql``: files of SQL, with a store as a table and as functions."""

from __future__ import annotations

import json
import sys
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

import typer

from dtoss.errors import InputError
from dtoss.option import Option
from pipelines.command.query.many_places import target_of
from pipelines.command.query.query_options import Form
from pipelines.command.terminal.notes import note
from pipelines.command.terminal.option_objects import Without
from pipelines.command.terminal.options import Carry, Check, Snapshot, Store
from pipelines.command.terminal.output import Engine, start_spark


def sql(
    file: Annotated[str, typer.Argument(help="A file of SQL statements, or - for what comes on stdin.")],
    store: Store,
    form: Annotated[Form, Without(["geojson"])],
    spark: Annotated[Engine, Without(["engine"])],
    out: Annotated[str | None, Option("The last result: .parquet, .csv or .jsonl; on stdout if not given.")] = None,
    name: Annotated[str, Option("Of the store's table; its functions are NAME_knn and so on.")] = "dtoss",
    columns: Carry = (),
    query_id: Annotated[str, Option("Type of the ids of places and zones: bigint or string.")] = "bigint",
    snapshot: Snapshot = None,
    check: Check = None,
) -> None:
    """Run a file of Spark SQL in which the store is a table and table functions; print or write its last result."""
    from dtoss.snapshots.store import Store as Stored
    from pipelines.sql.statements import in_one_line, run_statements, statements_of

    shown = "stdin" if file == "-" else file
    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{shown} cannot be read: {error}") from None
    statements = statements_of(text, shown)
    target = None if out is None else target_of("the result", out)
    form.check(None if target is None else "--out")
    Stored(store).manifest(snapshot)  # what is wrong with it is said before Spark starts
    session = start_spark(spark.master, spark.driver_memory)
    from pipelines.sql.register import register

    checked = "touch" if check is None else check
    current = register(session, store, name, snapshot, columns=columns, query_id=query_id, verify=checked)
    frame = run_statements(session, statements, shown)
    if form.limit is not None:
        frame = frame.limit(form.limit)
    with in_one_line(f"{shown}, line {statements[-1].line}"):
        if target is not None:
            from pipelines.rows.write_file import write_file

            rows = write_file(frame, target)
            note(f"{rows:,} rows in {target}")
            return
        table = frame.toArrow()
    _print(table, current, form.as_json)


def _print(table: Any, snapshot: str, as_json: bool) -> None:
    """Print a table as CSV or JSON; nothing of a statement that has no result."""
    if as_json:
        print(json.dumps({"snapshot": snapshot, "rows": table.to_pylist()}, default=str))
        return
    if not table.column_names:
        return
    import csv

    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(table.column_names)
    writer.writerows(chain.from_iterable(_rows(batch) for batch in table.to_batches()))


def _rows(batch: Any) -> Any:
    return zip(*(column.to_pylist() for column in batch.columns), strict=True)
