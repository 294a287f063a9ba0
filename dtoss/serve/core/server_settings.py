"""What a server was told.

How much one request may ask for, and how long it may take.

How often a worker looks for something new, how long it waits, how much it makes at a time: users set none of it.
"""

from __future__ import annotations

import math
import tomllib
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, NamedTuple

from dtoss.errors import InputError
from dtoss.names import DEFAULT_NAME
from dtoss.watch.watch_folder import Home


@dataclass(frozen=True)
class Limits:
    """Bounds of requests."""

    k: int = 1_000  # Nearest objects of a question
    bulk_queries: int = 100_000  # Questions of one request
    rows: int = 100_000  # Rows of positions of one request
    body_bytes: int = 64_000_000  # Bytes of a request's body
    hits: int = 1_000_000  # Hits of one answer
    answer_bytes: int = 512_000_000  # Bytes of all answers of one worker that wait to be read
    corners: int = 10_000  # Corners of all polygons of one request
    line_bytes: int = 8_192  # Bytes of the line that holds a request's method and target
    condition_length: int = 1_000  # Characters of a condition
    pool_seconds: float = 30.0  # Seconds that a request may wait and be worked on in the pool
    pool_queue: int = 64  # Requests that may wait for a thread of the pool
    connections: int = 10_000  # Open connections of one worker
    idle_seconds: float = 75.0  # Seconds that a connection may be idle
    header_seconds: float = 10.0  # Seconds within which a request's header has to be complete
    evaluations: int = 2  # Conditions that are evaluated at a time
    live: int = 1_000  # Streams of ``/live`` that one worker sends
    event_streams: int = 1_000  # Streams of ``/events`` that one worker sends
    subscribe_bytes: int = 8_000_000  # Bytes of a body of subscriptions


def limits_of(path: str) -> Limits:
    """Return the limits that a TOML file sets; what it leaves out is as usual."""
    try:
        told = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputError(f"--limits {path}: {getattr(error, 'strerror', None) or error}") from None
    kinds = {field.name: type(field.default) for field in fields(Limits)}
    for name in told:
        if name not in kinds:
            raise InputError(f"--limits {path}: there is no limit {name!r}; there are {', '.join(sorted(kinds))}")
    numbers: dict[str, Any] = {name: _number(path, name, value, kinds[name]) for name, value in told.items()}
    return Limits(**numbers)


def _number(path: str, name: str, value: Any, kind: type) -> int | float:
    """Return a limit's number, of the kind of its default."""
    plain = isinstance(value, kind | int) and not isinstance(value, bool)
    if not plain or not math.isfinite(value) or value <= 0:
        wanted = "a whole number" if kind is int else "a number"
        raise InputError(f"--limits {path}: {name} is {value!r}: {wanted} above 0 is wanted")
    number: int | float = kind(value)
    return number


@dataclass(frozen=True)
class Settings:
    """All that ``dtoss serve`` was told."""

    store: str
    snapshot: str | None = None  # The one that is served, whatever becomes current; None follows the commits
    host: str = "127.0.0.1"  # host, port: where to listen; port 0 takes a free one
    port: int = 8080
    workers: int = 1
    threads: int = 2  # Of each worker's pool
    verify: bool = True  # Whether the SHA-256 of all files is compared before a snapshot is served
    max_age: float | None = None  # Seconds; an older snapshot is not ready. None: any age will do
    limits: Limits = field(default_factory=Limits)
    token_file: str | None = None  # Who may ask; None lets everybody
    rate: float | None = None  # Requests/s of each token; None: any
    cors: tuple[str, ...] = ()  # Origins whose pages may ask; ``*`` stands for all
    # What links in answers begin with, without a slash at its end; None is the host that was asked for
    public_url: str | None = None
    allow_host: tuple[str, ...] = ()  # Names of this host that are answered to without tokens
    tls_cert: str | None = None  # tls_cert, tls_key: files of the certificate and its key; None serves plain HTTP
    tls_key: str | None = None
    access_log: str | None = None  # Folder or URI of the access log; None writes none
    access_sample: int | None = 1_000  # Requests that are kept of each minute; None keeps all
    access_round: int | None = None  # Digits behind the point that places in the access log keep; None keeps all
    # Metres, or units of a CRS that is not in degrees, between the places that the access log keeps; None keeps all
    log_places: float | None = None
    slow: float = 0.1  # Seconds from which a request is logged
    log: str | None = None  # File of the log; None is stderr
    audit: str | None = None  # File of a line for each request; None writes none
    plan: str | None = None  # plan, patterns: files of the optimiser that the page shows; None where there are none
    patterns: str | None = None
    report: str | None = None  # Folder of the optimiser's report
    basemap: str | None = None  # PMTiles file or URL of tiles that lie under the map; None where there are none
    basemap_attribution: str | None = None  # Whose they are; what the file says if None
    hot: bool = True  # Whether frequent questions take the short way below the framework
    # Name of the watch in the store whose events and subscriptions are told; it may not have begun yet. None tells of
    # none
    watch: str | None = DEFAULT_NAME
    allow_subscribe: bool = False  # Whether requests whose token subscribes change subscriptions
    # The number that the plan has for this server, which holds its partitions only; None holds all
    server: int | None = None
    peers: str | None = None  # File of where the plan's servers are
    # Folder of a log: answers hold its rows before a cycle has read them. None holds what the snapshot has
    updates: str | None = None
    allow_positions: bool = False  # Whether requests add rows to the log
    expire: float | None = None  # Seconds after which rows delete objects that were not heard of; None for never
    # The folder in memory of what answers, where there are ``updates``; made by the parent
    generations: str | None = None

    @property
    def served_store(self) -> str:
        """Where the snapshots are that answer."""
        return self.store if self.generations is None else self.generations

    def home(self) -> Home | None:
        """Return where the watch is; None where none is told of. Each worker makes its own, after the fork."""
        return None if self.watch is None else Home(self.store, self.watch)


class Paces(NamedTuple):
    """Seconds of a worker."""

    look: float = 1.0  # Between two looks for a snapshot
    fresh: float = 0.02  # Between two looks for a generation
    fresh_wait: float = 5.0  # For which a question waits for the row that it names
    live: float = 1.0  # Between two events of a stream of ``/live``
    tail: float = 1.0  # Between two looks for a commit of the watch, while there are streams of its events
    quiet: float = 15.0  # After which a stream that has nothing to tell says so: what stands in between would close it
    windows: float = 0.5  # For which a commit of windows that was found is the newest one, without another look
    behind: float = 2.0  # For which the commit before answers, while what is asked of windows is made of a newer one
    # Within which a snapshot has to be open here that another worker serves already, newer or rolled back to
    elsewhere: float = 3.0
    slow: float = 0.5  # For which a reader may let a piece wait before files that are open for it are let go
    # For which a page of rare events is looked for, as a share of what the pool has: it has those found until then
    page: float = 0.25


PACES = Paces()


class Sizes(NamedTuple):
    """How much a worker makes at a time."""

    held: int = 1 << 23  # Bytes up to which an answer is made at once, and its length told
    sent: int = 1 << 20  # Bytes of a longer one that are made at a time
    tested: int = 100_000_000  # Objects times corners that are compared before it is asked whether anybody still waits
    event_part: int = 1 << 17  # Bytes of events that are made at a time, about: one event may have more
    events_page: int = 8 << 20  # Bytes of a page of events, about: one with longer events has fewer of them
    # Bytes of a page of subscriptions, about: one with large polygons has fewer of them
    subscriptions_page: int = 4 << 20


USUAL_SIZES = Sizes()
