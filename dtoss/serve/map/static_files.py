"""The files of the pages, which come with the package: read, compressed and named by their bytes once."""

from __future__ import annotations

import gzip
import hashlib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import dtoss.export
from dtoss.serve.answers.responses import weights_of

CONTENT_TYPES = {
    ".css": b"text/css; charset=utf-8",
    ".csv": b"text/csv; charset=utf-8",
    ".geojson": b"application/geo+json",
    ".html": b"text/html; charset=utf-8",
    ".js": b"text/javascript; charset=utf-8",
    ".json": b"application/json",
    ".mjs": b"text/javascript; charset=utf-8",
    ".png": b"image/png",
    ".svg": b"image/svg+xml",
    ".txt": b"text/plain; charset=utf-8",
}
"""Content types by the end of a name; nothing else is served."""
SAFE = [(b"x-content-type-options", b"nosniff"), (b"referrer-policy", b"no-referrer")]
"""Headers of all files."""


def policies_of(origin: str | None = None) -> list[tuple[bytes, bytes]]:
    """Return the headers of what a page may load and do: nothing of others, nothing inline.

    ``origin``: tiles of the ground are loaded from there as well, which is told the page's origin, as tile servers ask.
    """
    also = "" if origin is None else f" {origin}"
    policy = (
        f"default-src 'self'; connect-src 'self'{also}; worker-src 'self'; img-src 'self' data: blob:{also}; "
        "style-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
    )
    told = dict(SAFE) if origin is None else dict(SAFE) | {b"referrer-policy": b"strict-origin"}
    return [*told.items(), (b"content-security-policy", policy.encode())]


@dataclass(frozen=True)
class StaticFile:
    """A file as it is sent."""

    body: bytes  # Its bytes
    zipped: bytes  # The same as gzip
    headers: tuple[tuple[bytes, bytes], ...]  # What both have in common
    tag: bytes


@cache
def load_static_files() -> dict[str, StaticFile]:
    """Return the files of the pages by their names below ``/static/``. Cost: a quarter of a second, once."""
    found = {"land.geojson": _ready("land.geojson", files(dtoss.export).joinpath("land_110m.geojson").read_bytes())}
    waiting = [("", files("dtoss.serve").joinpath("static"))]
    while waiting:
        before, folder = waiting.pop()
        for entry in folder.iterdir():
            name = before + entry.name
            if entry.is_dir():
                waiting.append((f"{name}/", entry))
            elif ending(name) in CONTENT_TYPES:
                found[name] = _ready(name, entry.read_bytes())
    return found


def takes_gzip(accepted: str) -> bool:
    """Return whether the header Accept-Encoding of a request lets the answer be gzip.

    Examples
    --------
    >>> [takes_gzip(header) for header in ("gzip, deflate, br", "br;q=1.0, gzip;q=0.8", "gzip;q=0", "identity", "")]
    [True, True, False, False, False]
    """
    return weights_of(accepted).get("gzip", 0.0) > 0.0


def ending(name: str) -> str:
    """Return the end of a name with its dot, in small letters.

    Examples
    --------
    >>> ending("vendor/map.min.JS")
    '.js'
    """
    return "." + name.rpartition(".")[2].lower()


def _ready(name: str, body: bytes) -> StaticFile:
    headers = [(b"content-type", CONTENT_TYPES[ending(name)]), (b"cache-control", b"no-cache")]
    tag = b'"%s"' % hashlib.sha256(body).hexdigest()[:32].encode()
    return StaticFile(body, gzip.compress(body, 6, mtime=0), tuple(headers), tag)
