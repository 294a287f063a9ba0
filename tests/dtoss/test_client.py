"""An index that a server has open answers as one in process: ids, distances, order, attributes, errors."""

from __future__ import annotations

import gc
import os
import pickle
import socket
import ssl
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dtoss
from dtoss.client.endpoint import address_of
from dtoss.serve.core.server_settings import Limits
from tests.dtoss.answering import Asked, answering
from tests.dtoss.certificates import certificate
from tests.dtoss.strategies import lonlat_queries, planar_queries
from tests.ends import end_now
from tests.examples import examples
from tests.shown_html import html_of

N = 700
KINDS = [(plane, strings) for plane in (False, True) for strings in (False, True)]
CONDITIONS = [None, "speed > 300", "speed > 10 and name <> 'n5'", "speed < 0", "id is not null and mood is null"]


def made(plane, strings, seed=0):
    """Objects in a few towns with ties and shared places; attributes of several types, with nulls."""
    rng = np.random.default_rng(seed)
    positions = rng.normal([10.0, 50.0], 0.2, (N, 2)).round(2)
    ids = np.array([f"é/{i} %?#&+" for i in range(N)], object) if strings else rng.permutation(N) * 2**53 // 9 - 7
    columns = {
        "speed": rng.permutation(N),
        "name": [f"n{i % 9}" for i in range(N)],
        "mood": [None if i % 3 else i / 7 for i in range(N)],
    }
    return dtoss.build(ids, positions, crs="none" if plane else None, partitions=3, columns=columns), positions, ids


@pytest.fixture(scope="module", params=KINDS, ids=lambda kind: f"{'plane' if kind[0] else 'sphere'} {kind[1]}")
def town(request):
    """(index in process, the same at a server, positions, ids, the server)."""
    index, positions, ids = made(*request.param)
    with answering(index) as served:
        yield index, dtoss.connect(served.url), positions, ids, served


def same(here, there):
    """Whether hits are the same, bit for bit, with their types."""
    assert here == there
    for name in ("query", "id", "distance"):
        a, b = getattr(here, name), getattr(there, name)
        assert a.dtype == b.dtype
        assert b.flags.writeable
    assert here.distance.tobytes() == there.distance.tobytes()
    assert list(here.columns) == list(there.columns)
    assert [column.type for column in here.columns.values()] == [column.type for column in there.columns.values()]
    assert [column.to_pylist() for column in here.columns.values()] == [c.to_pylist() for c in there.columns.values()]


def asked(index, positions, seed, count):
    rng = np.random.default_rng(seed)
    queries = (planar_queries if index.space.metric == "plane" else lonlat_queries)(rng, positions)
    return queries[rng.integers(0, len(queries), count)]


CARRIED = st.sampled_from([(), ("speed",), ("mood", "name", "speed")])


@settings(max_examples=examples(25, 5), deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1), count=st.integers(0, 40), k=st.integers(1, 90),
    limit=st.sampled_from([None, 0.0, 0.01, 3e4, np.inf]), columns=CARRIED,
    where=st.sampled_from(CONDITIONS), having=st.sampled_from(CONDITIONS),
)  # fmt: skip
def test_the_nearest_are_the_same(town, seed, count, k, limit, columns, where, having):
    """Of no place, of one, of many."""
    index, there, positions, _, _ = town
    places = asked(index, positions, seed, count)
    how = {"max_distance": limit, "columns": columns, "where": where, "having": having}
    same(index.knn(places, k, **how), there.knn(places, k, **how))
    if count:
        same(index.knn(places[0], k), there.knn(places[0], k))
        same(index.knn(places[0], k, max_distance=limit), there.knn(places[0], k, max_distance=limit))


@settings(max_examples=examples(20, 5), deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1), count=st.integers(0, 30), columns=CARRIED,
    where=st.sampled_from(CONDITIONS), having=st.sampled_from(CONDITIONS),
)  # fmt: skip
def test_all_within_radii_are_the_same(town, seed, count, columns, where, having):
    """With a radius for all, and with one each; counted, and in batches."""
    index, there, positions, _, _ = town
    places = asked(index, positions, seed, count)
    rng = np.random.default_rng(seed)
    unit = 0.01 if index.space.metric == "plane" else 1000.0
    radii = rng.choice([0.0, 1.0, 5.0, 40.0, np.inf], count) * unit
    how = {"columns": columns, "where": where, "having": having}
    same(index.range(places, radii, **how), there.range(places, radii, **how))
    same(index.range(places, 3 * unit, **how), there.range(places, 3 * unit, **how))
    assert np.array_equal(index.count(places, radii, where=where), there.count(places, radii, where=where))
    ours = list(index.range_batches(places, radii, batch_size=97, **how))
    theirs = list(there.range_batches(places, radii, batch_size=97, **how))
    for one in theirs:
        assert 0 < len(one) <= 97
    assert [row for hits in ours for row in hits] == [row for hits in theirs for row in hits]


