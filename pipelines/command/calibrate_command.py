"""The command that measures what a machine or a server answers."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from dtoss.compiled.kept_places import only_native
from dtoss.errors import InputError
from dtoss.option import Option
from pipelines.command.query.one_place import token_of
from pipelines.command.terminal.notes import note
from pipelines.command.terminal.options import TokenFile

Json = Annotated[bool, Option("Print JSON instead of a table.", name="--json")]


@dataclass(frozen=True)
class Subject:
    """What is measured."""

    title: ClassVar[str] = "What is measured"
    store: Annotated[str | None, Option("Path or URI of the store; with --url, its objects are queried.")] = None
    url: Annotated[str | None, Option("Of dtoss serve: measure the server, over HTTP.")] = None
    k: Annotated[int, Option("How many nearest each request asks for.", name="-k")] = 8
    accesses: Annotated[str | None, Option("With --url: the server's access log, whose places are queried.", "LOG")] = (
        None
    )
    token_file: TokenFile = None


@dataclass(frozen=True)
class Load:
    """How it is measured."""

    title: ClassVar[str] = "How it is measured"
    p99: Annotated[float, Option("Milliseconds within which 99 % must be answered.")] = 50.0
    seconds: Annotated[float | None, Option("How long to measure, about: 4; with --url, to hold the rate: 60.")] = None
    rate: Annotated[
        Literal["singly", "gathered", "batches"] | None,
        Option("The block's: questions one by one, gathered by a server, or in arrays of many; no --url."),
    ] = None
    connections: Annotated[int, Option("With --url: over which requests are sent.")] = 64
    processes: Annotated[int | None, Option("With --url: that send requests; half of the cores if not given.")] = None


def calibrate(
    asked: Subject,
    load: Load,
    name: Annotated[str, Option("Of the server type.")] = "this-machine",
    dollars_per_hour: Annotated[float | None, Option("Its price; 0 for a machine of your own.")] = None,
    as_json: Json = False,
) -> None:
    """Measure how many requests a second this machine answers, or a server, and print a [[server]] block."""
    if asked.url is not None:
        if load.rate is not None:
            raise ValueError("--rate is for what is measured in process: with --url requests come one by one")
        _calibrate_url(asked, load, name, dollars_per_hour, as_json)
        return
    if asked.store is None:
        raise ValueError(
            "--store STORE is wanted, to measure this machine in process, or --url URL, to measure a server"
        )
    if asked.accesses is not None or asked.token_file is not None or load.processes is not None:
        raise ValueError("--accesses, --processes and --token-file are for a server, named by --url")
    with only_native():  # what is measured is code for this processor
        from pipelines.calibrate import calibrate as run
        from pipelines.calibrate import facts, rows, server_block

        measured = run(
            asked.store,
            k=asked.k,
            limit=load.p99 / 1000,
            seconds=4.0 if load.seconds is None else load.seconds,
            way=load.rate or "singly",
        )
    for line in rows(measured):
        note(line)
    if as_json:
        print(json.dumps(facts(measured)))
        return
    print(server_block(measured, name, dollars_per_hour), end="")


def _calibrate_url(asked: Subject, load: Load, name: str, dollars_per_hour: float | None, as_json: bool) -> None:
    """Measure a server and print its block."""
    if (asked.store is None) == (asked.accesses is None):
        raise ValueError("--url needs to know where requests come from: one of --accesses LOG and --store STORE")
    assert asked.url is not None
    token = token_of(asked.token_file)
    from numpy.random import default_rng

    import dtoss
    from pipelines.calibration.over_http import PLACES, block_over_http, facts_over_http, measure_server, places_of_log

    if asked.accesses is not None:
        names = ("lon", "lat") if dtoss.connect(asked.url, token=token).space.geographic else ("x", "y")
        places, source = places_of_log(asked.accesses, names), "places of the access log"
    else:
        from pipelines.calibrate import places_of_objects

        assert asked.store is not None
        index = dtoss.open(asked.store)
        if not len(index):
            raise InputError(f"{asked.store} holds no objects: rebuild it from some first")
        places, source = places_of_objects(index, default_rng(0), PLACES), "places of objects"
    measured = measure_server(
        asked.url, places, k=asked.k, limit=load.p99 / 1000, connections=load.connections,
        seconds=60.0 if load.seconds is None else load.seconds, processes=load.processes, token=token, source=source,
        say=note,
    )  # fmt: skip
    if as_json:
        print(json.dumps(facts_over_http(measured)))
        return
    print(block_over_http(measured, name, dollars_per_hour), end="")
