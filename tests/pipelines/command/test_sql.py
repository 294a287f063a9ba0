"""``dtoss sql``: files of SQL over a store, their last result, and errors in one line."""

from __future__ import annotations

import json

import pyarrow.parquet as pq
import pytest

from dtoss.snapshots.store import Store
from tests.pipelines.sql.stores import rows_of, store_of

N = 60
PLACES = "VALUES (1, 3.5, 50.0), (2, -100.25, -20.0) AS t(id, lon, lat)"


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """An index and its store."""
    return store_of(tmp_path_factory.mktemp("sql") / "store", N, 2)


@pytest.fixture
def sql(spark, store, tmp_path, command):
    """Run a text as a file; return (code, stdout, stderr). Views are gone afterwards."""
    path = tmp_path / "asked.sql"

    def run(text, *options, at=store[1]):
        path.write_text(text, encoding="utf-8")
        code, out, err = command("sql", path, "--store", at, *options)
        return code, out, err.replace(str(path), "asked.sql")

    yield run
    for view in ("asked_places", "dtoss", "taxis", "one"):
        spark.catalog.dropTempView(view)


def test_the_last_result_is_printed(sql, store):
    """Of several statements, with semicolons where they do not end one; as CSV, and as JSON with the snapshot."""
    index, path = store
    text = (
        f"-- places; first\nCREATE TEMPORARY VIEW asked_places AS SELECT * FROM {PLACES};\nSELECT 'not this; one';\n"
        "SELECT p.id AS place, h.id, distance, h.lon, ';' AS mark FROM dtoss_knn(TABLE(asked_places), k => 2) h\n"
        "JOIN asked_places p ON p.id = query_id ORDER BY place, rank;\n"
    )
    hits = index.knn([[3.5, 50.0], [-100.25, -20.0]], k=2, columns=["lon"])
    wanted = [
        (q + 1, one, far, lon, ";") for (q, one, far), lon in zip(hits, hits.columns["lon"].to_pylist(), strict=True)
    ]
    code, out, err = sql(text, "--columns", "lon")
    assert (code, err) == (0, "")
    assert out.splitlines() == ["place,id,distance,lon,mark", *(",".join(map(str, row)) for row in wanted)]
    code, out, _ = sql(text.replace("TEMPORARY", "OR REPLACE TEMPORARY"), "--columns", "lon", "--json", "--limit", "3")
    said = json.loads(out)
    assert said["snapshot"] == Store(path).current()
    assert [tuple(row.values()) for row in said["rows"]] == wanted[:3]


def test_the_last_result_is_written(sql, store, tmp_path):
    """All of the table, under another name."""
    out = tmp_path / "all.parquet"
    code, said, err = sql("SELECT * FROM taxis ORDER BY id", "--name", "taxis", "--out", str(out))
    assert (code, said, err) == (0, "", f"{N} rows in {out}\n")
    assert pq.read_table(out)["id"].to_pylist() == [row["id"] for row in rows_of(store[0])]


def test_a_statement_without_a_result_prints_nothing(sql):
    """And texts as ids are said by an option; what is on stdin is run too."""
    assert sql("CREATE OR REPLACE TEMPORARY VIEW one AS SELECT 1 AS a") == (0, "", "")
    text = "SELECT query_id FROM dtoss_knn(TABLE(SELECT 'here' AS id, 1.0 AS lon, 2.0 AS lat))"
    assert sql(text, "--query-id", "string") == (0, "query_id\nhere\n", "")


def test_a_file_may_come_on_stdin(spark, store, command):
    """As ``-``."""
    ran = command("sql", "-", "--store", store[1], stdin="SELECT count(*) AS n FROM dtoss")
    assert ran[:2] == (0, f"n\n{N}\n")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("SELECT 1;\n\nSELECT nix FROM dtoss", "asked.sql, line 3: A column, variable, or function parameter with "),
        ("SELECT * FROM nix", "asked.sql, line 1: The table or view `nix` cannot be found."),
        ("SELEC 1", "asked.sql, line 1: Syntax error at or near 'SELEC'"),
        ("SELECT 1 / 0", "asked.sql, line 1: Division by zero."),
        ("\nSELECT 'a", "asked.sql: a literal, a name or a comment does not end"),
        ("-- nothing", "asked.sql holds no statement"),
        (f"SELECT * FROM dtoss_knn(TABLE(SELECT * FROM {PLACES}), k => 0)",
         "asked.sql, line 1: k is 0: a whole number of at least 1 is wanted"),
        (f"SELECT * FROM dtoss_range(TABLE(SELECT * FROM {PLACES}), radius => 1, where => 'nix = 1')",
         "asked.sql, line 1: where 'nix = 1': column 'nix' is not carried by the objects"),
        ("CREATE TEMPORARY VIEW v USING dtoss OPTIONS (path '/nix')", "asked.sql, line 1: /nix is not a store"),
        ("CREATE TEMPORARY VIEW v USING dtoss OPTIONS (path '/nix', snapshots 'a')",
         "asked.sql, line 1: option 'snapshots' is not known"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_sql_is_one_line(sql, text, said):
    """With the line of the statement, without a page of Java's; exit code 2."""
    code, out, err = sql(text)
    assert (code, out) == (2, "")
    assert err.startswith(f"error: {said}")
    assert err.count("\n") == 1
    assert "Traceback" not in err
    assert "SQLSTATE" not in err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--columns", "nix"], "error: column 'nix' is not carried by the objects; they carry lon, lat, "),
        (["--query-id", "int"], "error: query_id is 'int': bigint or string is wanted"),
        (["--name", "a b"], "error: name is 'a b': letters, digits and underscores are wanted"),
        (["--out", "all.txt"], "error: --out all.txt ends in .txt: .parquet, .csv or .jsonl is wanted"),
        (["--limit", "0"], "error: --limit is 0: a whole number of at least 1 is wanted"),
        (["--snapshot", "nix"], "error: "),
    ],
)
def test_what_is_wrong_with_options_is_one_line(sql, options, said):
    """Before anything is run."""
    code, out, err = sql("SELECT 1", *options)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith(said)


def test_a_store_or_a_file_that_is_missing(sql, command, tmp_path, store):
    """Is named."""
    code, _, err = sql("SELECT 1", at=str(tmp_path / "nix"))
    assert (code, "is not a store" in err) == (2, True)
    assert f"{tmp_path / 'nix.sql'} cannot be read" in command.fails("sql", tmp_path / "nix.sql", "--store", store[1])