@settings(max_examples=examples(15, 4), deadline=None)
@given(seed=st.integers(0, 2**32 - 1), count=st.integers(0, 5), columns=CARRIED, where=st.sampled_from(CONDITIONS))
def test_shapes_hold_the_same(town, seed, count, columns, where):
    """Boxes, some over the antimeridian on the sphere; rings, GeoJSON with holes, heights and properties."""
    index, there, _, _, _ = town
    rng = np.random.default_rng(seed)
    low = rng.normal([10.0, 50.0], 0.3, (count, 2))
    boxes = np.concatenate([low, low + rng.uniform(0, 0.4, (count, 2))], axis=1)
    how = {"columns": columns, "where": where}
    same(index.box(boxes, **how), there.box(boxes, **how))
    assert np.array_equal(index.count_box(boxes, where=where), there.count_box(boxes, where=where))
    ring = rng.normal([10.0, 50.0], 0.3, (5, 2))
    hole = [[*corner, 7.0] for corner in (ring.mean(axis=0) + 0.05 * (ring - ring.mean(axis=0))).tolist()]
    feature = {
        "type": "Feature", "properties": {"any": object()},
        "geometry": {"type": "Polygon", "coordinates": [ring, hole]},
    }  # fmt: skip
    both = {"type": "FeatureCollection", "features": [feature, feature]}
    for shapes in (ring, feature, [ring, both], [], [ring.tolist()]):
        same(index.within(shapes, **how), there.within(shapes, **how))
        assert np.array_equal(index.count_within(shapes, where=where), there.count_within(shapes, where=where))


def test_who_owns_a_place_and_whom_a_new_object_would_be_nearest_to(town):
    """Also of no place at all."""
    index, there, positions, _, _ = town
    for count in (0, 1, 50):
        places = asked(index, positions, 5, count)
        here, other = index.locate(places), there.locate(places)
        assert np.array_equal(here, other)
        assert here.dtype == other.dtype
        same(index.reverse_nearest(places), there.reverse_nearest(places))


def test_single_objects_are_the_same(town):
    """Their dictionaries with the order of keys, cells, neighbours, areas; ids that are none, of any type."""
    index, there, _, ids, _ = town
    for one in [*ids[:12], ids[0] if isinstance(ids[0], str) else np.int64(ids[0])]:
        assert there[one] == index[one]
        assert list(there[one]) == list(index[one])
        assert type(there[one]["id"]) is type(one)
        assert one in there
        assert there.cell(one).tobytes() == index.cell(one).tobytes()
        assert there.neighbours(one).tolist() == index.neighbours(one).tolist()
        assert there.neighbours(one).dtype == index.neighbours(one).dtype
        assert there.area(one) == index.area(one)
    for none in ["nobody", "", "\ud800", "..", 5, -(2**63), 2**70, 1.5, float("nan"), True, "../snapshot"]:
        assert (none in there) == (none in index) == False  # noqa: E712
        for question in (lambda i, n=none: i[n], lambda i, n=none: i.cell(n), lambda i, n=none: i.area(n)):
            with pytest.raises(KeyError) as here:
                question(index)
            with pytest.raises(KeyError) as other:
                question(there)
            assert str(here.value) == str(other.value)


def test_it_says_what_it_is(town):
    """As an index in process; what a server does not list cannot be iterated."""
    index, there, _, _, served = town
    assert (len(there), there.crs, there.bounds, there.sites) == (len(index), index.crs, index.bounds, index.sites)
    assert there.column_names == index.column_names
    assert there.space == index.space
    assert there.snapshot == "a"
    assert repr(there) == (
        f"<dtoss.RemoteIndex of 700 objects in 3 partitions, {index.crs}, snapshot a, at {served.url}>"
    )
    shown = html_of(there)
    assert "<caption" in shown
    assert served.url in shown
    assert "700" in shown
    with pytest.raises(TypeError):
        iter(there)
    again = pickle.loads(pickle.dumps(there))
    same(again.knn([10.0, 50.0], 3), index.knn([10.0, 50.0], 3))
    for name in ("knn", "range", "range_batches", "count", "box", "within", "count_box", "count_within", "locate"):
        code = getattr(dtoss.Index, name).__code__
        other = getattr(dtoss.RemoteIndex, name).__code__
        takes = code.co_argcount + code.co_kwonlyargcount
        assert code.co_varnames[:takes] == other.co_varnames[:takes], name
        assert getattr(dtoss.Index, name).__kwdefaults__ == getattr(dtoss.RemoteIndex, name).__kwdefaults__


