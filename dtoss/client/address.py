"""Where a server is: what its URL says.

Where the servers of a plan are: a TOML file of numbers and URLs.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from dtoss.errors import InputError

PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True)
class Address:
    """Where a server is."""

    scheme: str
    host: str  # Of the server, or of what stands before it
    port: int  # Of the server, or of what stands before it
    prefix: str  # What stands before each route, without a slash at its end

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        port = "" if PORTS[self.scheme] == self.port else f":{self.port}"
        return f"{self.scheme}://{host}{port}{self.prefix}"

    @property
    def authority(self) -> str:
        """What the header Host says: host and port."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def address_of(url: str) -> Address:
    """Return what a URL says.

    Examples
    --------
    >>> address_of("http://127.0.0.1:8080/taxis/")
    Address(scheme='http', host='127.0.0.1', port=8080, prefix='/taxis')
    """
    wanted = "such as http://127.0.0.1:8080 is wanted"
    if not isinstance(url, str):
        raise ValueError(f"the server's URL is {url!r}: one {wanted}")
    if "@" in url:
        raise ValueError("the server's URL holds an @: a token is given as token=, or by --token-file, not in the URL")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise ValueError(f"the server's URL is {url!r}, which cannot be read: one {wanted}") from None
    if parts.scheme not in PORTS or not parts.hostname or parts.query or parts.fragment or port == 0:
        raise ValueError(f"the server's URL is {url!r}: one {wanted}")
    if not url.isascii() or any(letter.isspace() or not letter.isprintable() for letter in url):
        raise ValueError(f"the server's URL is {url!r}: letters of ASCII without blanks are wanted")
    return Address(parts.scheme, parts.hostname, port or PORTS[parts.scheme], parts.path.rstrip("/"))


WANTED = 'lines such as 0 = "http://10.0.0.1:8080" are wanted, and perhaps token = "..."'


@dataclass(frozen=True)
class Peers:
    """Where servers are."""

    addresses: Mapping[int, Address]  # By the number that a plan has for each
    token: str | None = None  # What servers say to each other; None where everybody may ask


def read_peers(path: str) -> Peers:
    """Return where servers are, by a file; the token may stand in one of its own, ``token_file``."""
    try:
        said = tomllib.loads(Path(path).read_text("utf-8"))
    except OSError as error:
        raise InputError(f"--peers {path}: {error.strerror or error}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"--peers {path}: {error}; {WANTED}") from None
    token, file = said.pop("token", None), said.pop("token_file", None)
    if file is not None:
        token = _token_in(path, file, token)
    if token is not None and not (isinstance(token, str) and token.isascii() and token.isprintable() and token):
        raise InputError(f"--peers {path}: the token is no line of ASCII letters")
    addresses: dict[int, Address] = {}
    for key, url in said.items():
        if not (key.isascii() and key.isdecimal()):
            raise InputError(f"--peers {path}: {key!r} is no number of a server; {WANTED}")
        try:
            addresses[int(key)] = address_of(url)
        except ValueError as error:
            raise InputError(f"--peers {path}: server {key}: {error}") from None
    if not addresses:
        raise InputError(f"--peers {path} names no server; {WANTED}")
    return Peers(addresses, token)


def _token_in(path: str, file: object, token: object) -> str:
    """Return the token of a file that the peers' file names; a relative path is of the folder of that."""
    if token is not None or not isinstance(file, str):
        raise InputError(
            f"--peers {path}: token_file is {file!r}: the path of a file is wanted, and no token beside it"
        )
    try:
        return (Path(path).parent / file).read_text("ascii").strip()
    except OSError as error:
        raise InputError(f"--peers {path}: token_file {file}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise InputError(f"--peers {path}: token_file {file}: the token is no line of ASCII letters") from None
