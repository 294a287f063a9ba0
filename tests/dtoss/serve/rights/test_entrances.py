"""Tokens in files, passes of the report, other entrances: a proxy that does TLS, and the client in Python."""

from __future__ import annotations

import asyncio
import http.client
import json
import ssl
import threading
from contextlib import contextmanager

import pytest

import dtoss
from dtoss.errors import DtossError, InputError
from dtoss.serve.auth.admission import Doors
from dtoss.serve.auth.tokens import Token, read_tokens
from dtoss.serve.rights.sight import check_tokens
from tests.dtoss.certificates import certificate
from tests.dtoss.serve.events.listening import Watch
from tests.dtoss.serve.rights.seen import OWN, bearer, doors_of
from tests.dtoss.serve.served import WAIT, Asker, running, town


def test_lines_of_a_token_file(tmp_path):
    """Words in any order, conditions with all quotation marks, lines of before as they were."""
    file = tmp_path / "tokens"
    file.write_text(
        "old one\nwriter two write\n peers three peer\n# said otherwise\n"
        "both  four  where=\"kind = 'it''s' and x > 1\"  subscribe columns=a,b admin\n"
        "none five columns=\nhash six#' where='a = 1' aggregates read\n"
    )
    found = {one.name: one for one in read_tokens(str(file))}
    plain = [(one.scopes, one.where, one.columns) for one in (found["old"], found["writer"], found["peers"])]
    assert plain == [(frozenset(), None, None), ({"write"}, None, None), ({"peer"}, None, None)]
    assert found["both"].where == "kind = 'it''s' and x > 1"
    assert (found["both"].columns, found["both"].scopes) == (("a", "b"), {"subscribe", "admin"})
    assert (found["none"].columns, found["none"].narrowed) == ((), True)
    assert found["hash"].digest == Token("", __import__("hashlib").sha256(b"six#'").digest()).digest
    assert [found[name].narrowed for name in ("old", "both", "hash")] == [False, True, True]
    for line in (
        "a b wheer=\"x = 1\"", "a b where", "a b where=", "a b where=' '", "a b where=\"x = 1", "a b admin admin",
        "a b peer where='x = 1'", "a b columns=a peer", "a b columns=a columns=b", f"a b where='{'x' * 1_001}'",
        "a b position", "a b positions where='x = 1'",
    ):  # fmt: skip
        file.write_text(f"{line.replace(' b', ' s3cret', 1)}\n")
        with pytest.raises(InputError, match="line 1 of the token file") as told:
            read_tokens(str(file))
        assert "s3cret" not in str(told.value)


def test_a_condition_or_column_that_nothing_carries_keeps_a_server_from_starting():
    index = town(objects=50)
    check_tokens([Token("a", b""), Token("b", b"", where=OWN, columns=("speed",))], index)
    for token in (Token("bad", b"", where="sped > 1"), Token("bad", b"", columns=("speed", "sped"))):
        with pytest.raises(InputError, match=r"token bad.*'sped'.*did you mean speed"):
            check_tokens([token], index)


def test_a_pass_ends_when_tokens_change_and_is_for_who_may_read_sums(tmp_path):
    (tmp_path / "report").mkdir()
    (tmp_path / "report" / "report.html").write_text("<p>report</p>")
    doors = doors_of(tmp_path)
    with running(town(objects=50), doors=doors, report=str(tmp_path / "report")) as server, Asker(server) as anybody:
        given = {}
        for name, status in (("all", 200), ("sums", 200), ("some", 403), ("columns", 403)):
            said = anybody.raw("/report/pass", "POST", **bearer(name))
            assert said[0] == status
            assert anybody.raw("/report/", **bearer(name))[0] == status
            given[name] = said[1].get("set-cookie", "").partition(";")[0]
        assert anybody.raw("/report/", cookie=given["all"])[0] == 200
        assert anybody.raw("/knn?lon=1&lat=1", cookie=given["all"])[0] == 401
        doors_of(tmp_path, 'all t-all where="speed > 1"\n')
        doors.reload()
        assert anybody.raw("/report/", cookie=given["all"])[0] == 401
        assert anybody.raw("/report/", **bearer("all"))[0] == 403


