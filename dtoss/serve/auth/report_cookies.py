"""Passes: cookies that stand for a token for an hour, where a browser follows a link and sends no header.

A pass is good for the host that it was asked of, so that a page of another name that leads here has none; and for as
long as the tokens stay as they are.
"""

from __future__ import annotations

import hmac
import time
from hashlib import sha256
from secrets import token_bytes

PASS_SECONDS = 3_600
"""For which a pass is good, unless tokens change meanwhile."""
COOKIE = "dtoss-pass"
"""The name of the cookie."""
_SECRET = token_bytes(32)  # made before the fork: all workers of a server know it, and no other server does


def write_pass(host: bytes, tokens: str = "") -> str:
    """Return the value of a cookie that :func:`is_pass` knows for an hour.

    Examples
    --------
    >>> cookies = f"a=b; {COOKIE}={write_pass(b'localhost')}".encode()
    >>> is_pass(cookies, b"localhost"), is_pass(cookies, b"evil.example"), is_pass(None, b"localhost")
    (True, False, False)
    """
    until = int(time.time()) + PASS_SECONDS
    return f"{until}.{_sign(until, host, tokens)}"


def is_pass(cookies: bytes | None, host: bytes, tokens: str = "") -> bool:
    """Return whether a header of cookies has a pass for a host that is still good, by the tokens of now."""
    for cookie in (cookies or b"").decode("latin-1").split(";"):
        name, _, value = cookie.strip().partition("=")
        until, _, signed = value.partition(".")
        if name != COOKIE or not (until.isascii() and until.isdecimal() and len(until) < 15):
            continue
        if hmac.compare_digest(_sign(int(until), host, tokens).encode(), signed.encode("latin-1")):
            return int(until) > time.time()
    return False


def _sign(until: int, host: bytes, tokens: str) -> str:
    return hmac.new(_SECRET, b"%d %b %b" % (until, tokens.encode(), host.lower()), sha256).hexdigest()
