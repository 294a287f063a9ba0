"""The files of the pages: those of the package, compressed where that is read, kept by browsers, and safe."""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import tomllib
from importlib.resources import files

import pytest

import dtoss.serve
from dtoss.serve.map.static_files import load_static_files, policies_of
from tests.dtoss.serve.served import Asker, Doors, running, town

STATIC = files(dtoss.serve).joinpath("static")
VENDOR = STATIC.joinpath("vendor")


@pytest.fixture(scope="module")
def served():
    with running(town(objects=50), doors=Doors("secret")) as made:
        yield made


def test_vendored_files_are_those_of_their_packages():
    """Each of them is named with its hash, none besides; each package has its licence."""
    packages = tomllib.loads(VENDOR.joinpath("VENDOR.toml").read_text())["package"]
    known = {}
    for package in packages:
        assert re.fullmatch(r"\d+\.\d+\.\d+", package["version"])
        assert any(name.endswith("LICENSE.txt") for name in package["files"])
        known |= package["files"]
    found = {entry.name: hashlib.sha256(entry.read_bytes()).hexdigest() for entry in VENDOR.iterdir()}
    assert found.pop("VENDOR.toml")
    assert found == known
    assert b"v6.17.0" in VENDOR.joinpath("maplibre-gl.mjs").read_bytes()[:300]


def test_each_file_is_sent_as_it_is_without_a_token(served):
    with Asker(served) as asker:
        assert asker.raw("/snapshot")[0] == 401
        for name, file in load_static_files().items():
            status, headers, body = asker.raw(f"/static/{name}")
            assert (status, body) == (200, file.body)
            assert headers["x-content-type-options"] == "nosniff"
            status, headers, body = asker.raw(f"/static/{name}", accept_encoding="gzip, br")
            assert (headers["content-encoding"], gzip.decompress(body)) == ("gzip", file.body)
            status, again, body = asker.raw(f"/static/{name}", if_none_match=headers["etag"])
            assert (status, body, again["etag"]) == (304, b"", headers["etag"])
        for path, name in {"/": "index.html", "/docs": "docs.html"}.items():
            status, headers, body = asker.raw(path)
            assert (status, body) == (200, load_static_files()[name].body)
            assert {name: headers[name.decode()].encode() for name, _ in policies_of()} == dict(policies_of())
            assert headers["content-type"] == "text/html; charset=utf-8"


def test_the_policy_of_the_pages_forbids_frames_inline_code_and_other_origins():
    told = dict(
        one.strip().split(" ", 1) for one in dict(policies_of())[b"content-security-policy"].decode().split(";")
    )
    assert told["frame-ancestors"] == told["base-uri"] == told["form-action"] == "'none'"
    assert told["default-src"] == "'self'"
    for kind in told.keys() - {"frame-ancestors", "base-uri", "form-action"}:
        pictures = {"data:", "blob:"} if kind == "img-src" else set()
        assert set(told[kind].split()) <= {"'self'"} | pictures, kind


def test_what_is_no_file_of_the_pages_is_not_there(served):
    with Asker(served) as asker:
        for path in (
            "nothing.js",
            "../settings.py",
            "%2e%2e/settings.py",
            "vendor",
            "vendor/VENDOR.toml",
            "/etc/hosts",
            "",
        ):
            status, _, body = asker.raw(f"/static/{path}")
            assert status == 404, path
            assert json.loads(body)["status"] == 404


def test_land_is_that_of_the_export(served):
    with Asker(served) as asker:
        assert asker.get("/static/land.geojson")["geometry"]["type"] == "MultiPolygon"


def test_pages_hold_nothing_inline_and_name_no_other_origin():
    """What the policy would refuse stands in no page; what a page loads is there."""
    for name, file in load_static_files().items():
        if not name.endswith(".html"):
            continue
        text = file.body.decode()
        assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\sstyle=|\son\w+=|javascript:", text), name
        loaded = re.findall(r'(?:src|href)="([^"]*)"', text)
        assert len(loaded) > 4
        for target in loaded:
            if target.startswith("/static/"):
                assert target.removeprefix("/static/") in load_static_files(), target
            else:
                assert re.match(r"(#|data:|/$|/docs$|/report/$|/openapi\.json$)", target), target


def test_our_scripts_are_modules_that_a_person_can_read():
    """One idea a file, the map itself in at most 700 lines; none evaluates text or writes HTML, or names an origin."""
    scripts = {name: file.body.decode() for name, file in load_static_files().items() if re.fullmatch(r"\w+\.js", name)}
    assert len(scripts) == 27
    for name, text in scripts.items():
        lines = text.splitlines()
        assert len(lines) <= (700 if name == "map.js" else 150), name
        assert max(map(len, lines)) <= 140, name
        written = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|setHTML"
        assert not re.search(written, text), name
        assert not re.search(r"https?://", text), name
    assert sum(len(text.splitlines()) for text in scripts.values()) <= 3_000


def test_the_page_loads_its_modules_at_once():
    """Each that the map imports is named in the page: none waits for another."""
    page, text = load_static_files()["index.html"].body.decode(), load_static_files()["map.js"].body.decode()
    for name in re.findall(r"from '\./(\w+\.js)'", text):
        assert f'<link rel="modulepreload" href="/static/{name}">' in page