QUESTIONS = [
    lambda i: i.knn([[10.0, 50.0], [np.nan, 0.0]]),
    lambda i: i.knn([[10.0, 50.0], [1e99, 0.0]]),
    lambda i: i.knn("here"),
    lambda i: i.knn([[1.0, 2.0, 3.0]]),
    lambda i: i.knn([10.0, 50.0], 0),
    lambda i: i.knn([10.0, 50.0], 2.5),
    lambda i: i.knn([10.0, 50.0], threads=0),
    lambda i: i.knn([10.0, 50.0], max_distance=-1),
    lambda i: i.knn([10.0, 50.0], max_distance="far"),
    lambda i: i.knn([10.0, 50.0], columns=["colour"]),
    lambda i: i.knn([10.0, 50.0], columns="speed"),
    lambda i: i.knn([10.0, 50.0], crs="EPSG:32610"),
    lambda i: i.knn([10.0, 50.0], where="speed >"),
    lambda i: i.knn([10.0, 50.0], where="colour = 1"),
    lambda i: i.knn([10.0, 50.0], having="speed like 3"),
    lambda i: i.range([10.0, 50.0], np.nan),
    lambda i: i.range([10.0, 50.0], [1.0, 2.0]),
    lambda i: i.range([10.0, 50.0], 1.0, order="upwards"),
    lambda i: i.range_batches([10.0, 50.0], 1.0, batch_size=0),
    lambda i: i.range_batches([10.0, 50.0], 1.0, where="speed >"),
    lambda i: i.range_batches([10.0, 50.0], 1.0, having="speed >"),
    lambda i: i.count([10.0, 50.0], -2.0),
    lambda i: i.box([1.0, 9.0, 2.0, 0.0]),
    lambda i: i.box([1.0, 9.0]),
    lambda i: i.box([1.0, 2.0, 3.0, 4.0], columns=["z"]),
    lambda i: i.within([[0.0, 0.0], [1.0, 1.0]]),
    lambda i: i.within({"type": "Point", "coordinates": [1, 2]}),
    lambda i: i.count_within({"type": "Polygon", "coordinates": [["a"]]}),
    lambda i: i.locate([10.0, np.inf]),
    lambda i: i.reverse_nearest([10.0, 50.0], crs="EPSG:32610"),
]


@pytest.mark.parametrize("question", QUESTIONS)
def test_errors_are_the_same(town, question):
    """Of the same type, with the same text."""
    index, there, _, _, _ = town
    with pytest.raises(ValueError) as here:
        question(index)
    with pytest.raises(ValueError) as other:
        question(there)
    assert str(here.value) == str(other.value)


def test_nothing_of_the_server_is_needed():
    """Nor anything else that an index in process does not need."""
    code = "import sys, dtoss; dtoss.connect; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True).stdout
    names = set(loaded.split())
    assert "dtoss.client.remote_index" in names
    assert not {name for name in names if name.startswith("dtoss.serve")}
    assert not names & {"uvicorn", "uvloop", "orjson", "msgspec", "litestar", "requests", "httpx", "pandas", "pyproj"}


def test_an_empty_index_owns_no_place():
    """As in process; nobody is near either."""
    index = dtoss.build([], np.zeros((0, 2)), columns={"speed": np.zeros(0, np.int64)})
    with answering(index) as served:
        there = dtoss.connect(served.url)
        same(index.knn([[1.0, 2.0]], 3, columns=["speed"]), there.knn([[1.0, 2.0]], 3, columns=["speed"]))
        for one in (index, there):
            with pytest.raises(ValueError, match="the index is empty: no object owns a place"):
                one.locate([1.0, 2.0])
        assert len(there) == 0


