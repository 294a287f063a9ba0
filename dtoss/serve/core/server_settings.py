"""What a server was told."""

from __future__ import annotations

from dataclasses import dataclass, field

from dtoss.serve.core.limits import Limits
from dtoss.watch.watch_folder import DEFAULT_NAME, Home


@dataclass(frozen=True)
class Settings:
    """All that ``dtoss serve`` was told.

    Parameters
    ----------
    store
        Path or URI.
    snapshot
        The one that is served, whatever becomes current; None follows the commits.
    host, port
        Where to listen; port 0 takes a free one.
    workers
        Processes that answer.
    threads
        Of each worker's pool.
    verify
        Whether the SHA-256 of all files is compared before a snapshot is served.
    max_age
        Seconds; an older snapshot is not ready. None: any age will do.
    limits
        Of requests.
    token_file
        Who may ask; None lets everybody.
    rate
        Requests/s of each token; None: any.
    cors
        Origins whose pages may ask; ``*`` stands for all.
    allow_host
        Names of this host that are answered to without tokens.
    tls_cert, tls_key
        Files of the certificate and its key; None serves plain HTTP.
    access_log
        Folder or URI of the access log; None writes none.
    access_sample
        Requests that are kept of each minute; None keeps all.
    access_round
        Digits behind the point that places in the access log keep; None keeps all.
    log_places
        Metres, or units of a CRS that is not in degrees, between the places that the access log keeps; None keeps all.
    slow
        Seconds from which a request is logged.
    log
        File of the log; None is stderr.
    audit
        File of a line for each request; None writes none.
    plan, patterns
        Files of the optimiser that the page shows; None where there are none.
    report
        Folder of the optimiser's report.
    hot
        Whether frequent questions take the short way below the framework.
    watch
        Name of the watch in the store whose events and subscriptions are told; it may not have begun yet. None tells
        of none.
    allow_subscribe
        Whether requests whose token subscribes change subscriptions.
    server
        The number that the plan has for this server, which holds its partitions only; None holds all.
    peers
        File of where the plan's servers are.
    """

    store: str
    snapshot: str | None = None
    host: str = "127.0.0.1"
    port: int = 8080
    workers: int = 1
    threads: int = 2
    verify: bool = True
    max_age: float | None = None
    limits: Limits = field(default_factory=Limits)
    token_file: str | None = None
    rate: float | None = None
    cors: tuple[str, ...] = ()
    allow_host: tuple[str, ...] = ()
    tls_cert: str | None = None
    tls_key: str | None = None
    access_log: str | None = None
    access_sample: int | None = 1_000
    access_round: int | None = None
    log_places: float | None = None
    slow: float = 0.1
    log: str | None = None
    audit: str | None = None
    plan: str | None = None
    patterns: str | None = None
    report: str | None = None
    hot: bool = True
    watch: str | None = DEFAULT_NAME
    allow_subscribe: bool = False
    server: int | None = None
    peers: str | None = None

    def home(self) -> Home | None:
        """Return where the watch is; None where none is told of. Each worker makes its own, after the fork.

        Raises
        ------
        InputError
            If its name cannot be one.
        """
        return None if self.watch is None else Home(self.store, self.watch)
