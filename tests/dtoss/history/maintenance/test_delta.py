"""A history as a Delta table: what others read of it are its rows, of the version that was exported last."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from dtoss.errors import InputError, StoreError
from dtoss.history.maintenance.delta import export_delta
from dtoss.history.maintenance.erase_rows import forget
from dtoss.history.maintenance.history_table import clear
from tests.disks import without_links
from tests.dtoss.history.worlds import PLANE, new_home, put_batch, schema_of, table_of

deltalake = pytest.importorskip("deltalake")
SCHEMA = schema_of(PLANE, id_type="string")


def rows_of_table(folder):
    """What deltalake reads, as (id, t, x, y), sorted."""
    table = deltalake.DeltaTable(str(folder)).to_pyarrow_table()
    points = table.column("geometry").to_pylist()
    values = zip(table.column("id").to_pylist(), table.column("t").to_pylist(), points, strict=True)
    return sorted((one, t.timestamp(), point["x"], point["y"]) for one, t, point in values)


def rows_said(*tables):
    found = []
    for table in tables:
        t = [one.timestamp() for one in table.column("t").to_pylist()]
        found += zip(
            *(table.column(name).to_pylist() if name != "t" else t for name in ("id", "t", "x", "y")), strict=True
        )
    return sorted(found)


def some(ids, at, schema=SCHEMA, **attributes):
    return table_of(schema, ids, [at] * len(ids), np.arange(2.0 * len(ids)).reshape(-1, 2), **attributes)


@pytest.fixture
def home(tmp_path):
    return new_home(tmp_path / "h")


def test_a_table_elsewhere_has_the_rows_and_none_of_the_bytes(home, tmp_path):
    """Its files are those of the history under other names; what another tool reads of the log are its files."""
    duckdb = pytest.importorskip("duckdb")
    first = some(["a", "b"], 1)
    put_batch(home, first, SCHEMA, "1")
    done = export_delta(home, str(tmp_path / "delta"))
    assert (done.version, done.table_version, done.added, done.removed, done.rows) == (1, 0, 1, 0, 2)
    assert rows_of_table(tmp_path / "delta") == rows_said(first)
    (linked,) = (tmp_path / "delta").glob("*.parquet")
    assert linked.stat().st_ino == next((tmp_path / "h/time").glob("*.parquet")).stat().st_ino
    uris = deltalake.DeltaTable(str(tmp_path / "delta")).file_uris()
    found = duckdb.sql(f"SELECT id, geometry.x, geometry.y FROM read_parquet({uris!r}) ORDER BY id").fetchall()
    assert found == [("a", 0.0, 1.0), ("b", 2.0, 3.0)]


def test_an_export_is_brought_up_to_date(home, tmp_path):
    """New files come, forgotten ones go, from the folder too; again without a change it commits nothing."""
    put_batch(home, some(["a", "b"], 1), SCHEMA, "1")
    export_delta(home, str(tmp_path / "delta"))
    put_batch(home, second := some(["b", "c"], 2), SCHEMA, "2")
    assert export_delta(home, str(tmp_path / "delta")).added == 1
    forget(home, ["a"])
    clear(home, now=True)
    left = some(["a", "b"], 1).slice(1)
    assert len(rows_of_table(tmp_path / "delta")) == 4, "a table stays what it was until it is exported again"
    done = export_delta(home, str(tmp_path / "delta"))
    assert (done.added, done.removed, done.table_version) == (1, 1, 2)
    assert rows_of_table(tmp_path / "delta") == rows_said(left, second)
    assert len(list((tmp_path / "delta").glob("*.parquet"))) == 2
    done = export_delta(home, str(tmp_path / "delta"))
    assert (done.added, done.removed, done.table_version) == (0, 0, 2)


def test_a_file_that_was_made_again_is_linked_again(home, tmp_path):
    """The second name of one that was damaged, and then restored under its name, leads to the whole one."""
    put_batch(home, first := some(["a"], 1), SCHEMA, "1")
    export_delta(home, str(tmp_path / "delta"))
    path = next((tmp_path / "h/time").glob("*.parquet"))
    whole = path.read_bytes()
    path.write_bytes(b"damaged")
    path.unlink()
    path.write_bytes(whole)
    export_delta(home, str(tmp_path / "delta"))
    assert rows_of_table(tmp_path / "delta") == rows_said(first)


def test_older_versions_and_the_folder_of_the_history(home):
    """A log in the history itself names its files; it goes back, too."""
    put_batch(home, first := some(["a"], 1), SCHEMA, "1")
    put_batch(home, second := some(["b"], 2), SCHEMA, "2")
    export_delta(home, home.path)
    assert rows_of_table(home.path) == rows_said(first, second)
    done = export_delta(home, home.path, number=1)
    assert (done.version, done.added, done.removed) == (1, 0, 1)
    assert rows_of_table(home.path) == rows_said(first)


def test_columns_that_came_later_are_null_before(home, tmp_path):
    """Types that Delta lacks become larger ones, or are refused by name."""
    wide = schema_of(PLANE, id_type="string", speed=pa.uint16(), name=pa.large_string())
    put_batch(home, some(["a"], 1), SCHEMA, "1")
    export_delta(home, str(tmp_path / "delta"))
    put_batch(home, some(["b"], 2, wide, speed=[65_535], name=["x"]), wide, "2")
    export_delta(home, str(tmp_path / "delta"))
    table = deltalake.DeltaTable(str(tmp_path / "delta")).to_pyarrow_table().sort_by("id")
    assert table.column("speed").to_pylist() == [None, 65_535]
    assert table.column("name").to_pylist() == [None, "x"]
    big = schema_of(PLANE, id_type="string", much=pa.uint64())
    put_batch(home, some(["c"], 3, big, much=[1]), big, "3")
    with pytest.raises(InputError, match="column 'much' is uint64, which Delta lacks"):
        export_delta(home, str(tmp_path / "delta"))


def test_what_cannot_be_exported_is_a_line(home, tmp_path, monkeypatch):
    """No history, an object store, another disk, a table of something else."""
    with pytest.raises(StoreError, match="is no history"):
        export_delta(home, str(tmp_path / "delta"))
    put_batch(home, some(["a"], 1), SCHEMA, "1")
    with pytest.raises(InputError, match="have to be on one local disk"):
        export_delta(home, "s3://bucket/delta")
    deltalake.write_deltalake(str(tmp_path / "other"), pa.table({"z": [1]}))
    with pytest.raises(InputError, match="Delta table of other columns"):
        export_delta(home, str(tmp_path / "other"))
    assert not list((tmp_path / "other").glob("rows-*"))
    without_links(monkeypatch, 18, "Invalid cross-device link")
    with pytest.raises(InputError, match="on the same disk"):
        export_delta(home, str(tmp_path / "delta"))
    assert not list(Path(tmp_path / "delta").glob("*.parquet"))