def test_a_large_batch_is_asked_in_pieces_of_one_snapshot():
    """By the number of queries, by the hits that are expected, and by what the server says is too much."""
    index, positions, _ = made(False, False)
    with answering(index) as served:
        there = dtoss.connect(served.url)
        asked_for = Asked(there)
        places = np.tile(positions, (360, 1))[:250_001]
        same(index.knn(places, 1), there.knn(places, 1))
        assert asked_for.targets == ["/knn?k=1", "/knn?k=1&snapshot=a", "/knn?k=1&snapshot=a"]
    with answering(index, limits=Limits(bulk_queries=130, hits=2000, k=50)) as served:
        there = dtoss.connect(served.url)
        same(index.knn(positions, 3), there.knn(positions, 3))
        same(index.knn(positions, 50), there.knn(positions, 50))
        same(index.range(positions, 9000.0, columns=["name"]), there.range(positions, 9000.0, columns=["name"]))
        assert np.array_equal(index.locate(positions), there.locate(positions))
        same(index.reverse_nearest(positions), there.reverse_nearest(positions))
        boxes = np.concatenate([positions - 0.01, positions + 0.01], axis=1)[:300]
        same(index.box(boxes), there.box(boxes))
        for k in (51, 5000):
            with pytest.raises(ValueError, match=f"k.*{k}.*50"):
                there.knn(positions, k)
    with answering(index, limits=Limits(body_bytes=10_000)) as served:
        there = dtoss.connect(served.url)
        asked_for = Asked(there)
        same(index.knn(positions, 1), there.knn(positions, 1))
        assert asked_for.targets[:2] == ["/knn?k=1", "/knn?k=1"]  # the first was too long
        boxes = np.concatenate([positions, positions], axis=1)[:600]
        assert np.array_equal(index.count_box(boxes), there.count_box(boxes))
    with answering(index, limits=Limits(hits=20)) as served:
        there = dtoss.connect(served.url)
        with pytest.raises(ValueError, match="at most"):
            there.range(positions, 90000.0)
        with pytest.raises(ValueError, match="at most"):
            there.box([0.0, 40.0, 20.0, 60.0])


def test_pieces_that_two_snapshots_answered_are_thrown_away():
    """All is asked again of the newer one; but not for ever."""
    index, positions, _ = made(False, False)
    other, _, _ = made(False, False, seed=9)
    with answering(index, limits=Limits(bulk_queries=130)) as served:
        there = dtoss.connect(served.url)
        asked_for, swapped = Asked(there), []

        def swap(target):
            if "snapshot=a" in target and not swapped:
                swapped.append(target)
                served.replace(other, "b")
                served.forget()

        asked_for.before = swap
        same(other.knn(positions, 2), there.knn(positions, 2))
        assert swapped
        assert there.snapshot == "b"
        names = iter("cdefghijklmnop")

        def never_stay(target):
            if "snapshot=" in target:
                served.replace(other, next(names))
                served.forget()

        asked_for.before = never_stay
        with pytest.raises(dtoss.StoreError, match=r"went 3 times while 700 queries were asked: ask for fewer"):
            there.knn(positions, 2)


def test_a_pinned_snapshot_answers_through_swaps_until_it_is_gone():
    """One that is not pinned follows, also in what it knows of columns."""
    index, _, _ = made(False, False)
    other = dtoss.build([1, 2], [[1.0, 2.0], [3.0, 4.0]], columns={"colour": ["red", "blue"]})
    with answering(index) as served:
        pinned, follows = dtoss.connect(served.url, snapshot="a"), dtoss.connect(served.url)
        served.replace(other, "b")
        for columns in ((), ("speed",)):
            how = {"k": 2, "columns": columns}
            same(index.knn([10.0, 50.0], **how), pinned.knn([10.0, 50.0], **how))
        assert len(pinned) == 700
        assert pinned.snapshot == "a"
        late = dtoss.connect(served.url, snapshot="a")
        assert len(late) == 700
        assert late.column_names == ["speed", "name", "mood"]
        same(other.knn([[3.0, 4.0]], columns=["colour"]), follows.knn([[3.0, 4.0]], columns=["colour"]))
        same(other.knn([3.0, 4.0]), follows.knn([3.0, 4.0]))
        assert follows[1] == other[1]
        assert (len(follows), follows.snapshot, follows.column_names) == (2, "b", ["colour"])
        batches = pinned.range_batches([[10.0, 50.0]] * 9, 1e5, batch_size=300)
        assert len(next(batches)) == 300
        served.forget()
        for question in (
            lambda: pinned.knn([10.0, 50.0]),
            lambda: pinned.knn([[10.0, 50.0]] * 2),
            lambda: list(batches),
            lambda: dtoss.connect(served.url, snapshot="a"),
        ):
            with pytest.raises(dtoss.StoreError, match="snapshot 'a' is not open any more"):
                question()


