"""Who may come in: tokens of a file, a rate for each of them, and pages of named origins."""

from __future__ import annotations

import hmac
from contextlib import suppress
from hashlib import sha256

import pytest

from dtoss.errors import InputError
from dtoss.serve.auth.admission import Buckets, Doors, Origins
from dtoss.serve.auth.tokens import EVERYBODY, read_tokens
from dtoss.serve.core.problems import Problem

SECRET = "s3cret-Of_the.map"


@pytest.fixture
def file(tmp_path):
    """Two who may ask; the second has two tokens, one of which is not written down."""
    path = tmp_path / "tokens"
    digest = sha256(b"other").hexdigest()
    path.write_text(f"# those who may ask\n\n  map   {SECRET}  \nfleet first\nfleet sha256:{digest.upper()}\n")
    return path


def refused(doors, header):
    with pytest.raises(Problem) as found:
        doors.admit(header)
    return found.value


def test_a_token_opens_and_nothing_else_does(file):
    doors = Doors(str(file))
    for _ in range(2):  # the second time from memory
        assert doors.admit(f"Bearer {SECRET}".encode()).name == "map"
        assert doors.admit(b"bearer first").name == "fleet"
        assert doors.admit(b"BEARER  other ").name == "fleet"
    plain = SECRET.encode()
    nobody = (b"", b"Bearer", b"Bearer ", b"Bearer map", b"Bearer \xff\x00")
    wrong = (*nobody, plain, b"Basic " + plain, b"Digest " + plain)
    for header in (*wrong, f"Bearer {SECRET}x".encode(), f"Bearer {SECRET[:-1]}".encode(), b"Bearer firstother"):
        problem = refused(doors, header)
        assert (problem.status, problem.detail.startswith("the token is not known")) == (401, True), header
        assert problem.headers() == [(b"www-authenticate", b'Bearer realm="dtoss"')]
    assert refused(doors, None).detail.startswith("no token came with the request")


def compare(monkeypatch, answer=None):
    """Let ``compare_digest`` say an answer, None what it says; return a list that grows by what it compares."""
    compared, real = [], hmac.compare_digest
    monkeypatch.setattr(
        hmac, "compare_digest", lambda *pair: compared.append(pair) or (real(*pair) if answer is None else answer)
    )
    return compared


def test_tokens_are_compared_whole_and_all_of_them_whichever_it_nearly_is(file, monkeypatch):
    """By ``compare_digest`` of SHA-256 alone, whose time tells nothing; no comparison is left out after another."""
    compared = compare(monkeypatch)
    digests = [sha256(secret.encode()).digest() for secret in (SECRET, "first", "other")]
    headers = [SECRET, "first", "other", "", "x", SECRET[:-1], SECRET[:-1] + "q", f"{SECRET}x", "x" * 5_000]
    for secret in headers:
        for ask in (Doors(str(file)).may_write, Doors(str(file)).admit):
            compared.clear()
            with suppress(Problem):
                ask(f"Bearer {secret}".encode())
            asked = sha256(secret.encode()).digest()
            assert sorted(sorted(pair) for pair in compared) == sorted(sorted((one, asked)) for one in digests)
    # nothing else decides
    compare(monkeypatch, False)
    assert refused(Doors(str(file)), b"Bearer first").status == 401
    compare(monkeypatch, True)
    assert Doors(str(file)).admit(b"Bearer nobody's").name == "fleet"


def test_a_token_that_has_opened_is_compared_as_any_other(file, monkeypatch):
    """It is known again by its whole header, by ``compare_digest`` as well."""
    compared = compare(monkeypatch)
    doors = Doors(str(file))
    for secret in ("first", "other", SECRET):
        doors.admit(f"Bearer {secret}".encode())
    for secret in ("first", "other", SECRET):
        compared.clear()
        doors.admit(f"Bearer {secret}".encode())
        assert len(compared) == 3
    for secret in ("firs", "nobody's", SECRET[:-1]):
        compared.clear()
        assert refused(doors, f"Bearer {secret}".encode()).status == 401
        assert len(compared) == 3 + 3
    compare(monkeypatch, False)
    assert refused(doors, b"Bearer first").status == 401


