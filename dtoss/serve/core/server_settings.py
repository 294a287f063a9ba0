"""What a server was told."""

from __future__ import annotations

from dataclasses import dataclass, field

from dtoss.serve.core.limits import Limits
from dtoss.watch.watch_folder import DEFAULT_NAME, Home


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
    hot: bool = True  # Whether frequent questions take the short way below the framework
    # Name of the watch in the store whose events and subscriptions are told; it may not have begun yet. None tells of
    # none
    watch: str | None = DEFAULT_NAME
    allow_subscribe: bool = False  # Whether requests whose token subscribes change subscriptions
    # The number that the plan has for this server, which holds its partitions only; None holds all
    server: int | None = None
    peers: str | None = None  # File of where the plan's servers are

    def home(self) -> Home | None:
        """Return where the watch is; None where none is told of. Each worker makes its own, after the fork."""
        return None if self.watch is None else Home(self.store, self.watch)