def test_fifty_threads_and_a_fork_have_connections_of_their_own(town):
    """And get their own answers."""
    index, there, positions, _, served = town
    places = asked(index, positions, 3, 50)
    expected = [list(index.knn(place, 5)) for place in places]
    gate = threading.Barrier(50)

    def ask(number):
        gate.wait(60)
        found = [list(there.knn(places[number], 5)) for _ in range(4)]
        gate.wait(60)
        return found, len(served.worker.server.server_state.connections)

    with ThreadPoolExecutor(50) as pool:
        found = list(pool.map(ask, range(50)))
    assert [rows for rows, _ in found] == [[rows] * 4 for rows in expected]
    assert max(connections for _, connections in found) >= 50
    there.knn(places[0])
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writing, repr([list(there.knn(place, 5)) for place in places[:5]] == expected[:5]).encode())
        finally:
            end_now(0)
    assert [list(there.knn(place, 5)) for place in places] == expected
    os.waitpid(child, 0)
    assert os.read(reading, 100) == b"True"
    os.close(reading)
    os.close(writing)


def test_a_server_that_restarts_is_asked_again():
    """While there is none, one line says so; a connection is closed with the index."""
    index, _, _ = made(False, False)
    with answering(index) as served:
        there = dtoss.connect(served.url)
        expected = list(there.knn([10.0, 50.0], 3))
    with pytest.raises(dtoss.DtossError, match=f"no server answers at {served.url}: start one by dtoss serve"):
        there.knn([10.0, 50.0], 3)
    with answering(index, port=int(served.url.rpartition(":")[2])):
        assert list(there.knn([10.0, 50.0], 3)) == expected
        open_before = len([*Path("/proc/self/fd").iterdir()])
        del there
        gc.collect()
        assert len([*Path("/proc/self/fd").iterdir()]) < open_before


def wrong_server(answers, tls=None):
    """A port at which each connection gets the next of some answers, cut off where it ends, and how many came."""
    listening = socket.create_server(("127.0.0.1", 0))
    came = []

    def serve():
        for answer in answers:
            link, _ = listening.accept()
            if tls is not None:
                try:
                    link = tls.wrap_socket(link, server_side=True)
                except OSError:
                    continue
            with link:
                link.settimeout(60)
                for one in answer:
                    came.append(link.recv(65536))
                    if one is None:
                        link.recv(1)  # until the client gives up
                    else:
                        link.sendall(one)
        listening.close()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    return f"http{'s' * (tls is not None)}://127.0.0.1:{listening.getsockname()[1]}", came, thread


FACTS = (
    b'{"snapshot":"a","objects":1,"sites":1,"partitions":1,"crs":"EPSG:4326","metric":"sphere","bounds":null,'
    b'"id_type":"int64","columns":{},"version":"1"}'
)


def answer(body, status=b"200 OK", kind=b"application/json", length=None):
    head = b"HTTP/1.1 %b\r\nContent-Type: %b\r\nX-Dtoss-Snapshot: a\r\nContent-Length: %d\r\n\r\n"
    return head % (status, kind, len(body) if length is None else length) + body


HIT = answer(b'{"snapshot":"a","hits":[{"id":7,"distance":0.5}]}')


def test_a_connection_closed_while_idle_is_opened_again_and_only_then():
    """Once; not where an answer had begun, and not for a connection that was new."""
    url, came, thread = wrong_server([[answer(FACTS)], [HIT]])
    there = dtoss.connect(url)
    assert list(there.knn([1.0, 2.0])) == [(0, 7, 0.5)]
    thread.join(60)
    assert len(came) == 2
    begun = answer(b'{"snapshot"', length=1000)
    url, came, thread = wrong_server([[answer(FACTS), begun], [HIT]])
    there = dtoss.connect(url)
    with pytest.raises(dtoss.DtossError, match="broke off an answer"):
        there.knn([1.0, 2.0])
    assert len(came) == 2
    assert list(there.knn([1.0, 2.0])) == [(0, 7, 0.5)]
    url, came, thread = wrong_server([[answer(FACTS)], [b""], [HIT]])
    there = dtoss.connect(url)
    with pytest.raises(dtoss.DtossError, match=f"the server at {url} cannot be asked"):
        there.knn([1.0, 2.0])
    assert len(came) == 2
    assert list(there.knn([1.0, 2.0])) == [(0, 7, 0.5)]


