"""Files of SQL: where statements end, and what is said of one that is wrong."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dtoss.errors import InputError
from pipelines.sql.statements import statements_of

PIECES = [
    "SELECT 1", "SELECT ';' AS a", "select \";\", `x;y` from t", "SELECT /* ; */ 2", "SELECT 3 -- ; a comment\n",
    "SHOW TABLES LIKE 'a;b'", "SELECT 'it''s; so'", "SELECT 'a\\';'", "SELECT r'\\', ';'", "SET a.b = 'c;d'",
    "CREATE VIEW v AS\nSELECT * FROM dtoss_knn(TABLE(q), k => 8)",
]  # fmt: skip
BETWEEN = [";", " ; \n", ";;", ";\n-- one; more\n", ";/* ; */\n"]


@given(pieces=st.lists(st.tuples(st.sampled_from(PIECES), st.sampled_from(BETWEEN)), min_size=1), last=st.booleans())
def test_statements_are_found_as_they_were_written(pieces, last):
    """Whatever stands in them and between them; each with the line on which it begins."""
    text, wanted = "\n-- first;\n", []
    for place, (piece, between) in enumerate(pieces):
        wanted.append((piece.partition(" -- ")[0], text.count("\n") + 1))
        text += piece + ("" if last and place + 1 == len(pieces) else between)
    assert [(one.text, one.line) for one in statements_of(text)] == wanted


def test_a_script_is_one_statement():
    """From BEGIN on."""
    script = "BEGIN\n  DECLARE x INT = 1;\n  SELECT x;\nEND"
    assert [one.text for one in statements_of(f"SELECT 1;\n{script};")] == ["SELECT 1", f"{script};"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "a.sql holds no statement"),
        (" ;\n-- nothing;\n", "a.sql holds no statement"),
        ("SELECT 'a", "a.sql: a literal, a name or a comment does not end"),
    ],
)
def test_what_is_no_sql_is_one_line(text, said):
    """With the name of the file."""
    with pytest.raises(InputError) as raised:
        statements_of(text, "a.sql")
    assert str(raised.value).startswith(said)
    assert "\n" not in str(raised.value)
