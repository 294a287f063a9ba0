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
    """

    name: str
    digest: bytes


def read_tokens(file: str) -> tuple[Token, ...]:
    """Return the tokens of a file: lines ``name token`` or ``name sha256:<hex>``; those that begin with # say nothing.

    Parameters
    ----------
    file
        Its path.

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
        if len(words) != 2 or not _NAME.fullmatch(words[0]) or not _PLAIN.fullmatch(words[1]):
            # the line itself may hold a token
            raise InputError(f"line {number} of the token file {file} is not: name token, or name sha256:<64 digits>")
        name, secret = words
        digest = _DIGEST.fullmatch(secret)
        if digest is None and secret.startswith("sha256:"):
            raise InputError(f"line {number} of the token file {file} has a sha256 that is not 64 hexadecimal digits")
        found.append(Token(name, bytes.fromhex(digest[1]) if digest else sha256(secret.encode()).digest()))
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
        self._latest: list[tuple[bytes, str]] = []

    def name_of(self, authorization: bytes) -> str | None:
        """Return the name of the token in a header ``Bearer <token>``; None if it is nobody's."""
        known = None
        for header, name in self._latest:
            if hmac.compare_digest(header, authorization):
                known = name
        if known is not None:
            return known
        if authorization[: len(_SCHEME)].lower() != _SCHEME:
            return None
        digest = sha256(authorization[len(_SCHEME) :].strip(b" ")).digest()
        for token in self._tokens:
            if hmac.compare_digest(token.digest, digest):
                known = token.name
        if known is not None:
            self._latest = [(authorization, known), *self._latest[: _LATEST - 1]]
        return known