def test_a_digest_in_the_file_is_not_a_token(file):
    assert refused(Doors(str(file)), b"Bearer sha256:" + sha256(b"other").hexdigest().encode()).status == 401


def test_who_may_write(tmp_path):
    """Who is marked, and nobody else; without a file nobody is. A word that is no right is no mark."""
    path = tmp_path / "tokens"
    digest = sha256(b"second").hexdigest()
    path.write_text(f"map {SECRET}\nfleet first write\nfleet sha256:{digest} write\nfleet third\n")
    doors = Doors(str(path))
    assert doors.lets_write
    for header in (b"Bearer first", b"bearer  second "):
        assert doors.admit(header).name == "fleet"
        assert doors.may_write(header)
    for header in (None, b"", b"first", b"Basic first", b"Bearer third", f"Bearer {SECRET}".encode(), b"Bearer write"):
        assert not doors.may_write(header)
    path.write_text("fleet first\n")
    doors.reload()
    assert not doors.may_write(b"Bearer first")
    assert not doors.lets_write
    assert not Doors().may_write(b"Bearer first")
    assert not Doors().lets_write
    for word in ("wirte", "WRITE", "write write", "#write"):
        path.write_text(f"fleet first {word}\n")
        with pytest.raises(InputError, match="line 1 of the token file"):
            read_tokens(str(path))


def test_without_a_file_everybody_may_ask():
    assert [Doors().admit(header).name for header in (None, b"Bearer x", b"\xff")] == ["", "", ""]


def test_tokens_change_while_the_server_runs(file):
    """One that is gone from the file opens no longer, though it did a moment ago; a bad file changes nothing."""
    told = []
    doors = Doors(str(file), tell=lambda what, **facts: told.append((what, facts)))
    assert doors.admit(f"Bearer {SECRET}".encode()).name == "map"
    for content in ("map\n", "", None):
        file.unlink() if content is None else file.write_text(content)
        doors.reload()
        assert doors.admit(f"Bearer {SECRET}".encode()).name == "map"
    file.write_text("map new\n")
    doors.reload()
    assert doors.admit(b"Bearer new").name == "map"
    assert refused(doors, f"Bearer {SECRET}".encode()).status == 401
    assert [what for what, _ in told] == ["tokens kept"] * 3 + ["tokens read"]
    assert all(str(file) in facts["detail"] for _, facts in told[:3])


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (f"map {SECRET}\nmap {SECRET} again\n", "line 2 of the token file"),
        (SECRET, "line 1 of the token file"),
        (f"m/ap {SECRET}", "line 1 of the token file"),
        (f"map {SECRET}ö", "line 1 of the token file"),
        (f"map sha256:{SECRET}", "line 1 of the token file .* that is not 64 hexadecimal digits"),
        ("# nobody\n", "holds no token: nobody could ask"),
        (b"map \xff\xfe", "is no text in UTF-8"),
    ],
)
def test_a_bad_file_is_refused_without_showing_a_token(tmp_path, content, said):
    path = tmp_path / "tokens"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(InputError, match=said) as found:
        read_tokens(str(path))
    assert SECRET not in str(found.value)
    assert "\n" not in str(found.value)


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(InputError, match="no-tokens cannot be read: No such file"):
        Doors(str(tmp_path / "no-tokens"))


class Clock:
    """Seconds as a test says them."""

    now = 50.0

    def __call__(self):
        return self.now


