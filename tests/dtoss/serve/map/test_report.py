"""The report's folder: its files and no others, with a policy of their own, for those who have a token or a pass."""

from __future__ import annotations

import json
import re

import pytest

from dtoss.serve.auth import tokens
from dtoss.serve.routes import static_pages
from tests.dtoss.serve.served import Asker, Doors, running, town


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "secret.txt").write_text("secret")
    made = tmp_path / "report"
    made.mkdir()
    (made / "report.html").write_text("<p>report</p>")
    (made / "report.json").write_text("{}")
    (made / "keys.pem").write_text("secret")
    (made / ".hidden.json").write_text("secret")
    (made / "deep").mkdir()
    (made / "deep" / "inner.html").write_text("secret")
    return made


def test_files_of_the_report_are_sent_and_no_others(folder):
    with running(town(objects=20), report=str(folder)) as server, Asker(server) as asker:
        for path in ("/report/", "/report/report.html"):
            status, headers, body = asker.raw(path)
            assert (status, body) == (200, b"<p>report</p>")
            assert headers["content-security-policy"].encode() == static_pages.REPORT_POLICY
            assert headers["x-content-type-options"] == "nosniff"
        assert asker.raw("/report/report.json")[1]["content-type"] == "application/json"
        beyond = ("../secret.txt", "%2e%2e/secret.txt", "..%2fsecret.txt", "%5csecret.txt", "deep/inner.html", "deep")
        for name in (*beyond, "keys.pem", ".hidden.json", "nothing.html", "report.html%00", "report"):
            status, _, body = asker.raw(f"/report/{name}")
            assert status == 404, name
            assert b"secret" not in body.replace(name.encode(), b"").replace(b"secret.txt", b""), name
    with running(town(objects=20)) as server, Asker(server) as asker:
        assert asker.raw("/report/")[0] == 404


def test_a_link_out_of_the_folder_is_no_file_of_it(folder):
    """One that leads to a file of the folder is."""
    (folder / "out.txt").symlink_to(folder.parent / "secret.txt")
    (folder / "in.json").symlink_to(folder / "report.json")
    with running(town(objects=20), report=str(folder)) as server, Asker(server) as asker:
        status, _, body = asker.raw("/report/out.txt")
        assert (status, b"secret" in body) == (404, False)
        assert asker.raw("/report/in.json")[0] == 200


def test_a_pass_stands_for_a_token_there_and_nowhere_else(folder, monkeypatch):
    """For an hour, not signed by others, and only to read."""
    with running(town(objects=20), report=str(folder), doors=Doors("t0ken")) as server, Asker(server) as asker:
        assert asker.raw("/report/")[0] == 401
        assert asker.raw("/report/pass", "POST")[0] == 401
        status, headers, body = asker.raw("/report/pass", "POST", authorization="Bearer t0ken")
        assert (status, json.loads(body)) == (200, {"seconds": 3600})
        cookie, *flags = headers["set-cookie"].split("; ")
        assert set(flags) == {"Max-Age=3600", "Path=/report", "HttpOnly", "SameSite=Strict"}
        assert asker.raw("/report/", cookie=cookie)[0] == 200
        assert asker.raw("/report/", cookie=f"other=1; {cookie}")[0] == 200
        assert asker.raw("/snapshot", cookie=cookie)[0] == 401
        assert asker.raw("/report/pass", "POST", cookie=cookie)[0] == 401
        until = int(re.search(r"=(\d+)\.", cookie)[1])
        for wrong in (
            cookie[:-1],
            cookie.replace(str(until), str(until + 1)),
            f"{tokens.COOKIE}=",
            f"{tokens.COOKIE}=é.é",
        ):
            assert asker.raw("/report/", cookie=wrong.encode("latin-1"))[0] == 401, wrong
        assert asker.raw("/report/", cookie=cookie, Host="evil.example")[0] == 401
        assert asker.raw("/report/", cookie=cookie, Host="LOCALHOST")[0] == 401
        other = asker.raw("/report/pass", "POST", authorization="Bearer t0ken", Host="Map.example:80")[1]["set-cookie"]
        assert asker.raw("/report/", cookie=other, Host="map.example:80")[0] == 200
        assert asker.raw("/report/", cookie=other)[0] == 401
        monkeypatch.setattr(tokens.time, "time", lambda: until + 1.0)
        assert asker.raw("/report/", cookie=cookie)[0] == 401


def test_over_tls_the_pass_is_sent_over_tls_only(folder):
    with running(town(objects=20), report=str(folder), tls_cert="cert.pem") as server, Asker(server) as asker:
        assert asker.raw("/report/pass", "POST")[1]["set-cookie"].endswith("; Secure")
