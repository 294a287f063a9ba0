"""What a server was told of beside its snapshots: plan, patterns, report and watch, and the ground under the map.

Files that others replace while a server runs: read again when they change, and kept where that fails.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar
from urllib.parse import urlsplit

from dtoss.errors import InputError
from dtoss.locks import Lock
from dtoss.serve.cluster.served_plans import Patterns, Plan, read_patterns, read_plan
from dtoss.serve.core.server_settings import Settings
from dtoss.serve.map.pmtiles import MVT_KIND, TileArchive, open_archive
from dtoss.watch.watch_folder import Home

REPORT = "report.html"
"""The page of a report's folder."""


@dataclass(frozen=True, eq=False)
class PageFiles:
    """What they say; each is None where the server was told of none."""

    plan_file: Reread[Plan] | None = None
    patterns_file: Reread[Patterns] | None = None
    report: Path | None = None
    home: Home | None = None
    basemap: Basemap | None = None

    @property
    def plan(self) -> Plan | None:
        """The plan in force."""
        return None if self.plan_file is None else self.plan_file.now

    @property
    def patterns(self) -> Patterns | None:
        """The patterns."""
        return None if self.patterns_file is None else self.patterns_file.now

    @property
    def problems(self) -> list[str]:
        """Which files could not be read when they had changed, and why."""
        held = [file.problem for file in (self.plan_file, self.patterns_file) if file is not None]
        return [problem for problem in held if problem is not None]

    def look(self, tell: Callable[[str], None]) -> None:
        """Read again what has changed, and tell what could not be read; in a thread that may wait for a disk."""
        for file in (self.plan_file, self.patterns_file):
            if file is not None:
                file.look(tell)


def files_of(settings: Settings) -> PageFiles:
    """Return the files that a server was told of, read."""
    plan = None if settings.plan is None else Reread(settings.plan, read_plan, "--plan")
    patterns = None if settings.patterns is None else Reread(settings.patterns, read_patterns, "--patterns")
    report = None if settings.report is None else Path(settings.report).absolute()
    if report is not None and not (report / REPORT).is_file():
        raise InputError(f"--report {settings.report}: there is no {REPORT}: name the folder that dtoss report wrote")
    if settings.basemap is None and settings.basemap_attribution is not None:
        raise InputError("--basemap-attribution needs --basemap: the tiles that it is about")
    basemap = None if settings.basemap is None else basemap_of(settings.basemap, settings.basemap_attribution)
    return PageFiles(plan, patterns, report, settings.home(), basemap)


T = TypeVar("T")


class Reread(Generic[T]):
    """What a file said when it could last be read."""

    def __init__(self, path: str, read: Callable[[str], T], option: str) -> None:
        self._path = os.path.abspath(path)  # noqa: PTH100
        self._read = read
        self._option = option
        self._lock = Lock()
        self._failing: object = None
        try:
            self._mark = _mark_of(self._path)
            self.now: T = read(self._path)
        except (OSError, ValueError) as error:
            raise InputError(f"{option} {path}: {_why(path, error)}") from None
        self.problem: str | None = None

    def look(self, tell: Callable[[str], None]) -> None:
        """Read the file if it has changed; in a thread that may wait for a disk.

        ``tell``: is told why it could not be read, once: ``problem`` says it until it can.
        """
        if not self._lock.acquire(blocking=False):
            return  # another thread looks
        try:
            self._look(tell)
        finally:
            self._lock.release()

    def _look(self, tell: Callable[[str], None]) -> None:
        mark: object = None
        try:
            mark = _mark_of(self._path)
            if mark == self._mark:
                self._failing = self.problem = None
                return
            fresh = self._read(self._path)
        except (OSError, ValueError) as error:
            # half of a file may have been written: only what fails twice has failed
            if self._failing != (mark,):
                self._failing = (mark,)
                return
            why = f"{self._option} is kept as it was: {_why(self._path, error)}"
            if self.problem != why:
                self.problem = why
                tell(why)
            return
        self.now, self._mark, self._failing, self.problem = fresh, mark, None, None


def _mark_of(path: str) -> tuple[int, int, int]:
    found = os.stat(path)  # noqa: PTH116
    return found.st_mtime_ns, found.st_size, found.st_ino


def _why(path: str, error: Exception) -> str:
    if isinstance(error, OSError):
        return error.strerror or str(error)
    return " ".join(str(error).removeprefix(f"{path}: ").split())


GROUND_TILES = "/basemap/{z}/{x}/{y}"
"""Where the page asks for tiles of a file."""
VECTOR_ENDS = (".pbf", ".mvt")
"""Ends of the paths of vector tiles; others are pictures."""
DEEPEST_VECTOR, DEEPEST_PICTURE = 14, 19
"""The last zooms that are asked of a template, which does not say: those of usual servers."""
LONGEST_ATTRIBUTION = 2_000
"""Characters of an attribution."""
WHOLE_EARTH = (-180.0, -90.0, 180.0, 90.0)
_HOST = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?(:[0-9]{1,5})?|\[[0-9a-f:]+\](:[0-9]{1,5})?", re.IGNORECASE)
_PLACES = {"{z}", "{x}", "{y}"}


