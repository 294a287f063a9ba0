"""The command that answers over HTTP."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from dtoss.names import DEFAULT_NAME
from dtoss.option import Option
from dtoss.plain_numbers import is_whole, number_in
from pipelines.command.terminal import options
from pipelines.command.terminal.options import Length, length_of
from pipelines.options.said_amounts import duration

if TYPE_CHECKING:
    from dtoss.serve.answers.open_snapshots import ServedSnapshot

LIBRARIES = ("uvicorn", "uvloop", "httptools", "litestar", "orjson", "msgspec", "prometheus_client")
"""What the extra brings."""


def rate_of(text: str) -> float:
    """Return the requests/s that a text such as ``1000/s``, ``600/min`` or ``5/2s`` means."""
    from pipelines.options.said_amounts import seconds_of

    number, _, time = text.partition("/")
    try:
        seconds = seconds_of(time if time.strip()[:1].isdigit() else f"1{time.strip()}")
        rate = number_in(number.strip()) / seconds
    except (ValueError, ZeroDivisionError):
        rate = 0.0
    if not 0 < rate < float("inf"):
        raise ValueError(f"--rate is {text!r}: a number of requests and a time are wanted, as in 1000/s or 600/min")
    return rate


def _sample_of(text: str) -> int | None:
    """Return of how many requests of a minute the log keeps places; None of all."""
    if text == "all":
        return None
    if not is_whole(text) or int(text) < 1:
        raise ValueError(f"--access-sample is {text!r}: a whole number of requests is wanted, or all")
    return int(text)


def _public_url(text: str) -> str:
    """Return what links begin with, without a slash at its end."""
    from dtoss.client.endpoint import address_of

    try:
        return str(address_of(text))
    except ValueError as error:
        raise ValueError(f"--public-url: {error}") from None


@dataclass(frozen=True)
class Listening:
    """Where a server listens, and with how much."""

    title: ClassVar[str] = "Where it listens"
    host: Annotated[str, Option("Where to listen; not only loopback needs --token-file.")] = "127.0.0.1"
    port: Annotated[int, Option("Port; 0 takes a free one.")] = 8080
    workers: Annotated[int, Option("Processes that answer; they share the snapshot's memory.", more={"min": 1})] = 1
    threads: Annotated[int, Option("Threads of each worker for bulk, shapes and what takes long.", more={"min": 1})] = 2
    hot: Annotated[
        bool, Option("Answer frequent questions by a short way below the framework.", name="--hot/--no-hot")
    ] = True


@dataclass(frozen=True)
class Serving:
    """What a server shows."""

    title: ClassVar[str] = "What is served"
    snapshot: Annotated[
        str | None, Option("Serve this one, whatever becomes current; else the current one, always.")
    ] = None
    verify: Annotated[
        bool, Option("Compare all checksums before a snapshot is served.", name="--verify/--no-verify")
    ] = True
    max_age: Annotated[
        float | None, Option("An older snapshot is not ready (/readyz): 10min, 1h.", "TIME", parse=duration())
    ] = None
    limits: Annotated[str | None, Option("TOML file of limits of requests.", "FILE")] = None
    plan: Annotated[
        str | None,
        Option("Plan that the page shows, and by which --server holds; read again.", "FILE"),
    ] = None
    server: Annotated[
        int | None, Option("Hold only what the plan gives to this server of it.", "NUMBER", more={"min": 0})
    ] = None
    peers: Annotated[str | None, Option("TOML file of where the plan's servers are: number = URL.", "FILE")] = None
    patterns: Annotated[str | None, Option("Patterns of the day that the page shows.", "FILE")] = None
    report: Annotated[str | None, Option("Folder of a report that the page links to.", "DIR")] = None
    basemap: Annotated[
        str | None,
        Option("Ground under the map: a PMTiles file, or a URL with {z}, {x} and {y}.", "FILE|URL"),
    ] = None
    basemap_attribution: Annotated[
        str | None, Option("Whose the ground is; what the file says if not given.", "TEXT")
    ] = None
    updates: Annotated[
        str | None, Option("Log of rows that answers hold too, before a cycle has read them.", "DIR")
    ] = None
    allow_positions: Annotated[
        bool, Option("Add rows to that log by POST /positions; with tokens, those with the word positions may.")
    ] = False
    expire: Annotated[
        float | None,
        Option("Delete objects that were not heard of for so long, by rows of that log.", "TIME", parse=duration()),
    ] = None
    watch: Annotated[str, Option("Watch whose events and subscriptions are served.", "NAME")] = DEFAULT_NAME
    allow_subscribe: Annotated[bool, Option("Let tokens with the word subscribe change subscriptions.")] = False


@dataclass(frozen=True)
class Rights:
    """Who may ask, and how often."""

    title: ClassVar[str] = "Who may ask"
    token_file: Annotated[str | None, Option("Who may ask what: a line each; read anew at SIGHUP.", "FILE")] = None
    no_auth: Annotated[bool, Option("Let every machine that reaches the host ask without a token.")] = False
    tls_cert: Annotated[str | None, Option("Certificate chain, PEM.", "FILE")] = None
    tls_key: Annotated[str | None, Option("Its key, PEM.", "FILE")] = None
    cors: Annotated[list[str] | None, Option("Origin whose pages may ask; * for all; may be repeated.", "ORIGIN")] = (
        None
    )
    allow_host: Annotated[
        list[str] | None,
        Option("Name of this host that is answered to without tokens; may be repeated.", "NAME"),
    ] = None
    public_url: Annotated[
        str | None,
        Option("What links in answers begin with; the host that was asked if not given.", "URL", parse=_public_url),
    ] = None
    rate: Annotated[float | None, Option("Requests of each token: 1000/s, 600/min.", "NUMBER/TIME", parse=rate_of)] = (
        None
    )


@dataclass(frozen=True)
class Logging:
    """What is logged."""

    title: ClassVar[str] = "What is logged"
    access_log: Annotated[
        str | None, Option("Folder of the access log, or off; STORE/accesses if not given.", "DIR")
    ] = None
    access_sample: Annotated[
        int | None,
        Option("Requests of each minute that the access log keeps, or all.", "NUMBER", parse=_sample_of, shown="1000"),
    ] = 1000
    access_round: Annotated[
        int | None, Option("Digits behind the point of places in the access log.", more={"min": 0, "max": 15})
    ] = None
    log_places: Annotated[
        Length | None,
        Option("Places in the access log are kept on a grid so wide: 100m.", "LENGTH", more={"parser": length_of}),
    ] = None
    slow: Annotated[
        float, Option("Requests that take so long are logged.", "TIME", parse=duration(None), shown="100ms")
    ] = 0.1
    log: Annotated[str | None, Option("File of the log; stderr if not given.", "FILE")] = None
    audit: Annotated[str | None, Option("File of who asked what: a line for each request.", "FILE")] = None


def serve(
    store: options.Store,
    listening: Listening,
    serving: Serving,
    rights: Rights,
    logging: Logging,
    as_json: options.Json = False,
) -> int:
    """Answer questions over HTTP, from the newest snapshot always."""
    _check_libraries()
    from dtoss.serve.processes.freed_memory import give_back, leave_out_pandas

    give_back()
    leave_out_pandas()
    from dtoss.serve.core.server_settings import Limits, Settings, limits_of
    from dtoss.serve.processes.parent import run_server
    from pipelines.engines.progress import end_beginning

    # what is said here is called as there, but whom to refuse
    said = {name: value for part in (listening, serving, rights, logging) for name, value in vars(part).items()}
    no_auth = said.pop("no_auth")
    said["limits"] = Limits() if serving.limits is None else limits_of(serving.limits)
    said |= {name: tuple(said[name] or ()) for name in ("cors", "allow_host")}
    said["access_log"] = None if logging.access_log == "off" else logging.access_log or accesses_of(store)
    said["log_places"] = _grid(logging.log_places, logging.access_round, store, serving.snapshot)
    settings = Settings(store, **said)

    def ready(served: ServedSnapshot, url: str) -> None:
        from ceps.model.number_text import how_many

        objects = len(served.index)
        facts: dict[str, Any] = {"snapshot": served.name, "objects": objects, "store": store, "url": url}
        share = (
            ""
            if served.share is None
            else f", server {serving.server} with {how_many(len(served.share.held), 'partition')}"
        )
        if served.share is not None:
            facts |= {"server": serving.server, "held": list(served.share.held)}
        line = f"serving {served.name} ({objects:,} objects{share}) of {store} on {url}"
        # at once, as the log may write to the same pipe
        say = sys.stdout if as_json else sys.stderr
        say.write((json.dumps(facts | {"workers": listening.workers}) if as_json else line) + "\n")
        say.flush()

    code = run_server(settings, no_auth=no_auth, ready=ready, opened=end_beginning)
    if code:
        print("error: workers died six times within a minute; the log says how", file=sys.stderr)
    return code


def _check_libraries() -> None:
    from importlib.util import find_spec

    from dtoss.errors import InputError

    missing = []
    for name in LIBRARIES:
        try:
            found = find_spec(name)
        except ImportError:
            found = None
        missing += [name] if found is None else []
    if missing:
        raise InputError(f"the server needs {', '.join(missing)}: pip install 'dtoss[serve]'")


def _grid(length: Length | None, digits: int | None, store: str, snapshot: str | None) -> float | None:
    """Return how far apart places of the access log are: metres, or units of a CRS that is not in degrees."""
    if length is None:
        return None
    from dataclasses import replace

    from dtoss.serve.observability.partition_counts import rounding_of
    from dtoss.snapshots.manifest import space_of_manifest
    from dtoss.snapshots.store import Store
    from pipelines.command.terminal.options import in_space

    space = space_of_manifest(Store(store).manifest(snapshot))
    unit = space if space.geographic else replace(space, metric="plane", to_lonlat=False)
    grid = in_space("--log-places", length, unit)
    rounding_of(space, digits, grid)  # which says what is wrong before a worker is begun
    return grid


def accesses_of(store: str) -> str:
    """Return where the access log of a store lies; options of an object store's URI stay at its end."""
    path, mark, rest = store.partition("?")
    return f"{path.rstrip('/')}/accesses{mark}{rest}"
