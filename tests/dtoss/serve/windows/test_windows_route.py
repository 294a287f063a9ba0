"""Windows over HTTP: the answers of the store, one for each commit, and what is said where there are none."""

from __future__ import annotations

import io
import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from dtoss.serve.core.server_settings import Limits, Paces
from dtoss.windows.durations import time_text
from dtoss.windows.query.window_query import open_windows
from dtoss.windows.storage.window_document import Home
from tests.dtoss.serve.served import Asker, running, target, town
from tests.dtoss.windows.storage.kept import SECOND, begin, commit


@pytest.fixture(scope="module")
def index():
    return town(objects=300)


def rows(seed, first, last, objects=9):
    rng = np.random.default_rng(seed)
    t = rng.integers(first * SECOND, last * SECOND, 150).tolist()
    return [(int(rng.integers(objects)), one, *rng.uniform(-2, 12, 2).tolist()) for one in t]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Windows of a store with two batches."""
    home, fixed = begin(tmp_path_factory.mktemp("served") / "store", name="fleet")
    commit(home, fixed, rows(1, 0, 30))
    commit(home, fixed, rows(2, 27, 50))
    return home, fixed


@pytest.fixture
def stored(whole, tmp_path):
    """A copy of them."""
    home, fixed = whole
    return Home(str(shutil.copytree(home.store, tmp_path / "store")), "fleet"), fixed


@pytest.fixture
def server(index, stored):
    with running(index, store=stored[0].store) as found:
        yield found


@pytest.fixture
def fresh_server(index, stored):
    """A worker that looks for a newer commit each time."""
    with running(index, store=stored[0].store, paces=Paces(windows=0.0)) as found:
        yield found


def plain(table):
    """Rows of an answer, with ends as JSON has them."""
    return [row | ({"end": time_text(row["end"])} if "end" in row else {}) for row in table.to_pylist()]


def test_answers_are_those_of_the_store(server, stored):
    """Each length and some ends, keys, series, flows; as JSON and as Arrow."""
    found = open_windows(stored[0].store, "fleet")
    due = found.watermark // found.spec.slide * found.spec.slide
    with Asker(server) as asker:
        for window in (*found.spec.names, "6s"):
            ends = [None] if window == "6s" else [None, due / SECOND, time_text(due - 3 * found.spec.slide)]
            for end in ends:
                answer = asker.get("/windows/fleet", window=window, end=end)
                want = found.at(end, window)
                assert answer["rows"] == plain(want)
                assert len(want) > 0
                assert (answer["window"], answer["end"]) == (window, time_text(want["end"][0].as_py()))
                assert (answer["batch"], answer["watermark"]) == (2, time_text(found.watermark))
            status, headers, body = asker.raw(target("/windows/fleet", window=window, format="arrow"))
            assert (status, headers["content-type"]) == (200, "application/vnd.apache.arrow.stream")
            table = pa.ipc.open_stream(io.BytesIO(body)).read_all()
            assert table.schema.metadata[b"batch"] == b"2"
            times = table["end"].cast(pa.int64())
            assert table.set_column(1, "end", times).to_pylist() == found.at(window=window).to_pylist()
            flow = asker.get("/windows/fleet/flow", window=window)
            assert flow["rows"] == found.flow(window=window).to_pylist()
            assert flow["end"] == time_text(found.watermark)
        first = asker.get("/windows/fleet")
        assert (first["window"], first["rows"]) == (found.spec.names[0], plain(found.at(window=found.spec.names[0])))
        key = first["rows"][0]["key"]
        assert asker.get("/windows/fleet", key=key)["rows"] == first["rows"][:1]
        empty = asker.get("/windows/fleet", key=0, end=0)
        assert (empty["rows"], empty["end"]) == ([], "1970-01-01T00:00:00Z")
        series = asker.get("/windows/fleet/series", key=key, window="10s", since=0, until=time_text(due))
        assert series["rows"] == plain(found.series(key, "10s", 0, due / SECOND))
        assert len(series["rows"]) == due // found.spec.slide + 1


def test_wide_rows_and_those_that_changed_are_those_of_the_store(server, stored):
    """By the end before, an earlier end and a batch; the short way gives the bytes of the framework's."""
    found = open_windows(stored[0].store, "fleet")
    with Asker(server) as asker:
        wide = asker.get("/windows/fleet", wide="true")
        assert (wide["rows"], wide["window"]) == (plain(found.wide()), "4s,10s")
        assert asker.get("/windows/fleet", wide="true", changed="true")["rows"] == plain(found.changed())
        one = asker.get("/windows/fleet", changed="true", window="4s", batch=1)
        assert one["rows"] == plain(found.changed(window="4s", commit=1))
        since = asker.get("/windows/fleet", changed="true", wide="true", since=10)
        assert since["rows"] == plain(found.changed(since=10))
        path = "/windows/fleet?wide=true"
        (_, said, again), (_, first, body) = asker.raw(path), asker.raw(path, if_none_match='"another"')
        assert (again, said["etag"]) == (body, first["etag"])


