"""Files that arrive below a prefix of an object store."""

from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dtoss.commits.offsets import Ledger
from dtoss.snapshots.store_location import filesystem_of
from pipelines.loop.arriving import Patience, list_arrivals
from pipelines.loop.disposal import Disposal, dispose
from pipelines.rows.list_files import listing
from tests.object_store import object_store
from tests.pipelines.loop.test_disposal import Kept


@pytest.fixture(scope="module")
def bucket():
    pytest.importorskip("moto")
    with object_store() as place:
        yield place


def put(uri, name, data=None):
    filesystem, root = filesystem_of(uri)
    if data is None:
        sink = io.BytesIO()
        pq.write_table(pa.table({"id": [1], "lon": [2.0], "lat": [3.0], "t": [4]}), sink)
        data = sink.getvalue()
    with filesystem.open_output_stream(f"{root}/{name}") as stream:
        stream.write(data)
    return f"{root}/{name}", len(data)


def below(uri):
    root = filesystem_of(uri)[1]
    return sorted(file.removeprefix(f"{root}/") for file in listing(uri).files)


def look(uri, ledger, told):
    return list_arrivals(uri, ledger, Patience(), told.append)


def test_files_below_a_prefix(bucket):
    """Nothing is there at first; hidden and unfinished ones are not read; what was read goes or moves."""
    uri, told = bucket.uri(), []
    assert look(uri, Ledger(), told).fresh == {}
    files = dict([put(uri, "a.parquet"), put(uri, "deep/b.parquet")])
    put(uri, "_c.parquet")
    put(uri, ".deep/d.parquet")
    put(uri, "e.parquet", b"PAR1 cut off")
    found = look(uri, Ledger(), told)
    assert found.fresh == files
    assert [name.rpartition("/")[2] for name in found.waiting] == ["e.parquet"]
    assert found.inputs().files == tuple(sorted(files))
    assert found.inputs().paths == tuple(f"s3://{name}" for name in sorted(files))
    assert found.inputs().schema.names == ["id", "lon", "lat", "t"]
    assert found.gone() == []
    ledger = found.read(Ledger())
    assert look(uri, ledger, told).fresh == {}
    read = bucket.uri()
    put(read, "a.parquet", b"another")
    assert dispose(Disposal(read), Kept(one=files), found.where, told.append) == 2
    assert below(uri) == ["e.parquet"]
    assert below(read) == ["a-1.parquet", "a.parquet", "deep/b.parquet"]
    assert found.gone() == sorted(files)
    name, size = put(uri, "f.parquet")
    assert dispose(Disposal(None), Kept(one={name: size}), listing(uri), told.append) == 1
    assert below(uri) == ["e.parquet"]
    assert told == []