def test_a_certificate_has_to_be_trusted(tmp_path, monkeypatch):
    """One that nobody signed is refused, and what to do is said; named in SSL_CERT_FILE it is taken."""
    cert, key = certificate(tmp_path)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(cert, key)
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    url, came, _ = wrong_server([[answer(FACTS)], [answer(FACTS), HIT]], tls)
    with pytest.raises(
        dtoss.DtossError, match=r"the certificate of https://127\.0\.0\.1:\d+ is not trusted .*SSL_CERT_FILE"
    ):
        dtoss.connect(url, token="secret")
    assert came == []
    monkeypatch.setenv("SSL_CERT_FILE", str(cert))
    there = dtoss.connect(url, token="secret")
    assert list(there.knn([1.0, 2.0])) == [(0, 7, 0.5)]
    assert all(b"\r\nAuthorization: Bearer secret\r\n" in request for request in came)


def test_what_is_no_server_of_dtoss_is_one_line():
    """HTML, JSON of something else, an Arrow stream that is none, a status that is not meant, no answer in time."""
    said = [
        (answer(b"<html>welcome</html>", kind=b"text/html"), "type text/html: JSON is wanted; is it a server of dtoss"),
        (answer(b"[1]"), "JSON is wanted"),
        (answer(b'{"hello":1}'), "/snapshot says something else than a server of dtoss"),
        (answer(b"<h1>Bad Gateway</h1>", b"502 Bad Gateway", b"text/html"), "answers 502 <h1>Bad Gateway</h1>"),
        (answer(b'{"detail":"who are you"}', b"401 Who", b"application/problem+json"), "who are you"),
        (answer(b'{"detail":"full"}', b"503 Full", b"application/problem+json"), "full"),
        (b"SSH-2.0-OpenSSH\r\n", "cannot be asked"),
    ]
    for one, why in said:
        url, _, _ = wrong_server([[one]])
        with pytest.raises(dtoss.DtossError, match=why) as error:
            dtoss.connect(url, token="secret-token")
        assert "\n" not in str(error.value).strip()
        assert "secret-token" not in str(error.value)
    kind = b"application/vnd.apache.arrow.stream"
    for body in (b"", b"nonsense", b"\xff\xff\xff\xff\x10\0\0\0" + b"x" * 40):
        url, _, _ = wrong_server([[answer(FACTS), answer(body, kind=kind)]])
        with pytest.raises(dtoss.DtossError, match="no Arrow stream"):
            dtoss.connect(url).knn([[1.0, 2.0]] * 2)
    url, _, _ = wrong_server([[None]])
    with pytest.raises(dtoss.DtossError, match=r"has not answered within 0\.2 seconds"):
        dtoss.connect(url, timeout=0.2)


@pytest.mark.parametrize(
    "url",
    ["127.0.0.1:8080", "ftp://a", "http://", "http://a:x", "http://a:0", "http://a?b", "http://a#b", "http://a b", 5],
)
def test_a_url_that_is_none_is_refused(url):
    """With what is wanted."""
    with pytest.raises(ValueError, match=r"such as http://127\.0\.0\.1:8080 is wanted|without blanks"):
        dtoss.connect(url)


def test_a_password_in_a_url_is_not_repeated():
    """Nor is a token that is none."""
    with pytest.raises(ValueError, match="not in the URL") as error:
        dtoss.connect("http://me:hunter2@127.0.0.1:8080")
    assert "hunter2" not in str(error.value)
    for token in ("", "two words", "line\nline", "é"):
        with pytest.raises(ValueError, match="one line without is wanted") as error:
            dtoss.connect("http://127.0.0.1:8080", token=token)
        assert not token or token not in str(error.value)
    for timeout in (0, -1, float("nan"), "long", True):
        with pytest.raises(ValueError, match="seconds above 0 are wanted"):
            dtoss.connect("http://127.0.0.1:8080", timeout=timeout)


def test_addresses_are_said_as_they_were_given():
    """IPv6, a prefix of a proxy, the usual port."""
    for url in ("http://127.0.0.1:8080", "https://a.example", "http://[::1]:81/taxis", "https://a.example:80/x/y"):
        assert str(address_of(url)) == str(address_of(url + "/")) == url
    index, _, _ = made(False, False)
    with answering(index) as served, pytest.raises(dtoss.DtossError, match="there is no /behind/snapshot here"):
        dtoss.connect(served.url + "/behind")
