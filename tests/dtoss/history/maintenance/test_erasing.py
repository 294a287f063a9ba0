"""A person out of a history: rows of all versions, and bounds of blocks that were gone before."""

from __future__ import annotations

import numpy as np
import pytest

from dtoss.erasure.forgotten import Mentions
from dtoss.history.maintenance.erase_rows import ErasedPast, erase_past, forget, retain
from dtoss.history.maintenance.history_table import verify_history
from tests.dtoss.erasure.decoding import found_in
from tests.dtoss.history.worlds import new_home, put_batch, schema_of, table_of

WHO = {"string": "zoë-luise", "int64": 8_760_123_456_789}


def made(folder, kind):
    """A history of four batches of one block each, the first of which is of one person only."""
    home, schema = new_home(folder), schema_of(id_type=kind)
    for batch in range(4):
        who = WHO[kind] if batch == 0 else ("car" if kind == "string" else 7)
        put_batch(
            home, table_of(schema, [who] * 3, [batch * 10 + i for i in range(3)], [(1.0, 2.0)] * 3), schema, str(batch)
        )
    return home


def erased(home, kind, **more):
    return erase_past(home, [WHO[kind]], Mentions(frozenset([str(WHO[kind])])), **more)


@pytest.mark.parametrize("kind", WHO)
@pytest.mark.parametrize("before", ["nothing", "retain", "forget"])
def test_no_segment_keeps_the_bounds_of_blocks_that_are_gone(tmp_path, kind, before):
    home = made(tmp_path, kind)
    if before == "retain":
        second = int(np.unique(home.version().leaves.t_from)[1])
        assert retain(home, second).rows == 3
    elif before == "forget":
        assert forget(home, [WHO[kind]]).rows == 3
    assert found_in(tmp_path, [WHO[kind]])
    done = erased(home, kind)
    assert done.rows == (3 if before == "nothing" else 0)
    assert done.versions
    assert found_in(tmp_path, [WHO[kind]]) == []
    assert verify_history(home).damaged == []
    assert home.version().rows == 9


def test_nothing_changes_where_nothing_is_held(tmp_path):
    home = made(tmp_path, "int64")
    number = home.version().number
    assert erase_past(home, [5], Mentions(frozenset(["5"]))) == ErasedPast()
    assert home.version().number == number
    erased(home, "int64")
    number = home.version().number
    assert erased(home, "int64") == ErasedPast()
    assert home.version().number == number


def test_files_that_somebody_may_be_writing_are_named_and_stay(tmp_path):
    home = made(tmp_path, "int64")
    (tmp_path / "time" / "stray.parquet").write_bytes(b"PAR1")
    done = erased(home, "int64", dry=True)
    assert [name for name, _ in done.strays] == ["time/stray.parquet"]
    assert 3500 < done.strays[0][1] <= 3600
    assert erased(home, "int64").strays[0][0] == "time/stray.parquet"
    assert (tmp_path / "time" / "stray.parquet").exists()
