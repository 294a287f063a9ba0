"""What is at the paths that a user names, found before Spark starts: one line where it cannot be read."""

from __future__ import annotations

import gzip
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dtoss.errors import InputError
from pipelines.rows.inputs import look, look_in, some_of
from pipelines.rows.list_files import listing

TEXT = b"id,lon,lat\n1,2,3\n"


def put(folder, **files):
    """Files by their names, in which two underscores are a slash; tables as Parquet."""
    for name, content in files.items():
        path = folder / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, bytes):
            path.write_bytes(content)
        else:
            pq.write_table(pa.table(content), path)


def relative(folder, files):
    return [str(file).replace(str(folder) + "/", "") for file in files]


def test_directories_are_read_at_any_depth(tmp_path):
    """Files of no format are skipped and named, hidden ones too, Spark's own markers in silence."""
    put(tmp_path, **{"a.csv": TEXT, "b__c__d.csv.gz": gzip.compress(TEXT), "README.md": b"#", "_old__e.csv": TEXT})
    put(tmp_path, **{"_SUCCESS": b"", ".a.csv.crc": b"", "b__.hidden.csv": TEXT})
    found = look([str(tmp_path)])
    assert relative(tmp_path, found.files) == ["a.csv", "b/c/d.csv.gz"]
    assert [relative(tmp_path, [file])[0] for file, _ in found.skipped] == ["README.md", "_old/e.csv", "b/.hidden.csv"]
    assert found.paths == tuple(f"file://{file}" for file in found.files)
    assert look([str(tmp_path / "b" / "c")]).paths == (str(tmp_path / "b" / "c"),)


def test_folders_of_values_beside_files_of_no_format(tmp_path):
    """Spark is told the files, and whose folders are columns."""
    put(tmp_path, **{"day=1__a.csv": TEXT, "day=2__b.csv": TEXT})
    assert look([str(tmp_path)]).paths == (str(tmp_path),)
    put(tmp_path, **{"README.md": b"#"})
    found = look([str(tmp_path)])
    assert (relative(tmp_path, found.files), found.base) == (["day=1/a.csv", "day=2/b.csv"], str(tmp_path))


def test_globs_and_names_that_look_like_globs(tmp_path):
    """A glob matches as Hadoop's do; a name that is there is that name."""
    put(tmp_path, **{"a1.csv": TEXT, "a2.csv": TEXT, "b1.csv": TEXT, "a[1].csv": TEXT, "d__x1.csv": TEXT})

    def found(glob):
        return relative(tmp_path, look([str(tmp_path / glob)]).files)

    assert found("a?.csv") == found("a[0-9].csv") == found("a{1,2}.csv") == ["a1.csv", "a2.csv"]
    assert found("[!a]1.csv") == ["b1.csv"]
    assert found("{a1,d/x1}.csv") == ["a1.csv", "d/x1.csv"]
    assert found("*/x*.csv") == found("d*") == ["d/x1.csv"]
    (tmp_path / "a1.csv").unlink()
    assert look([str(tmp_path / "a[1].csv")]).paths == (f"file://{tmp_path}/a\\[1\\].csv",)


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({}, "nothing is at"),
        ({"_a.csv": TEXT}, "nothing is at .*, only hidden files such as .*_a.csv"),
        ({"a.zip": b"PK\x03\x04"}, r"a.zip is packed \(zip\): Parquet, GeoParquet, CSV, .* are read.*unpack it first"),
        ({"a.csv.zst": b"\x28\xb5\x2f\xfd"}, "a.csv.zst cannot be read: Truncated"),
        ({"a.geojson": b"{}"}, "a.geojson, line 1 is no feature: .* is wanted"),
        ({"a.json": b'{"type": "FeatureCollection", "features": []}'}, "a.json is GeoJSON: call it so"),
        ({"a.xlsx": b"12345"}, "a.xlsx ends in .xlsx: .* are read"),
        ({"a": TEXT}, "a has no ending that says its format: .* are read"),
        ({"a.csv": b"PK\x03\x04"}, "a.csv is zip inside"),
        ({"a.csv": gzip.compress(TEXT, mtime=0)}, "a.csv is gzip inside"),
        ({"a.csv.gz": TEXT}, "a.csv.gz cannot be read"),
        ({"a.csv": TEXT, "b.parquet": {"id": [1]}}, "several formats are mixed in .*a.csv.*b.parquet.*\\*.csv"),
        ({"a.csv": TEXT.decode().encode("utf-16-le")}, "a.csv is full of zero bytes: .*--encoding utf-16-le"),
        ({"a.csv": TEXT, "b.csv": TEXT.decode().encode("utf-16")}, "a.csv and .*b.csv are of different encodings"),
        ({"a.json": '{"id": 1}\n'.encode("utf-16")}, "a.json is UTF-16: JSON lines are read in UTF-8"),
        ({"day=1__a.csv": TEXT, "b__a.csv": TEXT}, "folders such as day=1, .* beside them b: name the folders"),
        ({"day=1__a.csv": TEXT, "a.csv": TEXT}, "folders such as day=1, .* beside them files: name the folders"),
        ({"a.parquet": b"PAR1 and no more"}, "a.parquet cannot be read as parquet"),
        (
            {"a.parquet": {"v": pa.array([Decimal(1)], pa.decimal256(40, 5))}},
            r"a.parquet is decimal256\(40, 5\)",
        ),
        (
            {"a.parquet": {"id": [1]}, "b.parquet": {"ID": ["x"]}},
            "column 'ID' is int64 in .*a.parquet and string in .*b.parquet",
        ),
        (
            {"a.parquet": {"s": [{"v": 1}]}, "b.parquet": {"s": [{"v": 1.5}]}},
            "column 's' is struct<v: int64> in .*a.parquet and struct<v: double> in",
        ),
    ],
)
def test_what_cannot_be_read_is_one_line(tmp_path, files, words):
    """It names the file and what is read."""
    put(tmp_path, **files)
    with pytest.raises(InputError, match=words) as error:
        look([str(tmp_path)])
    assert "\n" not in str(error.value)


