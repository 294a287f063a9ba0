"""What notebooks show: small tables of text, whatever ids and columns are called, of no rows or a million."""

from __future__ import annotations

import json
import pickle
from html.parser import HTMLParser

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dtoss
from dtoss.hits import Hits
from dtoss.html_table import COLUMNS_SHOWN, LONGEST_CELL, ROWS_SHOWN, facts_html, rows_html
from dtoss.snapshots.manifest_fields import Manifest
from dtoss.snapshots.store import Store
from tests.dtoss.snapshots.small_stores import commit
from tests.examples import examples
from tests.shown_html import html_of

HOSTILE = "</td></table><script>alert('1')</script><img src=x onerror=\"alert(2)\">&amp;"
TAGS = {"table", "caption", "thead", "tbody", "tr", "th", "td"}


class Reader(HTMLParser):
    """What a browser finds: rows of cells, and whatever tags and attributes there are."""

    def __init__(self, page):
        super().__init__(convert_charrefs=True)
        self.tags, self.attributes, self.rows, self.caption, self.open = set(), set(), [], "", []
        self.feed(page)
        self.close()
        assert not self.open, "every tag is closed"

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)
        self.attributes |= set(attributes)
        self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("th", "td"):
            self.rows[-1].append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open[-1] == "caption":
            self.caption += data
        else:
            self.rows[-1][-1] += data


def read(shown):
    """The table that something is shown as; nothing in it runs, and nothing has a colour."""
    found = Reader(html_of(shown) if hasattr(shown, "_repr_html_") else shown)
    assert found.tags <= TAGS
    plain = {("style", "text-align: left"), ("scope", "row"), ("scope", "col")}
    assert found.attributes <= plain, "no colours, no scripts, no links"
    return found


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.text(max_size=120), max_size=14), st.text(min_size=1, max_size=99))
def test_values_stay_text(values, name):
    """A cell holds what the value says, shortened in its middle, and there are as many rows as may be shown."""
    table = pa.table({name: pa.array(values, pa.string())})
    found = read(rows_html("row", table, len(values)))
    head, *rows = found.rows
    assert len(rows) == min(len(values), ROWS_SHOWN)
    for text, (cell,) in zip([name, *values], [head, *rows], strict=False):
        text = text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in cell or "\r" in text else text
        if len(text) <= LONGEST_CELL:
            assert cell.replace("\r\n", "\n").replace("\r", "\n") == text
        else:
            assert len(cell) == LONGEST_CELL
            assert cell.partition("…")[0] == text[: LONGEST_CELL // 2] or "…" in text


def test_hits_of_a_million_rows_show_the_first():
    """And how many there are; their table is as small as that of twenty hits."""
    n = 1_000_000
    hits = Hits(np.zeros(n, np.int64), np.arange(n), np.linspace(0, 5, n), {"kind": pa.array(["van"] * n)})
    found = read(hits)
    assert found.caption == "1,000,000 hits; the first 10"
    assert found.rows[0][-1] == "kind"
    assert [row[1] for row in found.rows[1:]] == [str(i) for i in range(10)]
    assert len(html_of(hits)) < 2_000


def test_hits_of_hostile_ids_and_columns():
    """One object whose id, column and value would each like to be more than text; none at all."""
    index = dtoss.build([HOSTILE], [[3.0, 4.0]], columns={HOSTILE + "c": [HOSTILE], "none": pa.array([None], "int8")})
    hits = index.knn([3.0, 4.0], columns=index.column_names)
    head, row = read(hits).rows
    assert head[-2].startswith(HOSTILE[:40])
    assert row[1].startswith(HOSTILE[:40])
    assert row[-2].startswith(HOSTILE[:40])
    assert row[-1] == ""
    assert read(hits).caption == "1 hit"
    nothing = read(hits[:0])
    assert nothing.caption == "0 hits"
    assert len(nothing.rows) == 1
    assert ["columns", f"{HOSTILE[:40]}…, none"] == [
        cell.partition("…")[0] + "…, none" if "…" in cell else cell for cell in read(index).rows[5]
    ]


def test_many_columns_are_counted():
    """The first twenty of a hundred."""
    table = pa.table({f"c{i}": [i] for i in range(100)})
    found = read(rows_html("row", table, 1))
    assert len(found.rows[0]) == COLUMNS_SHOWN
    assert found.caption == "1 row; the first 20 of 100 columns"


@pytest.mark.parametrize(
    ("value", "said"),
    [(1234.5678, "1234.568"), (0.0, "0.000"), (3e-9, "3e-09"), (float("nan"), "nan"), (True, "true"), ([1, 2], "1, 2")],
)
def test_values_as_people_write_them(value, said):
    assert read(facts_html("facts", [("it", value)])).rows == [["it", said]]


def test_an_index_says_what_it_holds():
    """In the plane with its bounds, without any object, with text as ids."""
    index = dtoss.build(["a", "b"], [[0.0, 0.0], [0.0, 0.0]], metric="plane", bounds=[-1, -1, 1, 1])
    facts = dict(read(index).rows)
    assert facts["objects"] == "2 at 1 place"
    assert facts["ids"] == "text"
    assert facts["bounds of cells"] == "-1, -1, 1, 1"
    assert facts["columns"] == "none"
    assert dict(read(dtoss.build([], np.zeros((0, 2)))).rows)["objects"] == "0 at 0 places"


def test_a_manifest_is_a_dictionary_that_shows_its_facts(tmp_path):
    """It is written, compared and pickled as any; the table counts what the dictionary lists."""
    store = Store(str(tmp_path))
    commit(store, 1)
    manifest = store.manifest()
    assert isinstance(manifest, Manifest)
    assert json.loads(json.dumps(manifest)) == manifest == pickle.loads(pickle.dumps(manifest))
    found = read(manifest)
    assert found.caption == f"snapshot {store.current()}"
    facts = dict(found.rows)
    assert facts["objects"].startswith(f"{manifest['objects']:,} at ")
    assert facts["partitions"].startswith(f"{len(manifest['partitions'])}, with ")
    assert len(html_of(manifest)) < 3_000
    hostile = Manifest(manifest | {"columns": {HOSTILE: "int"}, "crs": HOSTILE})
    assert dict(read(hostile).rows)["crs"].startswith(HOSTILE[:40])
