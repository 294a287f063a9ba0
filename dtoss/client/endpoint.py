"""Where a server is, where events go or rows come from, as a URL says, and what is said of it beside.

Where the servers of a plan are: a TOML file of numbers and URLs.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

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


@dataclass(frozen=True)
class Place:
    """What a URL says."""

    scheme: str
    hosts: tuple[tuple[str, int | None], ...]  # Each with its port, None where the URL has none; of most targets one
    user: str | None
    path: str  # As the URL has it, with the slash before it
    query: str  # As the URL has it
    part: str = ""  # What stands behind a #
    option: str = "--to"  # That names the URL

    def __str__(self) -> str:
        """Return what messages call it: a path and a query may hold what nobody else may know."""
        return f"{self.scheme}://" + ",".join(_host_text(host, port) for host, port in self.hosts)

    @property
    def host(self) -> str:
        """The only one."""
        return self.hosts[0][0]

    def port(self, usual: int) -> int:
        """Return the port of the only host."""
        return self.hosts[0][1] or usual

    @property
    def name(self) -> str:
        """The path without the slash before it, as it was meant."""
        return unquote(self.path.removeprefix("/"))

    def options(self, *known: str) -> dict[str, str]:
        """Return what the query says, where it says nothing else than these."""
        found = dict(parse_qsl(self.query, keep_blank_values=True))
        for name in found:
            if name not in known:
                more = f": {', '.join(known)} may stand there" if known else ""
                raise InputError(f"{self.option} {self} has {name!r} behind its ?, which says nothing{more}")
        return found


@dataclass(frozen=True)
class Access:
    """What is said of a target or a source beside its URL."""

    secret: str | None = None  # Lines of what signs or opens: keys, a password, a token; no line end behind the last
    allowed: frozenset[str] = frozenset()  # Hosts that may be at a private address, in small letters
    timeout: float = 30.0  # Seconds that it may take for a batch, or an answer
    every: float = 10.0  # Seconds between two looks, of what is looked at
    whole: bool = False  # Whether a document is one message, whatever it holds
    upto: Callable[[str], Mapping[int, int]] = lambda source: {}  # Where a source goes on, by its name
    read_as: str = ""  # How rows are read: a document that is read otherwise is another one


def place_of(url: str, option: str = "--to", parted: bool = False) -> Place:
    """Return what a URL says; ``parted``: whether a # says which part of a document is meant."""
    begin = url.partition(":")[0][:20]
    if not (url.isascii() and url.isprintable() and " " not in url):
        raise InputError(f"{option} {begin}:... holds blanks or letters beyond ASCII: write them as %20 and so on")
    try:
        parts = urlsplit(url)
        user, mark, hosts = parts.netloc.rpartition("@")
        found = tuple(_host(one) for one in hosts.split(",")) if hosts else ()
    except ValueError:
        raise InputError(f"{option} {begin}:... cannot be read: a URL such as https://HOST/PATH is wanted") from None
    if ":" in user:
        raise InputError(f"{option} {begin}:... holds a password: --secret-file FILE is where it stands")
    if parts.fragment and not parted:
        raise InputError(f"{option} {begin}:... has a #, which nobody is told: write %23")
    user_name = unquote(user) if mark else None
    return Place(parts.scheme, found, user_name, parts.path, parts.query, parts.fragment, option)


def printable(text: str) -> str:
    """Return what a stranger has said on one line, without what a terminal would obey; 200 characters at most."""
    return " ".join("".join(one if one.isprintable() else " " for one in text).split())[:200]


def _host(text: str) -> tuple[str, int | None]:
    parts = urlsplit(f"//{text}")
    if not parts.hostname or parts.port == 0:
        raise ValueError(text)
    return parts.hostname, parts.port


def _host_text(host: str, port: int | None) -> str:
    return (f"[{host}]" if ":" in host else host) + ("" if port is None else f":{port}")