def test_a_bucket_holds_one_second_and_fills_at_its_rate():
    clock = Clock()
    buckets = Buckets(10.0, clock)
    assert [buckets.take("a") for _ in range(11)] == [0] * 10 + [1]
    assert buckets.take("b") == 0
    clock.now += 0.1
    assert [buckets.take("a") for _ in range(2)] == [0, 1]
    clock.now += 100.0
    assert [buckets.take("a") for _ in range(11)] == [0] * 10 + [1]
    slow = Buckets(0.1, clock)
    assert [slow.take("a") for _ in range(2)] == [0, 10]
    clock.now += 9.5
    assert slow.take("a") == 1  # asking in vain takes nothing
    clock.now += 0.5
    assert slow.take("a") == 0


def test_a_request_that_another_server_counts_is_given_back():
    """As if it had never been admitted; who has no rate has nothing to give back."""
    doors = Doors(None, rate=2.0)
    for _ in range(9):
        doors.give_back(doors.admit(None))
    for _ in range(2):
        doors.admit(None)
    with pytest.raises(Problem):
        doors.admit(None)
    Doors(None).give_back(EVERYBODY)


@pytest.mark.parametrize("rate", [0.0, -1.0, float("inf"), float("nan")])
def test_a_rate_is_a_number_above_0(rate):
    with pytest.raises(ValueError, match="a number of requests/s above 0 is wanted"):
        Buckets(rate)


def test_who_asks_too_often_is_told_when_to_come_again(file):
    """Each token has a rate of its own, of which a worker gives its share; without tokens all share one."""
    doors = Doors(str(file), rate=4.0, workers=2)
    assert [doors.admit(b"Bearer first").name, doors.admit(b"Bearer other").name] == ["fleet", "fleet"]
    problem = refused(doors, b"Bearer first")
    assert (problem.status, problem.limit, problem.bound, problem.retry_after) == (429, "rate", 4.0, 1)
    assert problem.detail == "fleet may ask 4 times a second: wait 1 s"
    assert problem.headers() == [(b"retry-after", b"1")]
    assert doors.admit(f"Bearer {SECRET}".encode()).name == "map"
    for_all = Doors(rate=1.0)
    assert for_all.admit(None).name == ""
    assert refused(for_all, b"Bearer x").detail.startswith("everybody together may ask 1 times")


MAP, OTHER = b"https://map.example.org", b"https://other.example.org:8443"


def test_pages_of_named_origins_may_ask():
    doors = Doors(origins=[MAP.decode(), OTHER.decode()])
    for origin in (MAP, OTHER):
        told = dict(doors.cors(origin))
        assert told[b"access-control-allow-origin"] == origin
        assert told[b"vary"] == b"origin"
        assert {b"etag", b"x-dtoss-snapshot", b"x-request-id"} <= set(
            told[b"access-control-expose-headers"].split(b", ")
        )
        first = dict(doors.preflight(origin))
        assert told.items() < first.items()
        assert first[b"access-control-allow-methods"] == b"GET, POST, DELETE, OPTIONS"
        assert b"authorization" in first[b"access-control-allow-headers"].split(b", ")
    for origin in (b"https://map.example.org.evil.org", b"http://map.example.org", b"null", b"*"):
        assert doors.cors(origin) == doors.preflight(origin) == [(b"vary", b"origin")]
    assert doors.cors(None) == doors.preflight(None) == []


def test_a_star_stands_for_all_origins_and_nothing_is_told_without_any():
    every = Origins(["*"])
    assert dict(every.headers(OTHER))[b"access-control-allow-origin"] == b"*"
    assert b"access-control-max-age" in dict(every.preflight(OTHER))
    assert every.headers(None) == []
    assert Origins([]).headers(MAP) == Origins([]).preflight(MAP) == []


@pytest.mark.parametrize(
    "origin", ["map.example.org", "https://map.example.org/", "ftp://a", "https://", "", "http://[a"]
)
def test_what_is_no_origin_is_refused(origin):
    with pytest.raises(InputError, match=r"is no origin: https://map\.example\.org is one"):
        Doors(origins=[origin])
