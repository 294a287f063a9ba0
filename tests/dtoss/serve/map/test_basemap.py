"""The ground under the map: tiles of a file, the policy for those of others, whose it is, and what is refused."""

from __future__ import annotations

import gzip
import os
import re

import pytest

from dtoss.errors import InputError
from dtoss.serve.map.map_files import Credit, basemap_of, credits_of
from dtoss.serve.map.static_files import policies_of
from tests.dtoss.serve.map.made_ground import BAY, CREDIT, PNG, archive, picture, vector_tile
from tests.dtoss.serve.served import Asker, Doors, running, town

TILE = vector_tile([("water", [("POINT (1 1)", {"kind": "sea"})])])
URL = "https://tiles.example.org:8443/data/{z}/{x}/{y}.mvt?key=a"


@pytest.fixture
def file(tmp_path):
    """A file of two vector tiles."""
    said = {"attribution": CREDIT, "vector_layers": [{"id": "water"}, {"no": 1}]}
    path = tmp_path / "ground.pmtiles"
    path.write_bytes(archive({(0, 0, 0): TILE, (10, 163, 395): TILE}, metadata=said, bounds=BAY))
    return str(path)


def test_tiles_of_a_file_are_sent_as_they_are(file):
    """As gzip to who takes it; no bytes where there is none; 404 where there can be none."""
    with running(town(objects=20), basemap=file) as server, Asker(server) as asker:
        status, headers, body = asker.raw("/basemap/10/163/395")
        assert (status, body, headers["content-type"]) == (200, TILE, "application/vnd.mapbox-vector-tile")
        assert "content-encoding" not in headers
        status, headers, body = asker.raw("/basemap/10/163/395", accept_encoding="gzip, br")
        assert (headers["content-encoding"], gzip.decompress(body)) == ("gzip", TILE)
        status, headers, body = asker.raw("/basemap/9/1/1", accept_encoding="gzip")
        assert (status, body, headers["content-length"]) == (200, b"", "0")
        for path, wanted in {"/basemap/1/2/0": 404, "/basemap/31/0/0": 400, "/basemap/a/0/0": 404}.items():
            assert asker.raw(path)[0] == wanted, path
        told = asker.get("/map")["basemap"]
    assert told["attribution"] == [
        {"text": "Made up. © ", "link": None}, {"text": "nobody", "link": "https://example.org/data"},
    ]  # fmt: skip
    assert (told["kind"], told["tiles"], told["minzoom"], told["maxzoom"]) == ("vector", "/basemap/{z}/{x}/{y}", 0, 10)
    assert told["layers"] == ["water"]
    assert told["bounds"] == pytest.approx(BAY)


def test_without_a_ground_nothing_is_told_of_one(file):
    """Nor on a plane that has no place on the Earth."""
    with running(town(objects=20)) as server, Asker(server) as asker:
        assert asker.get("/map")["basemap"] is None
        assert asker.raw("/basemap/0/0/0")[0] == 404
    with running(town("plane", objects=20), basemap=file) as server, Asker(server) as asker:
        assert asker.get("/map")["basemap"] is None


def test_tiles_need_a_token_where_the_map_does(file):
    """And are kept by nobody in between."""
    given = {"basemap": file, "doors": Doors("t0ken"), "token_file": "some"}
    with running(town(objects=20), **given) as server, Asker(server) as asker:
        assert asker.raw("/basemap/0/0/0")[0] == 401
        status, headers, body = asker.raw("/basemap/0/0/0", authorization="Bearer t0ken")
        assert (status, body) == (200, TILE)
        assert headers["cache-control"].startswith("private")
        assert "authorization" in headers["vary"]


def test_a_tile_that_cannot_be_read_is_said(tmp_path):
    """Without what is in the file or where it is."""
    path = tmp_path / "ground.pmtiles"
    path.write_bytes(archive({(0, 0, 0): picture((9, 9, 9))}, PNG))
    with running(town(objects=20), basemap=str(path)) as server, Asker(server) as asker:
        assert asker.raw("/basemap/0/0/0")[1]["content-type"] == "image/png"
        path.write_bytes(path.read_bytes()[:200])
        status, _, body = asker.raw("/basemap/0/0/0")
        assert status == 500
        assert b"cut short while it is open" in body
        assert str(tmp_path).encode() not in body


def policy(headers):
    return dict(one.strip().split(" ", 1) for one in headers["content-security-policy"].split(";"))