def test_the_tag_is_of_the_commit(fresh_server, stored):
    """An answer that is known is not sent again, until a batch comes."""
    with Asker(fresh_server) as asker:
        status, headers, body = asker.raw("/windows/fleet?window=4s")
        assert status == 200
        tag = headers["etag"]
        assert asker.raw("/windows/fleet?window=4s", if_none_match=tag)[::2] == (304, b"")
        assert asker.raw("/windows/fleet?window=10s", if_none_match=tag)[0] == 200
        assert (
            asker.raw("/windows/fleet?window=4s", if_none_match=tag, accept="application/vnd.apache.arrow.stream")[0]
            == 200
        )
        commit(*stored, rows(3, 47, 60))
        status, headers, again = asker.raw("/windows/fleet?window=4s", if_none_match=tag)
        assert (status, headers["etag"] == tag) == (200, False)
        assert json.loads(again)["batch"] == json.loads(body)["batch"] + 1


def test_all_windows_are_listed_with_what_was_counted(server, stored, tmp_path):
    """Those without a batch are not."""
    begin(tmp_path / "store", name="later")
    with Asker(server) as asker:
        (told,) = asker.get("/windows")["windows"]
    found = open_windows(stored[0].store, "fleet")
    assert (told["name"], told["lengths"], told["by"]) == ("fleet", ["4s", "10s"], "sites:shops")
    assert (told["counts"], told["quarantined"]) == (dict(found.counts), dict(found.reasons))
    assert told["watermark"] == time_text(found.watermark)


@pytest.mark.parametrize(
    ("path", "status", "part"),
    [
        ("/windows/flet", 404, "fleet"),
        ("/windows/later", 404, "have not begun"),
        ("/windows/no%20name", 404, "cannot be"),
        ("/windows/fleet?window=7m%20", 400, "7m"),
        ("/windows/fleet?window=3s", 400, "3s"),
        ("/windows/fleet?end=noon", 400, "noon"),
        ("/windows/fleet?end=3", 400, "no window ends"),
        ("/windows/fleet?end=99999998", 400, "is not due"),
        ("/windows/fleet?key=one", 400, "there is no key 'one': keys are numbers from 0 to 2"),
        ("/windows/fleet?key=99", 400, "there is no key 99: keys are 0 to 2"),
        ("/windows/fleet?wide=true&window=4s", 400, "wide rows have all lengths"),
        ("/windows/fleet?since=0", 400, "changed=true"),
        ("/windows/fleet?changed=true&batch=7", 400, "there is no commit 7: there are 1 to 2"),
        ("/windows/fleet?changed=true&window=6s", 400, "it is of 4s, 10s"),
        ("/windows/fleet?format=xml", 400, "format"),
        ("/windows/fleet/series?since=0", 400, "key"),
        ("/windows/fleet/series?key=1&since=0&window=6s", 400, "not kept over time"),
        ("/windows/fleet/flow?window=99h", 400, "356400s"),
    ],
)
def test_what_cannot_be_answered_is_said(server, tmp_path, path, status, part):
    """One sentence, with the value and the way out."""
    begin(tmp_path / "store", name="later")
    with Asker(server) as asker:
        found, _, body = asker.raw(path)
    problem = json.loads(body)
    assert (found, part in problem["detail"]) == (status, True), problem


def test_more_rows_than_go_into_an_answer_are_refused(index, stored):
    """One key is answered."""
    with running(index, store=stored[0].store, limits=Limits(hits=2)) as server, Asker(server) as asker:
        status, _, body = asker.raw("/windows/fleet?window=10s")
        assert (status, json.loads(body)["limit"]) == (413, "hits")
        assert len(asker.get("/windows/fleet", window="10s", key=1)["rows"]) == 1


def test_a_damaged_file_is_told_of_and_the_log_says_which(server, stored):
    """Not as an answer."""
    for name in stored[0].folder.files("results"):
        path = Path(stored[0].folder.path("results", name))
        path.write_bytes(path.read_bytes()[:7])
    with Asker(server) as asker:
        status, headers, body = asker.raw("/windows/fleet?window=4s")
    assert (status, headers["retry-after"]) == (503, "5"), body
    assert [facts["detail"] for what, facts in server.heard.events if what == "windows not read"]