class Credit(NamedTuple):
    """A piece of an attribution."""

    text: str
    link: str | None  # An http(s) URL


@dataclass(frozen=True, eq=False)
class Basemap:
    """Whose tiles lie under the map, and what the page is told of them."""

    archive: TileArchive | None  # None where another server has the tiles
    tiles: str  # A path, or a URL with {z}, {x} and {y}
    vector: bool
    zooms: tuple[int, int]
    bounds: tuple[float, float, float, float]
    layers: tuple[str, ...] | None  # Of vector tiles, where they are known
    attribution: tuple[Credit, ...]

    @property
    def origin(self) -> str | None:
        """The origin that pages may ask for it besides their own; None where they need not."""
        if self.archive is not None:
            return None
        scheme, host, *_ = urlsplit(self.tiles)
        return f"{scheme}://{host}"

    def facts(self) -> dict[str, Any]:
        """Return what the page is told."""
        return {
            "kind": "vector" if self.vector else "raster",
            "tiles": self.tiles,
            "minzoom": self.zooms[0],
            "maxzoom": self.zooms[1],
            "bounds": self.bounds,
            "layers": self.layers,
            "attribution": [one._asdict() for one in self.attribution],
        }


def basemap_of(given: str, attribution: str | None = None) -> Basemap:
    """Return the ground of ``--basemap``; InputError, in one line, where there is none."""
    if re.match(r"[a-z][a-z0-9+.-]*://", given, re.IGNORECASE):
        return _of_template(given, attribution)
    try:
        archive = open_archive(given)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise InputError(f"--basemap {given}: {why}") from None
    names = _layers(archive.metadata.get("vector_layers"))
    said = archive.metadata.get("attribution") if attribution is None else attribution
    return Basemap(
        archive,
        GROUND_TILES,
        archive.kind == MVT_KIND,
        archive.zooms,
        archive.bounds,
        names,
        credits_of(said if isinstance(said, str) else ""),
    )


def _layers(said: Any) -> tuple[str, ...] | None:
    """Return the names of the first hundred layers that metadata tell of; None where they tell of none."""
    objects = [one for one in said if isinstance(one, dict) and "id" in one] if isinstance(said, list) else []
    return tuple(str(one["id"])[:100] for one in objects[:100]) or None


def _of_template(url: str, attribution: str | None) -> Basemap:
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise InputError(f"--basemap {url}: {error}") from None
    if parts.scheme.lower() not in ("http", "https"):
        raise InputError(f"--basemap {url}: a file, or a URL of http or https is wanted")
    if not _HOST.fullmatch(parts.netloc) or re.search(r"[\s\"'<>\\]|[^\x20-\x7e]", url):
        raise InputError(f"--basemap {url}: a host without a user, and ASCII without spaces and quotes are wanted")
    if set(re.findall(r"\{.\}", url)) != _PLACES or re.search("[{}]", re.sub(r"\{[xyz]\}", "", url)):
        raise InputError(
            f"--basemap {url}: {{z}}, {{x}} and {{y}} are wanted and nothing else in braces, as in "
            "https://tiles.example.org/{z}/{x}/{y}.png; of a PMTiles file name a copy on this machine"
        )
    vector = parts.path.lower().endswith(VECTOR_ENDS)
    deepest = DEEPEST_VECTOR if vector else DEEPEST_PICTURE
    return Basemap(None, url, vector, (0, deepest), WHOLE_EARTH, None, credits_of(attribution or ""))


def credits_of(text: str) -> tuple[Credit, ...]:
    """Return an attribution, plain or HTML, as pieces of text: links are those of http(s), all else is left out.

    Examples
    --------
    >>> credits_of('&copy; <a href="https://osm.org">OSM</a><script>x</script>')
    (Credit(text='© ', link=None), Credit(text='OSM', link='https://osm.org'))
    """
    reader = _Pieces()
    reader.feed(text[:LONGEST_ATTRIBUTION])
    reader.close()
    return tuple(Credit(text, link) for text, link in reader.pieces)


class _Pieces(HTMLParser):
    """Reads text and links of HTML."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.pieces: list[tuple[str, str | None]] = []
        self._link: str | None = None
        self._unseen = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in ("script", "style"):
            self._unseen += 1
        elif tag == "a":
            target = (dict(attrs).get("href") or "").strip()
            self._link = target if re.match(r"https?://[^\s]+\Z", target, re.IGNORECASE) else None

    def handle_endtag(self, tag: str) -> None:
        if tag in ("script", "style"):
            self._unseen = max(self._unseen - 1, 0)
        elif tag == "a":
            self._link = None

    def handle_data(self, data: str) -> None:
        said = re.sub(r"\s+", " ", data)
        if self._unseen or not said:
            return
        if self.pieces and self.pieces[-1][1] == self._link:
            said = self.pieces.pop()[0] + said
        self.pieces.append((said, self._link))
