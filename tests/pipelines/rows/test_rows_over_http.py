"""Rows of files that a server has: by ranges where it knows them, and in one line where it says no."""

from __future__ import annotations

import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dtoss.errors import InputError, StoreError
from dtoss.rows.input_columns import Columns
from dtoss.snapshots.http_files import HttpFiles
from dtoss.snapshots.store_location import folder_of
from dtoss.watch.subscriptions.subscription_files import read_files
from pipelines.rows.read_files import read_positions
from tests.pipelines.rows.reading import read_rows

ROWS = pa.table({"id": [1, 2, 3], "lon": [8.5, 9.5, 10.5], "lat": [47.0, 48.0, 49.0], "n": ["a", "b", None]})
CSV = b"id,lon,lat,n\n1,8.5,47,a\n2,9.5,48,b\n3,10.5,49,\n"


@pytest.fixture
def served(monkeypatch):
    """A server on a loopback port: its files, whether it knows ranges, how many bytes it keeps to itself."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    told = SimpleNamespace(files={}, ranges=True, kept=0, asked=[])

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self):
            path, _, query = self.path.partition("?")
            told.asked.append(query)
            data = told.files.get(path)
            if not isinstance(data, bytes):
                self.send_error(data or 404)
                return
            found = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
            some = data
            if found and told.ranges:
                if not data:
                    self.send_error(416)
                    return
                first, last = map(int, found.groups())
                some = data[first : last + 1]
                self.send_response(206)
                self.send_header("Content-Range", f"bytes {first}-{first + len(some) - 1}/{len(data)}")
            else:
                self.send_response(200)
            self.send_header("Last-Modified", "Sun, 01 Nov 2026 10:00:00 GMT")
            self.send_header("Content-Length", str(len(some)))
            self.end_headers()
            self.wfile.write(some[: len(some) - told.kept] if len(some) > 1 else some)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    told.at = f"http://127.0.0.1:{server.server_port}"
    yield told
    server.shutdown()
    server.server_close()


def parquet():
    sink = pa.BufferOutputStream()
    pq.write_table(ROWS, sink)
    return sink.getvalue().to_pybytes()


def arrow():
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, ROWS.schema) as file:
        file.write_table(ROWS)
    return sink.getvalue().to_pybytes()


FILES = {
    "a.csv": CSV,
    "a.csv.gz": pa.compress(CSV, "gzip", asbytes=True),
    "a.parquet": parquet(),
    "a.arrow": arrow(),
    "a.jsonl": b"".join(b'{"id":%d,"lon":%g,"lat":%d,"n":"a"}\n' % (i, 7.5 + i, 46 + i) for i in (1, 2, 3)),
}


def places_of(url):
    good = read_positions(None, [url], Columns()).good(["id", "x", "y"])
    return [tuple(row.values()) for batches in good.collect() for batch in batches for row in batch.to_pylist()]


@pytest.mark.parametrize("ranges", [True, False])
@pytest.mark.parametrize("name", FILES)
def test_a_file_of_a_server_is_read_as_any_other(served, name, ranges):
    """Of each format; what stands behind the name, a signature, goes with each request."""
    served.files, served.ranges = {f"/in/{name}": FILES[name]}, ranges
    assert places_of(f"{served.at}/in/{name}?key=1%2F2") == [(1, 8.5, 47.0), (2, 9.5, 48.0), (3, 10.5, 49.0)]
    assert set(served.asked) == {"key=1%2F2"}


def test_by_either_engine(spark, served):
    served.files = {"/a.csv": CSV, "/a.parquet": parquet()}
    for name in ("a.csv", "a.parquet"):
        assert len(read_rows(spark, f"{served.at}/{name}").good) == 3


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("none.csv", None, "nothing is at http://.*/none.csv: check the path"),
        ("a.csv", 403, "http://.*/a.csv cannot be read: the server says 403 Forbidden"),
        ("a.zip", b"PK", "a.zip"),
        ("a.geojson", b"", "a.geojson is empty"),
    ],
)
def test_what_cannot_be_read_is_one_line(served, name, data, said):
    """And no start of Spark, which could not read it either."""
    served.files = {f"/{name}": data}
    with pytest.raises(InputError, match=said) as raised:
        read_positions(None, [f"{served.at}/{name}"], Columns())
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("ranges", [True, False])
def test_an_answer_that_is_cut_short_is_no_file(served, ranges):
    """Lines that did not come would be missed by nobody."""
    served.files, served.ranges, served.kept = {"/a.csv": CSV}, ranges, 10
    with pytest.raises((InputError, OSError), match="cut short"):
        places_of(f"{served.at}/a.csv")


def test_nobody_answers(served):
    with pytest.raises(InputError, match=r"cannot be read: .*refused"):
        read_positions(None, ["http://127.0.0.1:9/a.csv"], Columns())
    with pytest.raises(InputError, match="names a user, or no host"):
        read_positions(None, [f"http://me:secret@{served.at[7:]}/a.csv"], Columns())


def test_files_are_read_and_no_more(served):
    """Nothing is listed or written; a store is asked by its server."""
    with pytest.raises(InputError, match="is no folder that can be listed"):
        HttpFiles("http").get_file_info_selector(pa.fs.FileSelector("host/in"))
    with pytest.raises(InputError, match="nothing is written over http://"):
        HttpFiles("http").open_output_stream("host/a")
    with pytest.raises(StoreError, match="is not on a file system that can be reached"):
        folder_of(f"{served.at}/store")
    served.files = {"/asked.jsonl": b'{"id":"a","lon":1,"lat":2,"radius":1000}\n'}
    assert read_files([f"{served.at}/asked.jsonl"]).table["id"].to_pylist() == ["a"]
