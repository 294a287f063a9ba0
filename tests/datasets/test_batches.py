import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from datasets.tables.command import BadInput, expand
from datasets.tables.seeded_batches import BATCH_ROWS, spans, stream, write_parquet

SCHEMA = pa.schema([("id", pa.int64())])


def batch(start, stop):
    return pa.record_batch([np.arange(start, stop)], schema=SCHEMA)


def test_row_groups_do_not_depend_on_how_the_rows_arrive(tmp_path):
    rows = 2 * BATCH_ROWS + 5
    write_parquet([batch(0, rows)], SCHEMA, tmp_path / "one")
    small = [batch(start, min(start + 50_000, rows)) for start in range(0, rows, 50_000)]
    assert write_parquet(small, SCHEMA, tmp_path / "many") == rows
    assert (tmp_path / "one").read_bytes() == (tmp_path / "many").read_bytes()
    file = pq.ParquetFile(tmp_path / "one")
    groups = [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)]
    assert groups == [BATCH_ROWS, BATCH_ROWS, 5]
    assert file.read()["id"].to_numpy().tolist() == list(range(rows))


def test_no_rows_is_a_legal_file(tmp_path):
    assert write_parquet([], SCHEMA, tmp_path / "none") == 0
    assert pq.read_table(tmp_path / "none").schema == SCHEMA


def test_a_run_that_fails_leaves_the_old_file_and_no_other(tmp_path):
    write_parquet([batch(0, 3)], SCHEMA, tmp_path / "file")

    def breaks():
        yield batch(0, 1)
        raise RuntimeError("half way")

    with pytest.raises(RuntimeError, match="half way"):
        write_parquet(breaks(), SCHEMA, tmp_path / "file")
    assert pq.read_table(tmp_path / "file").num_rows == 3
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_streams_differ_by_seed_and_key_and_refuse_a_negative_seed():
    draws = {stream(*key).random() for key in [(0,), (1,), (0, 0), (0, 1), (1, 0), (0, 0, 0), (0, 1, 0)]}
    assert len(draws) == 7
    with pytest.raises(BadInput, match="seed is -1"):
        stream(-1)
    with pytest.raises(BadInput, match="rows is -5"):
        list(spans(-5))


def test_expand_takes_folders_and_names_what_is_missing(tmp_path):
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "2.plt").touch()
    (tmp_path / "1.plt").touch()
    assert expand([tmp_path], "*.plt") == [tmp_path / "1.plt", tmp_path / "b" / "2.plt"]
    assert expand([tmp_path / "1.plt"], "*.csv") == [tmp_path / "1.plt"]
    with pytest.raises(BadInput, match=r"holds no file like \*\.csv"):
        expand([tmp_path], "*.csv")
    with pytest.raises(BadInput, match="nothing does not exist"):
        expand([tmp_path / "nothing"], "*.csv")
