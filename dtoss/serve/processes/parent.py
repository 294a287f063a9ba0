"""A server from its beginning to its end: what the parent makes before the fork, and takes away at last."""

from __future__ import annotations

import gc
import mmap
import os
import shutil
import ssl
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING

from dtoss.errors import DtossError, InputError
from dtoss.serve.core.server_settings import Settings
from dtoss.serve.processes.processes import Port, Post, hold, is_this_machine

if TYPE_CHECKING:
    from dtoss.fresh.builder import Fresh
    from dtoss.serve.answers.open_snapshots import ServedSnapshot

YOUNG_OBJECTS = 700
"""New objects after which workers look for garbage, as Python does by itself; a command that loads them does not."""
TIMES_IN_MEMORY = 14
"""What a snapshot takes on the disk, times this, is to be free in memory: for the generations that are kept."""


def run_server(
    settings: Settings,
    *,
    no_auth: bool,
    ready: Callable[[ServedSnapshot, str], None],
    opened: Callable[[], None] = lambda: None,
) -> int:
    """Return the exit code of a server that has run until it was told to end; 1 where its workers kept dying.

    ``no_auth``: whether others than this machine may ask without a token; ``ready``: is called with the first snapshot
    and the server's URL once all workers listen; ``opened``: is called when all is loaded, before workers begin.
    """
    _check_certificate(settings)
    _check_updates(settings)
    _check_plan(settings)
    settings.home()
    port = hold(settings.host, settings.port)
    with ExitStack() as made:
        made.callback(port.close)
        if not (port.is_loopback or settings.token_file or no_auth):
            raise InputError(
                f"--host {settings.host} lets other machines ask: name those who may by --token-file, or say --no-auth"
            )
        _check_doors(settings)
        # libraries are loaded only now: what cannot be is said at once
        from dtoss.serve.observability.metrics import prepare

        folder = prepare()
        made.callback(shutil.rmtree, folder, ignore_errors=True)
        fresh = _fresh_of(settings, made)
        settings = settings if fresh is None else replace(settings, generations=fresh.home, verify=False)
        return _run(settings, port, folder, fresh, ready, opened)


def _check_updates(settings: Settings) -> None:
    if settings.expire is not None and not settings.allow_positions:
        raise InputError("--expire needs --allow-positions: what deletes objects is added to the log")
    if settings.updates is None:
        if settings.allow_positions:
            raise InputError("--allow-positions needs --updates: the folder whose log rows are added to")
        return
    if not settings.allow_positions and not Path(settings.updates).is_dir():
        raise InputError(f"--updates {settings.updates}: there is no such folder; it is that of a log")
    if settings.snapshot is not None:
        raise InputError("--snapshot serves one snapshot whatever comes, and --updates what comes: leave out one")


def _fresh_of(settings: Settings, made: ExitStack) -> Fresh | None:
    """Return how generations are made, of which the first one is there; None where snapshots are served as they are."""
    if settings.updates is None:
        return None
    from dtoss.client.endpoint import read_peers
    from dtoss.fresh.builder import Fresh, first_generation
    from dtoss.fresh.fresh_counts import FreshCounts
    from dtoss.fresh.shared_folder import join_folder, make_memory_folder
    from dtoss.snapshots.lineage import entries_of
    from dtoss.snapshots.store import Store

    size = sum(entry["bytes"] for entry in entries_of(Store(settings.store).manifest()))
    wanted, server = TIMES_IN_MEMORY * size, settings.server
    folder = make_memory_folder(wanted if server is None else 0)
    made.callback(shutil.rmtree, folder, ignore_errors=True)
    if settings.peers is not None:
        hosts = [address.host for address in read_peers(settings.peers).addresses.values()]
        made.callback(join_folder(settings.updates, wanted, in_memory=all(map(is_this_machine, hosts))).leave)
    fresh = Fresh(
        settings.store, settings.updates, folder, settings.allow_positions, FreshCounts(), server, settings.expire
    )
    first_generation(fresh)
    return fresh


def _check_certificate(settings: Settings) -> None:
    cert, key = settings.tls_cert, settings.tls_key
    if (cert is None) != (key is None):
        raise InputError("--tls-cert and --tls-key go together: one of them is missing")
    if cert is not None:
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(cert, key)
        except OSError as error:  # ssl's own are among them
            raise InputError(f"--tls-cert {cert}, --tls-key {key}: {error.strerror or error}") from None


