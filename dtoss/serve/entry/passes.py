"""Passes: cookies that stand for a token for an hour, where a browser follows a link and sends no header."""

from __future__ import annotations

import hmac
import time
from hashlib import sha256
from secrets import token_bytes

PASS_SECONDS = 3_600
"""For which a pass is good, also if its token is taken back meanwhile."""
COOKIE = "dtoss-pass"
"""The name of the cookie."""
_SECRET = token_bytes(32)  # made before the fork: all workers of a server know it, and no other server does


def write_pass() -> str:
    """Return the value of a cookie that :func:`is_pass` knows for an hour.

    Examples
    --------
    >>> is_pass(f"a=b; {COOKIE}={write_pass()}".encode()), is_pass(f"{COOKIE}=9999999999.00".encode()), is_pass(None)
    (True, False, False)
    """
    until = int(time.time()) + PASS_SECONDS
    return f"{until}.{_signed(until)}"


def is_pass(cookies: bytes | None) -> bool:
    """Return whether a header of cookies has a pass that is still good."""
    for cookie in (cookies or b"").decode("latin-1").split(";"):
        name, _, value = cookie.strip().partition("=")
        until, _, signed = value.partition(".")
        if name != COOKIE or not (until.isascii() and until.isdecimal() and len(until) < 15):
            continue
        if hmac.compare_digest(_signed(int(until)).encode(), signed.encode("latin-1")):
            return int(until) > time.time()
    return False


def _signed(until: int) -> str:
    return hmac.new(_SECRET, str(until).encode(), sha256).hexdigest()