def test_connect_sees_what_the_token_sees(tmp_path):
    index = town(objects=400)
    with running(index, doors=doors_of(tmp_path)) as server:
        url = "http://{}:{}".format(*server.at)
        some, every = dtoss.connect(url, token="t-narrow"), dtoss.connect(url, token="t-all")
        at = [10.0, 50.0]
        wanted = every.knn(at, 20, where=OWN, columns=["speed"])
        found = some.knn(at, 20, columns=["speed"])
        assert found.id.tolist() == wanted.id.tolist()
        assert len(some) == index.filters.get(OWN).count
        assert list(some.column_names) == ["speed", "free"]
        hidden = next(one for one in every.knn(at, 400).id.tolist() if one not in set(some.knn(at, 400).id.tolist()))
        assert hidden not in some
        assert int(found.id[0]) in some
        with pytest.raises(DtossError, match="may see some objects"):
            some.neighbours(int(found.id[0]))
        with pytest.raises(DtossError, match="all objects"):
            some.reverse_nearest(at)
        with pytest.raises(ValueError, match="'share' is not carried"):
            some.knn(at, 1, columns=["share"])


@contextmanager
def proxied(at, folder):
    """A proxy that ends TLS in front of a worker, in a thread of its own: bytes go both ways as they come."""
    cert, key = certificate(folder)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    ready, held = threading.Event(), {}

    async def pump(reader, writer):
        try:
            while data := await reader.read(1 << 16):
                writer.write(data)
                await writer.drain()
        except OSError:
            pass
        finally:
            writer.close()

    async def passed(reader, writer):
        there_reader, there_writer = await asyncio.open_connection(*at)
        await asyncio.gather(pump(reader, there_writer), pump(there_reader, writer))

    async def run():
        held["loop"], held["ends"] = asyncio.get_running_loop(), asyncio.Event()
        server = await asyncio.start_server(passed, "127.0.0.1", 0, ssl=context)
        held["port"] = server.sockets[0].getsockname()[1]
        ready.set()
        await held["ends"].wait()
        server.close()

    thread = threading.Thread(target=lambda: asyncio.run(run()), daemon=True)
    thread.start()
    assert ready.wait(WAIT)
    try:
        yield lambda: http.client.HTTPSConnection(
            "127.0.0.1", held["port"], context=ssl.create_default_context(cafile=cert), timeout=WAIT
        )
    finally:
        held["loop"].call_soon_threadsafe(held["ends"].set)
        thread.join(WAIT)


def test_tls_may_be_ended_by_a_proxy(tmp_path):
    """Tokens, many requests of one connection, a large body and its answer, a stream as it comes."""
    watch = Watch(tmp_path / "store").begin()
    given = {"doors": doors_of(tmp_path), "store": str(tmp_path / "store")}
    with running(town(objects=400), **given) as server, proxied(server.at, tmp_path) as connect:
        link, header = connect(), bearer("some")
        for _ in range(3):
            link.request("GET", "/knn?lon=10&lat=50&k=3", headers=header)
            answer = link.getresponse()
            assert (answer.status, len(json.loads(answer.read())["hits"])) == (200, 3)
        places = json.dumps({"positions": [[10.0, 50.0]] * 5_000})
        link.request("POST", "/knn?k=20", places, header)
        assert len(json.loads(link.getresponse().read())["hits"]) == 100_000
        link.request("GET", "/knn?lon=10&lat=50")
        assert link.getresponse().read() is not None
        link.close()
        stream = connect()
        stream.request("GET", "/events", headers=bearer("all"))
        answer = stream.getresponse()
        assert answer.readline().startswith(b"retry:")
        watch.batch()
        while not answer.readline().startswith(b"data:"):
            pass
        answer.close()
        stream.close()


def test_a_reload_ends_streams_of_tokens_that_changed(tmp_path):
    """One that is gone, and one that may do something else; a token in new words that mean the same stays."""
    doors, ended = doors_of(tmp_path, "a one\nb two where='x = 1'\nc three subscribe admin\n"), []
    tokens = {token.name: token for token in doors.tokens}
    streams = [doors.listening(token, lambda name=name: ended.append(name)) for name, token in tokens.items()]
    for one in streams:
        one.__enter__()
    doors_of(tmp_path, "b two where='x = 2'\nc   three   admin subscribe\n")
    doors.reload()
    assert sorted(ended) == ["a", "b"]
    for one in streams:
        one.__exit__(None, None, None)
    assert isinstance(doors, Doors)