def _check_plan(settings: Settings) -> None:
    from dtoss.client.endpoint import read_peers
    from dtoss.serve.cluster.served_plans import read_placement
    from dtoss.snapshots.store import Store

    if settings.server is None:
        if settings.peers is not None:
            raise InputError("--peers needs --server: the number that the plan has for this server")
        return
    if settings.server < 0:
        raise InputError(f"--server is {settings.server}: a number from 0 on is wanted, as the plan has it")
    if settings.plan is None or settings.peers is None:
        missing = "--plan" if settings.plan is None else "--peers"
        raise InputError(
            f"--server {settings.server} needs {missing}: the plan says what it holds, the peers where all are"
        )
    if settings.server not in read_peers(settings.peers).addresses:
        raise InputError(f"--peers {settings.peers} does not name server {settings.server}: add a line of its URL")
    manifest = Store(settings.store).manifest(settings.snapshot)
    read_placement(settings.plan, manifest["pivots_hash"], len(manifest["partitions"]))


def _check_doors(settings: Settings) -> None:
    from dtoss.client.endpoint import read_peers
    from dtoss.serve.auth.admission import doors_of

    doors = doors_of(settings)
    if settings.peers is not None and settings.token_file is not None:
        token = read_peers(settings.peers).token
        if token is None or not doors.is_peer(b"Bearer " + token.encode()):
            raise InputError(
                f"--peers {settings.peers} has no token that {settings.token_file} knows as one of servers: the plan's "
                "servers say one to each other, and the line of it has the word peer"
            )
    if settings.allow_subscribe and not doors.lets_write:
        where = f"{settings.token_file} has none" if settings.token_file else "there is none"
        raise InputError(
            f"--allow-subscribe needs --token-file with a token that subscribes, and {where}: give the line of one "
            "the word subscribe"
        )
    if settings.allow_positions and not doors.lets_tell:
        raise InputError(
            f"--allow-positions needs a token that tells positions, and {settings.token_file} has none: give the line "
            "of one the word positions"
        )


def _run(
    settings: Settings,
    port: Port,
    folder: str,
    fresh: Fresh | None,
    ready: Callable[[ServedSnapshot, str], None],
    opened: Callable[[], None],
) -> int:
    # the client of Prometheus, which looks for its folder when it is loaded, is among these
    import numpy as np

    from dtoss.fresh.builder import run_builder
    from dtoss.serve.auth.admission import doors_of
    from dtoss.serve.map.map_files import files_of
    from dtoss.serve.map.static_files import load_static_files
    from dtoss.serve.observability.log_lines import Audit, Log
    from dtoss.serve.observability.metrics import forget
    from dtoss.serve.observability.partition_counts import HomeCounts
    from dtoss.serve.observability.shared_counts import SharedCounts
    from dtoss.serve.processes.parent_snapshot import Following
    from dtoss.serve.processes.processes import keep_running
    from dtoss.serve.processes.warm_up import load_framework
    from dtoss.serve.processes.worker import Common, run_worker, together_of
    from dtoss.serve.reload.prepare import first_snapshot
    from dtoss.serve.rights.sight import check_tokens

    files = files_of(settings)
    log = Log(settings.log)
    if settings.audit is not None:
        Audit(settings.audit)  # a file that cannot be written is said at once
    verified = np.frombuffer(mmap.mmap(-1, mmap.PAGESIZE), np.int64)[:1]
    counts = SharedCounts(settings.workers)

    def not_followed(error: DtossError) -> None:
        log.event("not followed", detail=str(error))

    held = Following(settings, first_snapshot(settings, verified), counts, not_followed)
    check_tokens(doors_of(settings).tokens, held.served.index)
    common = Common(
        settings, held, counts, verified, folder, token_hex(4), HomeCounts(settings.workers), files,
        together_of(settings, held.served), fresh,
    )  # fmt: skip
    url = port.url("http" if settings.tls_cert is None else "https")

    def began() -> None:
        ready(held.served, url)
        log.event("started", snapshot=held.served.name, url=url, workers=settings.workers, pid=os.getpid())

    def died(number: int, pid: int, fate: str) -> None:
        if number == settings.workers:
            log.event("builder died", pid=pid, fate=fate)
            return
        counts.of(number).end(restarts=True)
        forget(pid, folder)
        log.event("worker died", number=number, pid=pid, fate=fate)

    def build(post: Post) -> int:
        assert fresh is not None
        return run_builder(fresh, post.parent, post.ready, log.event)

    load_static_files()
    load_framework(settings, held.served, files)
    opened()  # a thread that shows it would not outlive the fork
    # pages that nobody writes to stay shared: a collection would write to all of them
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS)
    work = partial(run_worker, common=common)
    code = keep_running(
        port, settings.workers, work, ready=began, died=died, every_second=held.look,
        beside=None if fresh is None else build,
    )  # fmt: skip
    log.event("ended", code=code)
    log.close()
    return code
