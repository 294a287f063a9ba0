"""How answers of a history are printed: as CSV, JSON or GeoJSON, and what a question has read."""

from __future__ import annotations

import csv
import json
import sys
from typing import TYPE_CHECKING, Any

from pipelines.command.query.print_answers import Form, degrees_of, print_points
from pipelines.command.terminal.notes import note

if TYPE_CHECKING:
    from dtoss.history.query.history import History
    from dtoss.hits import Hits


def print_rows(past: History, hits: Hits, form: Form, names: list[str]) -> None:
    """Print hits with their times and positions, and the columns that were asked for."""
    found = len(hits)
    if form.limit is not None and form.limit < found:
        hits = hits[: form.limit]
        note(f"the first {len(hits):,} of {found:,} rows: --limit {form.limit}")
    carried = list(dict.fromkeys(["t", *past.schema.position_names, *names]))
    header = ["query_id", "id", "distance", *carried]
    values = [hits.query.tolist(), hits.id.tolist(), hits.distance.tolist()]
    for name in carried:
        column = hits.columns[name]
        values.append([_said(value) for value in column.to_pylist()])
    rows = zip(*values, strict=True)
    about = {"version": past.version.number}
    if form.geojson:
        print_points(about, degrees_of(hits.positions, past.space, "append the rows with --crs"), header, rows)
    elif form.as_json:
        said = [dict(zip(header, row, strict=True)) for row in rows]
        print(json.dumps({**about, "hits": said}, default=str))
    else:
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)


def print_number(past: History, number: int, as_json: bool) -> None:
    """Print how many rows there are."""
    print(json.dumps({"version": past.version.number, "count": number}) if as_json else number)


def print_explained(facts: dict[str, Any], as_json: bool) -> None:
    """Print what a question has read: of each order what it would be, and what was read in the end."""
    if as_json:
        print(json.dumps(facts, default=str))
        return
    from pipelines.command.terminal.output import print_columns, print_table

    read, pruned = facts["read"], facts["pruned"]
    lines = [
        ("question", f"{facts['question']} of version {facts['version']}"),
        ("hits", "counted" if facts["hits"] is None else f"{facts['hits']:,}"),
        (
            "read",
            f"{read['bytes']:,} bytes in {read['ranges']:,} ranges: {read['blocks']:,} blocks, {read['rows']:,} rows",
        ),
        ("pruned", f"{max(pruned['blocks'], 0):,} of {pruned['of']:,} blocks"),
        ("time", f"{facts['milliseconds']:,} ms"),
        ("a request counts as", f"{facts.get('request_bytes', 0):,} bytes"),
    ]
    if "rounds" in facts:
        lines.append(("rounds", ", ".join(map(str, facts["rounds"]))))
    if facts.get("blocks_counted_unread"):
        lines.append(("counted unread", f"{facts['blocks_counted_unread']:,} blocks"))
    print_table(lines)
    header = ("order", "periods", "used", "blocks", "ranges", "bytes")
    table = [[name, *(f"{one[key]:,}" for key in header[1:])] for name, one in sorted(facts.get("orders", {}).items())]
    print_columns(header, table)


def _said(value: Any) -> Any:
    return value.isoformat() if hasattr(value, "isoformat") else value
