"""Folders that are tables: the rows that the library of the table reads, or one line that refuses."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dtoss.commits.offsets import Ledger
from dtoss.errors import InputError
from dtoss.rows.input_columns import Columns
from dtoss.snapshots.store_location import filesystem_of
from pipelines.loop.arriving import Patience, list_arrivals
from pipelines.rows.inputs import look
from pipelines.rows.read_files import read_positions
from tests.object_store import object_store

delta = pytest.importorskip("deltalake")


def rows(begin, end, **columns):
    ids = np.arange(begin, end)
    return pa.table({"id": ids, "lon": ids / 100.0, "lat": ids / 200.0, **columns})


def ids_in(inputs):
    return sorted(one for file in inputs.files for one in pq.ParquetFile(file).read()["id"].to_pylist())


def ids_of(table):
    return sorted(table.to_pyarrow_table()["id"].to_pylist())


def overwritten(folder):
    delta.write_deltalake(folder, rows(0, 50))
    delta.write_deltalake(folder, rows(70, 80), mode="overwrite")


def deleted(folder):
    delta.write_deltalake(folder, rows(0, 20))
    delta.write_deltalake(folder, rows(20, 40), mode="append")
    delta.DeltaTable(folder).delete("id < 5 or id = 33")


def updated(folder):
    delta.write_deltalake(folder, rows(0, 20))
    delta.DeltaTable(folder).update(updates={"id": "id + 100"}, predicate="id > 10")


def compacted(folder):
    for begin in range(0, 50, 10):
        delta.write_deltalake(folder, rows(begin, begin + 10), mode="append")
    delta.DeltaTable(folder).optimize.compact()


def restored(folder):
    overwritten(folder)
    delta.DeltaTable(folder).restore(0)


def checkpointed(folder):
    for begin in range(0, 50, 10):
        delta.write_deltalake(folder, rows(begin, begin + 10), mode="append")
    table = delta.DeltaTable(folder)
    table.delete("id < 15")
    table.create_checkpoint()
    table.cleanup_metadata()


def partitioned(folder):
    delta.write_deltalake(folder, rows(0, 9, day=["07", "a b", "c/d=%"] * 3), partition_by=["day"])
    delta.DeltaTable(folder).delete("id in (0, 4)")


@pytest.mark.parametrize(
    "made",
    [overwritten, deleted, updated, compacted, restored, checkpointed, partitioned],
    ids=lambda made: made.__name__,
)
@pytest.mark.parametrize("at", ["table", "folder", "glob"])
def test_a_delta_table_has_the_rows_that_deltalake_reads(tmp_path, made, at):
    """Named itself, below a folder, and by a glob of folders; files whose rows are gone are told as skipped."""
    folder = tmp_path / "in" / "t"
    made(str(folder))
    if made is partitioned and at == "folder":
        with pytest.raises(InputError, match="whose names are values of a column, and beside them t: name the folders"):
            look([str(tmp_path / "in")])
        return
    if made is partitioned and at == "glob":
        at = "table"
    inputs = look([{"table": str(folder), "folder": str(tmp_path / "in"), "glob": str(tmp_path / "in" / "*")}[at]])
    table = delta.DeltaTable(str(folder))
    assert ids_in(inputs) == ids_of(table)
    gone = {str(path) for path in folder.rglob("*.parquet") if "_delta_log" not in str(path)} - set(inputs.files)
    assert dict(inputs.skipped) == dict.fromkeys(gone, "its rows are gone from the Delta table")


def test_a_delta_table_on_an_object_store(tmp_path):
    """Its log is read there, by the endpoint that the URI names."""
    pytest.importorskip("moto")
    deleted(str(tmp_path / "t"))
    with object_store() as place:
        uri = place.uri()
        filesystem, root = filesystem_of(uri)
        for path in (tmp_path / "t").rglob("*"):
            if path.is_file():
                with filesystem.open_output_stream(f"{root}/in/t/{path.relative_to(tmp_path / 't')}") as stream:
                    stream.write(path.read_bytes())
        inputs = look([uri.replace("?", "/in?", 1)])
        found = [pq.read_table(file, filesystem=filesystem)["id"].to_pylist() for file in inputs.files]
        assert sorted(one for some in found for one in some) == ids_of(delta.DeltaTable(str(tmp_path / "t")))
        assert len(inputs.skipped) == 2


def test_partition_columns_have_the_types_of_the_table(session, tmp_path):
    """Text that looks like a number stays text, though Spark takes names of folders for numbers."""
    folder = str(tmp_path / "t")
    moment = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    whole = rows(0, 4, code=["007", "7", None, "1.0"], n=pa.array([1, 2, None, 4], pa.int64()))
    whole = whole.append_column("day", pa.array([date(2026, 1, 2)] * 4)).append_column("at", pa.array([moment] * 4))
    delta.write_deltalake(folder, whole, partition_by=["code", "n", "day", "at"])
    read = read_positions(session, look([folder]), Columns())
    found = read.frame.all_rows().table(read.frame.schema).sort_by("id")
    assert found["a:code"].to_pylist() == ["007", "7", None, "1.0"]
    assert found["a:n"].to_pylist() == [1, 2, None, 4]
    assert found["a:day"].to_pylist() == [date(2026, 1, 2)] * 4
    assert [one.astimezone(UTC) for one in found["a:at"].to_pylist()] == [moment] * 4


def altered_log(folder, **changes):
    """A table whose first commit says something else."""
    delta.write_deltalake(str(folder), rows(0, 5))
    log = folder / "_delta_log" / "00000000000000000000.json"
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    for line in lines:
        for kind, values in changes.items():
            if kind in line:
                line[kind] |= values
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))


def with_feature(name):
    return {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": [name], "writerFeatures": [name]}


def test_a_table_whose_files_alone_do_not_say_its_rows_is_refused(tmp_path):
    mapped = {"delta.columnMapping.id": 1, "delta.columnMapping.physicalName": "c1"}
    field = {"name": "id", "type": "long", "nullable": True, "metadata": mapped}
    described = {
        "configuration": {"delta.columnMapping.mode": "name"},
        "schemaString": json.dumps({"type": "struct", "fields": [field]}),
    }
    altered_log(tmp_path / "mapped", protocol=with_feature("columnMapping"), metaData=described)
    with pytest.raises(InputError, match="mapped is a Delta table with column mapping, so that its files alone do not"):
        look([str(tmp_path / "mapped")])
    vector = {"storageType": "p", "pathOrInlineDv": f"{tmp_path}/dv.bin", "offset": 1, "sizeInBytes": 36}
    added = {"deletionVector": vector | {"cardinality": 2}}
    altered_log(tmp_path / "marked", protocol=with_feature("deletionVectors"), add=added)
    with pytest.raises(InputError, match="marked is a Delta table with deletion vectors, so that its files alone"):
        look([str(tmp_path / "marked")])
    altered_log(tmp_path / "able", protocol=with_feature("deletionVectors"))
    assert ids_in(look([str(tmp_path / "able")])) == list(range(5)), "a table that might have some, and has none"
    delta.write_deltalake(str(tmp_path / "torn"), rows(0, 5))
    next((tmp_path / "torn").glob("*.parquet")).unlink()
    with pytest.raises(InputError, match=r"the Delta table .*torn names part-.*, which is not there"):
        look([str(tmp_path / "torn")])
    delta.write_deltalake(str(tmp_path / "broken"), rows(0, 5))
    next((tmp_path / "broken" / "_delta_log").iterdir()).write_text("no json\n")
    with pytest.raises(InputError, match="broken is a Delta table whose log cannot be read "):
        look([str(tmp_path / "broken")])
    (tmp_path / "h" / ".hoodie").mkdir(parents=True)
    (tmp_path / "h" / ".hoodie" / "hoodie.properties").write_text("")
    pq.write_table(rows(0, 5), tmp_path / "h" / "a.parquet")
    with pytest.raises(InputError, match="h is a Hudi table, which is not read: write its rows as Parquet"):
        look([str(tmp_path / "h")])


def test_a_part_of_a_table_is_refused(tmp_path):
    """A folder of a partition, and files by a glob; a file that is named whole is read, as who names it wants it."""
    partitioned(str(tmp_path / "t"))
    for part in ("t/day=07", "t/*/*.parquet"):
        with pytest.raises(InputError, match=r"is a part of the Delta table .*t, whose log says which files count"):
            look([str(tmp_path / part)])
    overwritten(str(tmp_path / "o"))
    with pytest.raises(InputError, match="is a part of the Delta table"):
        look([str(tmp_path / "o" / "*.parquet")])
    files = [str(path) for path in (tmp_path / "o").glob("*.parquet")]
    assert len(look(files).files) == 2


def test_files_of_a_table_are_not_followed(tmp_path):
    """What is compacted would count twice."""
    overwritten(str(tmp_path / "in" / "t"))
    for place in ("in", "in/t"):
        with pytest.raises(InputError, match=r"in/t is a Delta table, whose files are written anew .* read it whole"):
            list_arrivals(str(tmp_path / place), Ledger(), Patience(), print)


def test_a_folder_that_was_hidden_is_no_table(tmp_path):
    overwritten(str(tmp_path / "_old" / "t"))
    pq.write_table(rows(0, 3), tmp_path / "a.parquet")
    assert look([str(tmp_path)]).files == (str(tmp_path / "a.parquet"),)


def iceberg(folder, *numbers):
    (folder / "metadata").mkdir(parents=True)
    (folder / "data").mkdir()
    pq.write_table(rows(0, 5), folder / "data" / "a.parquet")
    for number in numbers:
        (folder / "metadata" / f"v{number}.metadata.json").write_text('{"format-version": 2}')


def test_an_iceberg_table_is_refused_in_one_line_where_it_cannot_be_read(tmp_path):
    iceberg(tmp_path / "in" / "t", 1, 2)
    with pytest.raises(
        InputError, match=r"in/t is an Iceberg table, and a catalog says .* such as .*v2\.metadata\.json"
    ):
        look([str(tmp_path / "in")])
    (tmp_path / "in" / "t" / "metadata" / "version-hint.text").write_text("2\n")
    for place in ("in", "in/t", "in/t/metadata/v2.metadata.json"):
        with pytest.raises(
            InputError, match=r"in/t is an Iceberg table(, whose files alone| that cannot be read)"
        ) as caught:
            look([str(tmp_path / place)])
        assert "\n" not in str(caught.value)
    with pytest.raises(InputError, match=r"in/t is an Iceberg table, whose files are written anew"):
        list_arrivals(str(tmp_path / "in"), Ledger(), Patience(), print)


def test_an_iceberg_table_has_the_rows_that_pyiceberg_reads(tmp_path):
    pytest.importorskip("pyiceberg")
    from pyiceberg.catalog.sql import SqlCatalog

    catalog = SqlCatalog("c", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}/w")
    catalog.create_namespace("n")
    table = catalog.create_table("n.t", schema=rows(0, 1).schema)
    table.append(rows(0, 10))
    table.append(rows(20, 25))
    table.delete("id < 3")
    metadata = table.metadata_location.removeprefix("file://")
    assert ids_in(look([metadata])) == sorted(table.scan().to_arrow()["id"].to_pylist())
    with table.update_schema() as update:
        update.rename_column("lon", "x")
    with pytest.raises(InputError, match="an Iceberg table whose columns were renamed or dropped, so that its files"):
        look([table.metadata_location.removeprefix("file://")])
