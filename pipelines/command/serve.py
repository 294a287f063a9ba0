"""The command that answers over HTTP."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dtoss.plain_numbers import is_whole, number_in
from dtoss.watch.watch_folder import DEFAULT_NAME
from pipelines.command.terminal import options
from pipelines.command.terminal.lengths import Length, length_of
from pipelines.command.terminal.options import seconds_or_none
from pipelines.command.terminal.output import say_compiling

if TYPE_CHECKING:
    from dtoss.serve.answers.open_snapshots import ServedSnapshot

LIBRARIES = ("uvicorn", "uvloop", "httptools", "litestar", "orjson", "msgspec", "prometheus_client")
"""What the extra brings."""


def serve(
    store: options.Store,
    snapshot: Annotated[
        str | None, typer.Option(help="Serve this one, whatever becomes current; else the current one, always.")
    ] = None,
    host: Annotated[str, typer.Option(help="Where to listen; not only loopback needs --token-file.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port; 0 takes a free one.")] = 8080,
    workers: Annotated[int, typer.Option(help="Processes that answer; they share the snapshot's memory.", min=1)] = 1,
    threads: Annotated[
        int, typer.Option(help="Threads of each worker for bulk, shapes and what takes long.", min=1)
    ] = 2,
    verify: Annotated[
        bool, typer.Option("--verify/--no-verify", help="Compare all checksums before a snapshot is served.")
    ] = True,
    max_age: Annotated[
        str | None, typer.Option(help="An older snapshot is not ready (/readyz): 10min, 1h.", metavar="TIME")
    ] = None,
    limits: Annotated[str | None, typer.Option(help="TOML file of limits of requests.", metavar="FILE")] = None,
    token_file: Annotated[
        str | None, typer.Option(help="Who may ask what: a line each; read anew at SIGHUP.", metavar="FILE")
    ] = None,
    no_auth: Annotated[
        bool, typer.Option("--no-auth", help="Let every machine that reaches the host ask without a token.")
    ] = False,
    tls_cert: Annotated[str | None, typer.Option(help="Certificate chain, PEM.", metavar="FILE")] = None,
    tls_key: Annotated[str | None, typer.Option(help="Its key, PEM.", metavar="FILE")] = None,
    cors: Annotated[
        list[str] | None, typer.Option(help="Origin whose pages may ask; * for all; may be repeated.", metavar="ORIGIN")
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(help="Name of this host that is answered to without tokens; may be repeated.", metavar="NAME"),
    ] = None,
    rate: Annotated[
        str | None, typer.Option(help="Requests of each token: 1000/s, 600/min.", metavar="NUMBER/TIME")
    ] = None,
    access_log: Annotated[
        str | None, typer.Option(help="Folder of the access log, or off; STORE/accesses if not given.", metavar="DIR")
    ] = None,
    access_sample: Annotated[
        str, typer.Option(help="Requests of each minute that the access log keeps, or all.", metavar="NUMBER")
    ] = "1000",
    access_round: Annotated[
        int | None, typer.Option(help="Digits behind the point of places in the access log.", min=0, max=15)
    ] = None,
    log_places: Annotated[
        Length | None,
        typer.Option(
            parser=length_of, help="Places in the access log are kept on a grid so wide: 100m.", metavar="LENGTH"
        ),
    ] = None,
    slow: Annotated[str, typer.Option(help="Requests that take so long are logged.", metavar="TIME")] = "100ms",
    log: Annotated[str | None, typer.Option(help="File of the log; stderr if not given.", metavar="FILE")] = None,
    audit: Annotated[
        str | None, typer.Option(help="File of who asked what: a line for each request.", metavar="FILE")
    ] = None,
    plan: Annotated[
        str | None,
        typer.Option(help="Plan that the page shows, and by which --server holds; read again.", metavar="FILE"),
    ] = None,
    server: Annotated[
        int | None, typer.Option(help="Hold only what the plan gives to this server of it.", min=0, metavar="NUMBER")
    ] = None,
    peers: Annotated[
        str | None, typer.Option(help="TOML file of where the plan's servers are: number = URL.", metavar="FILE")
    ] = None,
    patterns: Annotated[
        str | None, typer.Option(help="Patterns of the day that the page shows.", metavar="FILE")
    ] = None,
    report: Annotated[
        str | None, typer.Option(help="Folder of a report that the page links to.", metavar="DIR")
    ] = None,
    hot: Annotated[
        bool, typer.Option("--hot/--no-hot", help="Answer frequent questions by a short way below the framework.")
    ] = True,
    watch: Annotated[
        str, typer.Option("--watch", help="Watch of the store whose events and subscriptions are told.", metavar="NAME")
    ] = DEFAULT_NAME,
    allow_subscribe: Annotated[
        bool, typer.Option("--allow-subscribe", help="Let tokens with the word subscribe change subscriptions.")
    ] = False,
    as_json: options.Json = False,
) -> int:
    """Answer questions over HTTP, from the newest snapshot always."""
    _check_libraries()
    from dtoss.serve.processes.freed_memory import give_back

    give_back()
    say_compiling("open")
    from dtoss.serve.core.server_settings import Limits, Settings, limits_of
    from dtoss.serve.processes.parent import run_server

    settings = Settings(
        store=store,
        snapshot=snapshot,
        host=host,
        port=port,
        workers=workers,
        threads=threads,
        verify=verify,
        max_age=seconds_or_none(max_age),
        limits=Limits() if limits is None else limits_of(limits),
        token_file=token_file,
        rate=None if rate is None else rate_of(rate),
        cors=tuple(cors or ()),
        allow_host=tuple(allow_host or ()),
        tls_cert=tls_cert,
        tls_key=tls_key,
        access_log=None if access_log == "off" else access_log or accesses_of(store),
        access_sample=None if access_sample == "all" else _whole(access_sample),
        access_round=access_round,
        log_places=_grid(log_places, access_round, store, snapshot),
        slow=_seconds(slow),
        log=log,
        audit=audit,
        plan=plan,
        patterns=patterns,
        report=report,
        hot=hot,
        watch=watch,
        allow_subscribe=allow_subscribe,
        server=server,
        peers=peers,
    )

    def ready(served: ServedSnapshot, url: str) -> None:
        from ceps.model.number_text import how_many

        objects = len(served.index)
        facts: dict[str, Any] = {"snapshot": served.name, "objects": objects, "store": store, "url": url}
        share = (
            "" if served.share is None else f", server {server} with {how_many(len(served.share.held), 'partition')}"
        )
        if served.share is not None:
            facts |= {"server": server, "held": list(served.share.held)}
        line = f"serving {served.name} ({objects:,} objects{share}) of {store} on {url}"
        # at once, as the log may write to the same pipe
        say = sys.stdout if as_json else sys.stderr
        say.write((json.dumps(facts | {"workers": workers}) if as_json else line) + "\n")
        say.flush()

    code = run_server(settings, no_auth=no_auth, ready=ready)
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

    from dtoss.serve.observability.rounded_places import rounding_of
    from dtoss.snapshots.manifest import space_of_manifest
    from dtoss.snapshots.store import Store
    from pipelines.command.terminal.lengths import in_space

    space = space_of_manifest(Store(store).manifest(snapshot))
    unit = space if space.geographic else replace(space, metric="plane", to_lonlat=False)
    grid = in_space("--log-places", length, unit)
    rounding_of(space, digits, grid)  # which says what is wrong before a worker is begun
    return grid


def accesses_of(store: str) -> str:
    """Return where the access log of a store lies; options of an object store's URI stay at its end."""
    path, mark, rest = store.partition("?")
    return f"{path.rstrip('/')}/accesses{mark}{rest}"


def rate_of(text: str) -> float:
    """Return the requests/s that a text such as ``1000/s``, ``600/min`` or ``5/2s`` means."""
    from pipelines.rows.durations_and_shares import seconds_of

    number, _, time = text.partition("/")
    try:
        seconds = seconds_of(time if time.strip()[:1].isdigit() else f"1{time.strip()}")
        rate = number_in(number.strip()) / seconds
    except (ValueError, ZeroDivisionError):
        rate = 0.0
    if not 0 < rate < float("inf"):
        raise ValueError(f"--rate is {text!r}: a number of requests and a time are wanted, as in 1000/s or 600/min")
    return rate


def _seconds(text: str) -> float:
    from pipelines.rows.durations_and_shares import seconds_of

    return seconds_of(text)


def _whole(text: str) -> int:
    if not is_whole(text) or int(text) < 1:
        raise ValueError(f"--access-sample is {text!r}: a whole number of requests is wanted, or all")
    return int(text)
