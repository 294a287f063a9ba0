"""Tokens: who may ask what, by what a file says, and which of them a header holds.

Passes: cookies that stand for a token for an hour, where a browser follows a link and sends no header.

A pass is good for the host that it was asked of, so that a page of another name that leads here has none; and for as
long as the tokens stay as they are.
"""

from __future__ import annotations

import hmac
import re
import shlex
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from secrets import token_bytes

from dtoss.errors import InputError

_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")
_DIGEST = re.compile(r"sha256:([0-9a-fA-F]{64})")
_PLAIN = re.compile(r"[\x21-\x7e]+")
_SCHEME = b"bearer "
SUBSCRIBE, WRITE, POSITIONS, PEER, ADMIN, AGGREGATES = (
    "subscribe", "write", "positions", "peer", "admin", "aggregates",
)  # fmt: skip
SCOPES = {
    "read": "what every token may",
    SUBSCRIBE: "changes subscriptions",
    WRITE: "the older name of subscribe",
    POSITIONS: "tells positions",
    PEER: "is said by servers of a plan to each other",
    ADMIN: "reads /metrics",
    AGGREGATES: "reads sums over all objects, whatever it may see of them",
}
"""Words of a line, and what each lets its token do beside reading."""
ADMITTED = "dtoss.admitted"
"""Of a scope: the token that may ask, where that was looked up already."""
_LATEST = 4


@dataclass(frozen=True)
class Token:
    """One who may ask."""

    name: str  # For the log and the limit of the rate; several tokens may have one, while they are being exchanged
    digest: bytes  # SHA-256 of the token
    scopes: frozenset[str] = frozenset()  # Some of :data:`SCOPES`; what it may do beside reading
    where: str | None = None  # The condition on the objects that it may see; None where it may see all
    columns: tuple[str, ...] | None = None  # The attributes that it may see; None where it may see all

    @cached_property
    def narrowed(self) -> bool:
        """Whether it may not see all that there is."""
        return self.where is not None or self.columns is not None

    @cached_property
    def mark(self) -> bytes:
        """What tells answers of tokens apart that see different things; empty where a token sees all."""
        if not self.narrowed:
            return b""
        said = repr((self.where, None if self.columns is None else sorted(self.columns), self.sums))
        return b" %b" % sha256(said.encode()).hexdigest()[:16].encode()

    @cached_property
    def prefix(self) -> str | None:
        """How the ids of its subscriptions begin; None where it may see those of others.

        Other rights have another one: who may see less by now sees nothing of what was asked before.
        """
        if not self.narrowed:
            return None
        said = repr((self.where, None if self.columns is None else sorted(self.columns)))
        return f"{self.name}.{sha256(said.encode()).hexdigest()[:8]}/"

    @cached_property
    def sums(self) -> bool:
        """Whether it may read sums over all objects."""
        return not self.narrowed or AGGREGATES in self.scopes

    def may_see(self, column: str) -> bool:
        """Return whether it may see an attribute."""
        return self.columns is None or column in self.columns


EVERYBODY = Token("", b"")
"""Who asks where there are no tokens."""


def read_tokens(file: str, longest: int = 1_000) -> tuple[Token, ...]:
    """Return the tokens of a file.

    ``file``: its path. A line is ``name token`` or ``name sha256:<hex>``. Behind it stand words of :data:`SCOPES`, and
    ``where="..."`` and ``columns=a,b`` of a token that may not see all. One that begins with # says nothing.
    """
    try:
        lines = Path(file).read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError:
        raise InputError(f"the token file {file} is no text in UTF-8") from None
    except OSError as error:
        raise InputError(f"the token file {file} cannot be read: {error.strerror or error}") from None
    found = []
    for number, line in enumerate(lines, 1):
        if line.strip() and not line.lstrip().startswith("#"):
            found.append(_token(line, f"line {number} of the token file {file}", longest))
    if not found:
        raise InputError(f"the token file {file} holds no token: nobody could ask")
    return tuple(found)


def _token(line: str, where: str, longest: int) -> Token:
    """Return the token of a line, which no message shows: it may hold one."""
    name, secret, rest = (*line.split(maxsplit=2), "", "")[:3]
    if not _NAME.fullmatch(name) or not _PLAIN.fullmatch(secret):
        raise InputError(f"{where} is not: name token, or name sha256:<64 digits>")
    digest = _DIGEST.fullmatch(secret)
    if digest is None and secret.startswith("sha256:"):
        raise InputError(f"{where} has a sha256 that is not 64 hexadecimal digits")
    try:
        words = shlex.split(rest)
    except ValueError as error:
        raise InputError(f"{where} has a quotation mark too few ({error})") from None
    scopes: set[str] = set()
    given: dict[str, str] = {}
    for word in words:
        key, _, value = word.partition("=")
        if key in ("where", "columns") and key != word and key not in given:
            given[key] = value
        elif word in SCOPES and word not in scopes:
            scopes.add(word)
        else:
            raise InputError(
                f"{where} has a word behind the token that is no right, or stands twice: {', '.join(SCOPES)} are some, "
                'where="CONDITION" and columns=A,B say what it may see; without one a token may only read'
            )
    token = Token(name, bytes.fromhex(digest[1]) if digest else sha256(secret.encode()).digest(), frozenset(scopes),
                  given.get("where"), _columns(given.get("columns")))  # fmt: skip
    if token.where is not None and not 0 < len(token.where.strip()) <= len(token.where) <= longest:
        raise InputError(f"{where} has a condition of {len(token.where):,} characters: 1 to {longest:,} are read")
    if token.narrowed and PEER in scopes:
        raise InputError(f"{where} is that of a peer and may not see all: servers of a plan ask each other for all")
    if token.narrowed and POSITIONS in scopes:
        raise InputError(f"{where} tells positions and may not see all: what is told is not held against what is seen")
    return token


def _columns(text: str | None) -> tuple[str, ...] | None:
    return None if text is None else tuple(name.strip() for name in text.split(",") if name.strip())


class TokenBook:
    """Finds whose token a header holds, in a time that does not tell which one it nearly was."""

    def __init__(self, tokens: tuple[Token, ...]) -> None:
        self._tokens = tokens
        self._latest: list[tuple[bytes, Token]] = []

    def find(self, authorization: bytes) -> Token | None:
        """Return the token in a header ``Bearer <token>``; None if it is nobody's."""
        known = None
        for header, token in self._latest:
            if hmac.compare_digest(header, authorization):
                known = token
        if known is None and (known := self._of(authorization)) is not None:
            self._latest = [(authorization, known), *self._latest[: _LATEST - 1]]
        return known

    def __iter__(self) -> Iterator[Token]:
        """Go through all of them."""
        return iter(self._tokens)

    def _of(self, authorization: bytes) -> Token | None:
        if authorization[: len(_SCHEME)].lower() != _SCHEME:
            return None
        digest = sha256(authorization[len(_SCHEME) :].strip(b" ")).digest()
        found = None
        for token in self._tokens:
            if hmac.compare_digest(token.digest, digest):
                found = token
        return found


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