def test_columns_of_parquet_are_the_union_whatever_the_order_of_files(tmp_path):
    """Types that Parquet writes alike are the same; strict wants all columns in each file."""
    put(tmp_path, **{"a.parquet": {"id": [1], "b": ["x"]}, "c.parquet": {"id": [2], "d": [1.5]}})
    put(tmp_path, **{"e.parquet": {"b": pa.array(["y"]).dictionary_encode(), "id": [3]}})
    found = look([str(tmp_path)])
    assert (found.schema.names, found.differ) == (["id", "b", "d"], True)
    with pytest.raises(InputError, match=r"a.parquet has no column d, which other files have \(--schema strict\)"):
        look([str(tmp_path)], schema="strict")
    same = look([str(tmp_path / "a.parquet"), str(tmp_path / "e.parquet")], schema="strict")
    assert (same.schema.names, same.differ) == (["id", "b"], False)
    with pytest.raises(ValueError, match="schema is 'any': union or strict"):
        look([str(tmp_path)], schema="any")


def test_bytes_of_files_are_those_of_the_listing(tmp_path):
    """In their order, through all that chooses among files; no file is asked for its size again."""
    for name, rows in {"c.csv": 3, "a.csv": 1, "b.txt": 0, "d.csv": 7}.items():
        (tmp_path / name).write_text("id,lon,lat\n" + "1,2,3\n" * rows)
    (tmp_path / "b.txt").rename(tmp_path / "b.odd")
    found = look([str(tmp_path)])
    assert found.sizes == (17, 29, 53)
    assert look([str(tmp_path / "d.csv"), str(tmp_path / "a.csv")]).sizes == (53, 17)
    assert some_of(found, [2, 0]).sizes == (53, 17)
    where = listing(str(tmp_path))
    assert look_in(where, [where.files[3], where.files[2]], "csv").sizes == (53, 29)


def test_where_only_spark_can_look(monkeypatch):
    """Schemes that pyarrow does not reach, and paths of a cluster's own file system, are left to Spark."""
    assert look(["s3a://bucket/positions.csv"]).kind == "csv"
    assert look(["s3n://bucket/positions"]).paths == ("s3n://bucket/positions",)
    monkeypatch.setenv("HADOOP_CONF_DIR", "/etc/hadoop")
    assert look(["/not/on/this/machine.json"]).kind == "json"


def test_no_file_is_read_here_where_only_spark_reaches_another(monkeypatch, tmp_path):
    """All of them are Spark's then: none may be left out."""
    monkeypatch.setenv("HADOOP_CONF_DIR", "/nowhere")
    (tmp_path / "a.csv").write_text("id,lon,lat\n1,2,3\n")
    found = look([str(tmp_path / "a.csv"), str(tmp_path / "none.csv")])
    assert (found.files, found.places, found.sizes) == ((), (), ())
    assert found.paths == (str(tmp_path / "a.csv"), str(tmp_path / "none.csv"))