def test_the_policy_opens_for_the_origin_of_a_template_and_for_no_other():
    """On the map alone; who has the tiles hears the page's origin, as they ask for, and no more."""
    with running(town(objects=20), basemap=URL, basemap_attribution="A & <b>B</b>") as server, Asker(server) as asker:
        told, headers = asker.get("/map")["basemap"], asker.raw("/")[1]
        docs = asker.raw("/docs")[1]
        assert asker.raw("/basemap/0/0/0")[0] == 404
    assert (told["tiles"], told["kind"], told["attribution"]) == (URL, "vector", [{"text": "A & B", "link": None}])
    plain = policy({"content-security-policy": dict(policies_of())[b"content-security-policy"].decode()})
    opened = policy(headers)
    assert policy(docs) == plain
    origin = " https://tiles.example.org:8443"
    assert opened == plain | {name: plain[name] + origin for name in ("connect-src", "img-src")}
    assert headers["referrer-policy"] == "strict-origin"
    assert docs["referrer-policy"] == "no-referrer"


def test_a_template_says_of_what_kind_its_tiles_are():
    """By the end of its path; pictures go on to zoom 19."""
    for end, kind, deepest in ((".mvt", True, 14), (".PBF?v=.png", True, 14), (".png", False, 19), ("", False, 19)):
        made = basemap_of(f"http://localhost/{{z}}/{{x}}/{{y}}{end}")
        assert (made.vector, made.zooms, made.origin) == (kind, (0, deepest), "http://localhost"), end


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ("nowhere.pmtiles", "No such file or directory"),
        (".", "Is a directory"),
        (__file__, "it is no PMTiles file"),
        ("https://example.org/tiles.pmtiles", "{z}, {x} and {y} are wanted"),
        ("https://example.org/{z}/{x}.png", "{z}, {x} and {y} are wanted"),
        ("https://example.org/{z}/{x}/{y}{r}.png", "nothing else in braces"),
        ("https://example.org/{z}/{x}/{y}/{.png", "nothing else in braces"),
        ("https://{s}.example.org/{z}/{x}/{y}.png", "a host without a user"),
        ("https://{z}/{x}/{y}.png", "a host without a user"),
        ("https://me:secret@example.org/{z}/{x}/{y}.png", "a host without a user"),
        ("https://example.org;script-src */{z}/{x}/{y}.png", "a host without a user"),
        ("https://example.org/{z}/{x}/{y}.png\r\nx: y", "a host without a user"),
        ("https://[::1/{z}/{x}/{y}.png", "--basemap https://[::1/"),
        ("https:///{z}/{x}/{y}.png", "a host without a user"),
        ("ftp://example.org/{z}/{x}/{y}.png", "http or https"),
        ("file:///etc/{z}/{x}/{y}", "http or https"),
    ],
)
def test_what_is_no_ground_is_one_line(given, why):
    with pytest.raises(InputError) as told:
        basemap_of(given)
    assert why in str(told.value)
    assert str(told.value).startswith("--basemap ")


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("", []),
        ("© A &amp; B", [("© A & B", None)]),
        ('<img src=x onerror="alert(1)">&lt;b&gt;', [("<b>", None)]),
        ("<script>alert(1)</script><style>p</style>us", [("us", None)]),
        ('<a href="javascript:alert(1)">us</a>', [("us", None)]),
        ("<a href='&#106;avascript:alert(1)'>us</a>", [("us", None)]),
        ("<a href='//evil.example'>us</a>", [("us", None)]),
        ("<a href='https://a b'>us</a>", [("us", None)]),
        ("<a href=' HTTPS://osm.org/copyright '>us</a> and", [("us", "HTTPS://osm.org/copyright"), (" and", None)]),
        ("<a href='https://a'>one<a href='https://b'>two", [("one", "https://a"), ("two", "https://b")]),
        ("a\n  b<!-- c --><", [("a b", None), ("<", None)]),
        ("x" * 5000, [("x" * 2000, None)]),
    ],
)
def test_whose_it_is_becomes_text_and_links_of_http(text, wanted):
    found = credits_of(text)
    joined = [(one.text, one.link) for one in found]
    if "<!--" in text:
        assert "".join(one for one, _ in joined).rstrip("<") == "a b"
        return
    assert joined == wanted
    assert all(
        isinstance(one, Credit) and (one.link is None or re.match("https?://", one.link.lower())) for one in found
    )


def test_a_pipe_is_no_file_and_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="Illegal seek"):
        basemap_of(str(tmp_path / "pipe"))


def test_what_a_person_says_of_a_file_stands_in_place_of_its_own(file):
    assert basemap_of(file, "mine").attribution == (Credit("mine", None),)
