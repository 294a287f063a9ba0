"""A document at a URL: what of it is taken, when it is another one, and what a server may say instead."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from dtoss.client.endpoint import Access, place_of
from dtoss.client.http_connections import Later
from dtoss.errors import InputError
from dtoss.feeds.feed import Batch, feed_at
from dtoss.feeds.polled_url import PolledUrl


@contextmanager
def serving(*answers):
    """A server that gives these answers one after the other, and what it was asked: status, headers, body."""
    asked, left = [], list(answers)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append((self.path, {name.lower(): value for name, value in self.headers.items()}))
            status, headers, body = left.pop(0) if len(left) > 1 else left[0]
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}", asked
        server.shutdown()


def document(rows, **headers):
    return 200, {"content-type": "application/json", **{n.replace("_", "-"): v for n, v in headers.items()}}, rows


def test_a_document_is_taken_again_when_it_has_changed_and_was_acknowledged():
    one, two = b'[{"id": 1},\n {"id": 2}]', b'{"id": 3}\n{"id": 4}\n'
    answers = [
        document(one, etag='"a"', last_modified="then"),
        document(one, etag='"a"'),
        (304, {}, b""),
        document(two),
    ]
    with serving(*answers) as (url, asked):
        feed = feed_at(f"{url}/f?x=1", Access("s3cret", every=1e-9))
        first = feed.take(0)
        assert [json.loads(line) for line in first.rows()] == [{"id": 1}, {"id": 2}]
        assert asked[-1][0] == "/f?x=1"
        assert asked[-1][1]["authorization"] == "Bearer s3cret"
        again = feed.take(0)  # nobody has acknowledged it
        assert again.rows() == first.rows()
        assert "if-none-match" not in asked[-1][1]
        feed.acknowledge(first)
        assert feed.take(0) is None
        assert (asked[-1][1]["if-none-match"], asked[-1][1]["if-modified-since"]) == ('"a"', "then")
        assert feed.take(0).rows() == [b'{"id": 3}', b'{"id": 4}']


def test_the_same_bytes_are_not_taken_twice_where_a_server_knows_no_etag():
    with serving(document(b'[{"id": 1}]')) as (url, _):
        feed = feed_at(url, Access(every=1e-9))
        feed.acknowledge(feed.take(0))
        assert feed.take(0) is None


def test_rows_below_a_member_and_csv():
    body = json.dumps({"data": {"bikes": [{"id": 1}, {"id": 2}]}, "ttl": 3}).encode()
    with serving(document(body)) as (url, _):
        assert feed_at(f"{url}/#data.bikes").take(0).rows() == [b'{"id": 1}', b'{"id": 2}']
        assert feed_at(f"{url}/#data.cars").take(0).rows() == [b"null"]
    with serving((200, {"content-type": "text/csv; charset=utf-8"}, b"id,x\n1,2\n")) as (url, _):
        batch = feed_at(url).take(0)
        assert (batch.csv, batch.rows()) == (True, [b"id,x\n1,2\n"])


@pytest.mark.parametrize(
    ("answer", "why", "seconds"),
    [
        ((503, {"retry-after": "7"}, b"busy"), "answers 503", 7.0), ((404, {}, b""), "answers 404", 0.0),
        ((302, {"location": "http://169.254.169.254/"}, b""), "name the URL that it leads to", 0.0),
        ((429, {"retry-after": "soon"}, b""), "answers 429", 0.0),
    ],
)  # fmt: skip
def test_what_is_not_a_document_is_asked_for_later_and_no_redirect_is_followed(answer, why, seconds):
    with serving(answer) as (url, asked):
        with pytest.raises(Later, match=why) as told:
            feed_at(url).take(0)
        assert (told.value.seconds, len(asked)) == (seconds, 1)


def test_a_document_has_a_bound_and_who_is_away_is_asked_later():
    with serving(document(b" " * 101)) as (url, _), pytest.raises(Later, match="more than 100 bytes"):
        PolledUrl(place_of(url), Access(), largest=100).take(0)
    with pytest.raises(Later, match="cannot be read"):
        feed_at(url).take(0)


def test_it_is_not_looked_at_before_it_is_time():
    with serving(document(b"[]")) as (url, asked):
        feed = feed_at(url, Access(every=1e6))
        feed.take(0)
        assert feed.take(0) is None
        assert len(asked) == 1


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("ftp://host/a", "is no source"), ("http://", "HOST/PATH is wanted"), ("https://a:b@host/", "password"),
        ("http://host:x/", "cannot be read"), ("redis://host/0", "stream=NAME"),
        ("redis://host/x?stream=a", "stream=NAME"),
        ("redis://host/?stream=a&grup=b", "'grup'"), ("https://a@host/", "without a user"), ("nothing", "is no source"),
    ],
)  # fmt: skip
def test_what_is_no_source_is_said_in_a_line(url, why):
    with pytest.raises(InputError, match=why) as told:
        feed_at(url)
    assert "\n" not in str(told.value)
    assert "a:b" not in str(told.value)


def test_messages_are_lines_of_rows():
    messages = (b'{"a":\r\n 1}', b'[{"b": 2}, 3]', b"[broken", b"", b" \n", b"word")
    assert Batch(messages, None).rows() == [
        b'{"a":   1}', b'{"b": 2}', b"3", b"[broken", b"null", b"null", b"word",
    ]  # fmt: skip
