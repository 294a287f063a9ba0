"""Tokens: who may ask, by what a file says, and which of them a header holds."""

from __future__ import annotations

import hmac
import re
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from dtoss.errors import InputError

_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")
_DIGEST = re.compile(r"sha256:([0-9a-fA-F]{64})")
_PLAIN = re.compile(r"[\x21-\x7e]+")
_SCHEME = b"bearer "
WRITE, PEER = "write", "peer"
"""Words of lines whose token may change subscriptions, too; or is said by servers of a plan to each other."""
RIGHTS = (WRITE, PEER)
_LATEST = 4


@dataclass(frozen=True)
class Token:
    """One who may ask.

    Parameters
    ----------
    name
        For the log and the limit of the rate; several tokens may have one, while they are being exchanged.
    digest
        SHA-256 of the token.
    right
        What it may do beside reading: one of :data:`RIGHTS`, "" for nothing.
    """

    name: str
    digest: bytes
    right: str = ""


def read_tokens(file: str) -> tuple[Token, ...]:
    """Return the tokens of a file.

    Parameters
    ----------
    file
        Its path. A line is ``name token`` or ``name sha256:<hex>``, and a word of :data:`RIGHTS` behind it lets the
        token do more; one that begins with # says nothing.

    Raises
    ------
    InputError
        If it cannot be read, a line is none of these, or there is none.
    """
    try:
        lines = Path(file).read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError:
        raise InputError(f"the token file {file} is no text in UTF-8") from None
    except OSError as error:
        raise InputError(f"the token file {file} cannot be read: {error.strerror or error}") from None
    found = []
    for number, line in enumerate(lines, 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        if not 2 <= len(words) <= 3 or not _NAME.fullmatch(words[0]) or not _PLAIN.fullmatch(words[1]):
            # the line itself may hold a token
            raise InputError(f"line {number} of the token file {file} is not: name token, or name sha256:<64 digits>")
        name, secret, right = (*words, "")[:3]
        if right and right not in RIGHTS:
            raise InputError(
                f"line {number} of the token file {file} has a third word that is no right: {' and '.join(RIGHTS)} are "
                "some, without one a token may only read"
            )
        digest = _DIGEST.fullmatch(secret)
        if digest is None and secret.startswith("sha256:"):
            raise InputError(f"line {number} of the token file {file} has a sha256 that is not 64 hexadecimal digits")
        digested = bytes.fromhex(digest[1]) if digest else sha256(secret.encode()).digest()
        found.append(Token(name, digested, right))
    if not found:
        raise InputError(f"the token file {file} holds no token: nobody could ask")
    return tuple(found)


class TokenBook:
    """Finds whose token a header holds, in a time that does not tell which one it nearly was.

    Parameters
    ----------
    tokens
        All that may ask.
    """

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

    @property
    def lets_write(self) -> bool:
        """Whether a token of it may change subscriptions."""
        return any(token.right == WRITE for token in self._tokens)

    def _of(self, authorization: bytes) -> Token | None:
        if authorization[: len(_SCHEME)].lower() != _SCHEME:
            return None
        digest = sha256(authorization[len(_SCHEME) :].strip(b" ")).digest()
        found = None
        for token in self._tokens:
            if hmac.compare_digest(token.digest, digest):
                found = token
        return found
