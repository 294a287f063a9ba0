"""Small tables of HTML, as notebooks show an object: no script, no colour of their own, every value as text.

What a notebook shows of an index.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from itertools import islice
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

ROWS_SHOWN = 10
"""Rows of a table that are shown, the first ones."""
COLUMNS_SHOWN = 20
"""Columns that are shown, the first ones."""
LONGEST_CELL = 80
"""Characters of a value that are shown, half of them from its end."""
_LEFT = ' style="text-align: left"'


def facts_html(title: str, facts: Iterable[tuple[str, Any]]) -> str:
    """Return a table of two columns, what each fact is called and what it is, below a title.

    Examples
    --------
    >>> facts_html("A <title>", [("objects", "1,000")])
    '<table><caption style="text-align: left">A &lt;title&gt;</caption><tbody><tr><th scope="row" \
style="text-align: left">objects</th><td style="text-align: left">1,000</td></tr></tbody></table>'
    """
    rows = "".join(
        f'<tr><th scope="row"{_LEFT}>{_cell(name)}</th><td{_LEFT}>{_cell(value)}</td></tr>' for name, value in facts
    )
    return f"<table>{_caption(title)}<tbody>{rows}</tbody></table>"


def how_many(count: int, what: str) -> str:
    """Return a number and its noun, in the singular for 1.

    Examples
    --------
    >>> how_many(1, "place"), how_many(1_200, "hit")
    ('1 place', '1,200 hits')
    """
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def rows_html(what: str, first: pa.Table, count: int) -> str:
    """Return a table of rows below a line that says how many there are.

    ``first``: the first rows; at most :data:`ROWS_SHOWN` of them, and :data:`COLUMNS_SHOWN` of its columns, are shown.
    """
    said = [how_many(count, what)]
    shown = first.slice(0, ROWS_SHOWN)
    if count > len(shown):
        said.append(f"the first {len(shown)}")
    names = shown.column_names[:COLUMNS_SHOWN]
    if len(shown.column_names) > COLUMNS_SHOWN:
        said.append(f"the first {COLUMNS_SHOWN} of {len(shown.column_names):,} columns")
    columns = [shown.column(place).to_pylist() for place in range(len(names))]
    head = "".join(f'<th scope="col">{_cell(name)}</th>' for name in names)
    body = "".join(
        "<tr>" + "".join(f"<td>{_cell(value)}</td>" for value in row) + "</tr>" for row in zip(*columns, strict=True)
    )
    return f"<table>{_caption('; '.join(said))}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _caption(title: str) -> str:
    return f"<caption{_LEFT}>{escape(title)}</caption>"


def _cell(value: Any) -> str:
    return escape(_shortened(_text(value)))


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        # three digits behind the point, as a distance in metres has; where those say nothing, six that count
        return f"{value:.3f}" if value == 0 or 1e-2 <= abs(value) < 1e15 else f"{value:.6g}"
    if isinstance(value, (list, tuple)):
        return ", ".join(map(_text, islice(value, LONGEST_CELL)))
    return str(value)


def _shortened(text: str) -> str:
    half = LONGEST_CELL // 2
    return text if len(text) <= LONGEST_CELL else f"{text[:half]}…{text[-half + 1 :]}"


def index_html(index: Any) -> str:
    """Return the main facts of an index as a small table of HTML."""
    space, bounds = index.space, index.bounds
    compared = "on the sphere, in metres" if space.metric == "sphere" else "in the plane, in CRS units"
    facts = [
        ("objects", f"{len(index):,} at {how_many(index.sites, 'place')}"),
        ("partitions", f"{len(index.parts):,}"),
        ("crs", index.crs),
        ("distances", compared),
        ("ids", "text" if index.string_ids else "whole numbers"),
        ("columns", index.column_names or "none"),
    ]
    if bounds is not None:
        facts.append(("bounds of cells", [f"{value:.10g}" for value in bounds]))
    if index.snapshot:
        facts.append(("snapshot", index.snapshot))
    return facts_html("dtoss.Index", facts)
