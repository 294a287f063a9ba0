"""What holds for every generator: the same bytes twice, and batches that stand alone."""

import numpy as np
import pyarrow as pa
import pytest

from datasets.degenerate import PLANE, SPHERE, degenerate
from datasets.tables.seeded_batches import BATCH_ROWS, write_parquet
from tests.datasets.scenes import GENERATORS


def table(batches):
    return pa.Table.from_batches(batches)


@pytest.mark.parametrize("name", GENERATORS)
def test_two_runs_give_the_same_bytes_and_another_seed_others(name, tmp_path):
    generate = GENERATORS[name]
    files = [tmp_path / "first", tmp_path / "second", tmp_path / "other seed"]
    for path, seed in zip(files, (3, 3, 4), strict=True):
        batches = list(generate(2_000, seed))
        write_parquet(batches, batches[0].schema, path)
    assert files[0].read_bytes() == files[1].read_bytes()
    assert files[0].read_bytes() != files[2].read_bytes()


@pytest.mark.parametrize("name", GENERATORS)
def test_fewer_rows_are_the_first_of_more(name):
    generate = GENERATORS[name]
    long = table(generate(BATCH_ROWS + 1_000))
    for rows in (1, 999, BATCH_ROWS, BATCH_ROWS + 1):
        assert table(generate(rows)).equals(long.slice(0, rows)), rows
    assert long["id"].to_numpy().tolist() == list(range(BATCH_ROWS + 1_000))
    assert list(generate(0)) == []


@pytest.mark.parametrize("name", GENERATORS)
def test_no_batch_is_larger_than_a_row_group_and_none_is_like_another(name):
    batches = list(GENERATORS[name](2 * BATCH_ROWS + 7))
    assert [batch.num_rows for batch in batches] == [BATCH_ROWS, BATCH_ROWS, 7]
    first, second = (np.column_stack(batch.columns[-2:]) for batch in batches[:2])
    assert not np.array_equal(first, second)


@pytest.mark.parametrize(("metric", "kinds"), [("plane", PLANE), ("sphere", SPHERE)])
def test_every_degenerate_kind_is_finite_legal_and_repeatable(metric, kinds):
    for kind in kinds:
        for rows in (0, 1, 2, 3, 1_000):
            got = [batch.to_pydict() for batch in degenerate(kind, rows, 1, metric)]
            assert got == [batch.to_pydict() for batch in degenerate(kind, rows, 1, metric)]
            assert sum(len(batch["id"]) for batch in got) == rows
            if not rows:
                continue
            x, y = (np.array(values) for name, values in got[0].items() if name != "id")
            assert np.isfinite(x).all()
            assert np.isfinite(y).all()
            if metric == "sphere":
                assert np.abs(x).max() <= 180
                assert np.abs(y).max() <= 90
