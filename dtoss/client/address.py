"""Where a server is: what its URL says."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

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
