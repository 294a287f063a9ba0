"""Where events go or rows come from, as a URL says, and what is said of it beside."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from urllib.parse import parse_qsl, unquote, urlsplit

from dtoss.errors import InputError


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
