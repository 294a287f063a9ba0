"""The ``dtoss`` command. Spark, plots and servers are imported inside the commands that need them."""

from __future__ import annotations

import json
import os
import re
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn

import typer

import dtoss
from dtoss.errors import DtossError, InputError
from pipelines import cli_ceps
from pipelines.cli_export import export

_UsageError: type[Exception] = typer.BadParameter.__mro__[2]  # what the parser raises for bad arguments

app = typer.Typer(
    help="Who is near? Exact answers over millions of moving objects, from an index rebuilt every cycle.",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)

Store = Annotated[str, typer.Option("--store", help="Path or URI of the store.", show_default=False)]
Snapshot = Annotated[str | None, typer.Option(help="Name of a snapshot; the current one if not given.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of CSV or a table.")]
At = Annotated[
    tuple[float, float] | None,
    typer.Option("--at", help="One place: LON LAT, or X Y.", metavar="LON LAT", show_default=False),
]
Queries = Annotated[str | None, typer.Option(help="A file of places, joined in Spark; needs --out.", metavar="FILE")]
Out = Annotated[str | None, typer.Option(help="Result of --queries: .parquet, .csv or .jsonl.", metavar="FILE")]
Master = Annotated[str | None, typer.Option(help="Spark master; local[*] if not given.")]
DriverMemory = Annotated[
    str | None, typer.Option(help="Heap of a local Spark, such as 4g; a sixth of the machine's if not given.")
]
QueryId = Annotated[str, typer.Option("--id", help="Column of --queries with the query's id.")]
QueryX = Annotated[str | None, typer.Option("--x", help="Column of --queries with lon or x.")]
QueryY = Annotated[str | None, typer.Option("--y", help="Column of --queries with lat or y.")]
Where = Annotated[
    str | None,
    typer.Option(
        help="Search only objects that satisfy this: \"occupied = 0 and kind in ('taxi')\".",
        metavar="EXPR",
    ),
]
Having = Annotated[str | None, typer.Option(help="Of the hits, those that satisfy this.", metavar="EXPR")]
Carry = Annotated[str, typer.Option("--columns", help="Attributes to return, separated by commas.")]


@app.callback(invoke_without_command=True)
def _version(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    if version:
        print(f"dtoss {dtoss.__version__}")
        raise typer.Exit


@app.command()
def rebuild(
    positions: Annotated[
        list[str], typer.Argument(help="Files, directories or globs: Parquet, GeoParquet, CSV, JSON lines.")
    ],
    store: Store,
    crs: Annotated[
        str | None, typer.Option(help="CRS of the positions: EPSG:4326 if not given; none is a plane without one.")
    ] = None,
    metric: Annotated[
        Literal["sphere", "plane"] | None, typer.Option(help="sphere compares a projected CRS on the sphere.")
    ] = None,
    bounds: Annotated[
        tuple[float, float, float, float] | None,
        typer.Option(help="Plane: rectangle that cells are clipped to.", metavar="XMIN YMIN XMAX YMAX"),
    ] = None,
    id_: Annotated[str, typer.Option("--id", help="Column with the object's id.")] = "id",
    x: Annotated[str | None, typer.Option("--x", help="Column with lon or x; lon, or x where there is no lon.")] = None,
    y: Annotated[str | None, typer.Option("--y", help="Column with lat or y; lat, or y where there is no lon.")] = None,
    time: Annotated[
        str | None, typer.Option(help="Column with the time: the latest row of each id counts. t if there is one.")
    ] = None,
    time_format: Annotated[
        str | None, typer.Option(help="Of times in text: a pattern such as M/d/yyyy H:mm:ss, epoch_s, epoch_ms.")
    ] = None,
    delimiter: Annotated[str, typer.Option(help="Of CSV files.")] = ",",
    columns: Annotated[str, typer.Option(help="Attributes to carry: names separated by commas, all or none.")] = "all",
    partitions: Annotated[int | None, typer.Option(help="How many partitions.")] = None,
    objects_per_partition: Annotated[
        int | None, typer.Option(help="Objects a partition; 250000 if neither is given.")
    ] = None,
    pivots: Annotated[
        Literal["balanced", "spread", "keep"], typer.Option(help="How partitions are chosen.")
    ] = "balanced",
    reach: Annotated[
        float | None,
        typer.Option(help="Lambda: how far past its borders a partition knows objects (chord or CRS units)."),
    ] = None,
    keep: Annotated[int, typer.Option(help="Snapshots that stay for rollback, the new one among them.")] = 3,
    max_bad: Annotated[float, typer.Option(help="Share of bad rows from which on the rebuild fails.")] = 0.10,
    on_duplicate: Annotated[
        Literal["error", "any"], typer.Option(help="What an id that repeats does where there is no time.")
    ] = "error",
    seed: Annotated[int, typer.Option(help="Of the sample and the random choices.")] = 0,
    master: Master = None,
    driver_memory: DriverMemory = None,
    as_json: Json = False,
) -> None:
    """Build a new snapshot of all positions and make it current."""
    from dtoss.space import space_of
    from pipelines.positions import Columns
    from pipelines.progress import Stages
    from pipelines.reading import read_positions
    from pipelines.rebuild import check_arguments, summary
    from pipelines.rebuild import rebuild as run

    check_arguments(partitions, objects_per_partition, on_duplicate, max_bad, keep, pivots, reach)
    space_of(crs, metric)
    session = _spark(master, driver_memory)
    stages = Stages(session, shown=True)
    named = Columns(id=id_, x=x, y=y, time=time, attributes=columns, delimiter=delimiter, time_format=time_format)
    with stages.stage("read"):
        read = read_positions(session, positions, named)
    manifest = run(
        read,
        store,
        crs=crs if crs is not None or metric == "plane" else read.crs,
        metric=metric,
        bounds=bounds,
        partitions=partitions,
        objects_per_partition=objects_per_partition,
        pivots=pivots,
        reach=reach,
        on_duplicate=on_duplicate,
        max_bad=max_bad,
        keep=keep,
        seed=seed,
        stages=stages,
        warn=lambda message: print(f"warning: {message}", file=sys.stderr),
    )
    if as_json:
        print(json.dumps(_facts(manifest)))
    else:
        _print_table(summary(manifest))


@app.command()
def knn(
    store: Store,
    at: At = None,
    k: Annotated[int, typer.Option("-k", help="How many of the nearest objects.")] = 1,
    max_distance: Annotated[
        float | None, typer.Option(help="At most so far away: metres, or CRS units in the plane.")
    ] = None,
    queries: Queries = None,
    out: Out = None,
    how: Annotated[
        Literal["inner", "left"], typer.Option(help="left keeps queries without hits, as a row of nulls.")
    ] = "inner",
    id_: QueryId = "id",
    x: QueryX = None,
    y: QueryY = None,
    columns: Carry = "",
    where: Where = None,
    having: Having = None,
    everything: Annotated[
        bool, typer.Option("--all", help="The k nearest others of every object of the store; needs --out.")
    ] = False,
    snapshot: Snapshot = None,
    master: Master = None,
    driver_memory: DriverMemory = None,
    as_json: Json = False,
) -> None:
    """Print the k nearest objects of a place, or join those of a file of places."""
    names = _names(columns)
    if everything:
        if at is not None or queries is not None or having is not None:
            raise ValueError("--all asks about every object: --at, --queries and --having do not go with it")
        target = _target("--all", out)
        from pipelines.graph import knn_graph

        session = _spark(master, driver_memory)
        _write(
            knn_graph(session, store, k, columns=names, where=where, max_distance=max_distance, snapshot=snapshot),
            target,
        )
        return
    if queries is None:
        index = dtoss.open(store, snapshot)
        hits = index.knn(_place(at), k, max_distance=max_distance, columns=names, where=where, having=having)
        _print_hits(index, hits, as_json)
        return
    from pipelines.join import knn_join

    target = _target("--queries", out)
    frame = _queries(queries, at, id_, x, y, master, driver_memory)
    joined = knn_join(
        frame,
        store,
        k,
        how=how,
        columns=names,
        where=where,
        having=having,
        max_distance=max_distance,
        id="id",
        x="x",
        y="y",
        snapshot=snapshot,
    )
    _write(joined, target)


@app.command("range")
def range_(
    store: Store,
    radius: Annotated[float, typer.Option(help="Metres, or CRS units in the plane; the disc is closed.")],
    at: At = None,
    queries: Queries = None,
    out: Out = None,
    how: Annotated[
        Literal["inner", "left"], typer.Option(help="left keeps queries without hits, as a row of nulls.")
    ] = "inner",
    id_: QueryId = "id",
    x: QueryX = None,
    y: QueryY = None,
    columns: Carry = "",
    where: Where = None,
    having: Having = None,
    count: Annotated[bool, typer.Option("--count", help="Print only how many there are.")] = False,
    snapshot: Snapshot = None,
    master: Master = None,
    driver_memory: DriverMemory = None,
    as_json: Json = False,
) -> None:
    """Print all objects within a radius of a place, or join those of a file of places."""
    names = _names(columns)
    if queries is None:
        index = dtoss.open(store, snapshot)
        if count:
            number = int(index.count(_place(at), radius, where=where)[0])
            print(json.dumps({"snapshot": index.snapshot, "count": number}) if as_json else number)
            return
        hits = index.range(_place(at), radius, columns=names, where=where, having=having)
        _print_hits(index, hits, as_json)
        return
    from pipelines.join import range_join

    target = _target("--queries", out)
    frame = _queries(queries, at, id_, x, y, master, driver_memory)
    joined = range_join(
        frame,
        store,
        radius,
        how=how,
        columns=names,
        where=where,
        having=having,
        id="id",
        x="x",
        y="y",
        snapshot=snapshot,
    )
    _write(joined, target)


@app.command()
def info(
    store: Store,
    snapshot: Snapshot = None,
    verify: Annotated[bool, typer.Option("--verify", help="Read every file and compare its checksum.")] = False,
    as_json: Json = False,
) -> None:
    """Say what is in a store's current snapshot."""
    from dtoss.snapshot import open_index
    from dtoss.store import Store as StorePlace

    place = StorePlace(store)
    manifest = place.manifest(snapshot)
    if verify:
        open_index(place, manifest["snapshot"], verify=True)
    facts = _facts(manifest)
    if as_json:
        print(json.dumps(facts))
        return
    sizes = [entry["objects"] for entry in manifest["partitions"]]
    share = f"{manifest['replicas'] / max(manifest['objects'], 1):.2%}"
    rows = [
        ("snapshot", f"{facts['snapshot']} of {facts['created']}, format {facts['format']}"),
        ("snapshots", ", ".join(place.snapshots())),
        ("objects", f"{facts['objects']:,} on {facts['sites']:,} sites, {facts['replicas']:,} replicas ({share})"),
        (
            "partitions",
            f"{len(sizes)}: min {min(sizes):,}, mean {sum(sizes) / len(sizes):,.0f}, max {max(sizes):,} objects",
        ),
        ("space", f"{facts['crs']}, {facts['metric']}" + (f", bounds {facts['bounds']}" if facts["bounds"] else "")),
        ("columns", ", ".join(f"{name} {kind}" for name, kind in manifest["columns"].items()) or "none"),
        ("rows", ", ".join(f"{name} {n}" for name, n in facts["counts"].items() if name != "quarantined")),
        ("quarantined", ", ".join(f"{n:,} {reason}" for reason, n in facts["counts"]["quarantined"].items()) or "none"),
        ("bytes", f"{facts['bytes']:,}"),
        ("seconds", ", ".join(f"{name} {seconds:.1f}" for name, seconds in facts["timings"].items())),
    ]
    if verify:
        rows.append(("files", "all checksums agree with the manifest"))
    _print_table(rows)


@app.command()
def rollback(store: Store) -> None:
    """Make the snapshot before the current one current again."""
    from dtoss.store import Store as StorePlace

    now, before = StorePlace(store).rollback()
    print(f"{now} is current, {before} was")


app.command()(export)
app.command()(cli_ceps.patterns)
app.command()(cli_ceps.plan)
app.command()(cli_ceps.report)
app.command()(cli_ceps.calibrate)


def _facts(manifest: dict[str, Any]) -> dict[str, Any]:
    names = (
        "snapshot", "created", "format", "objects", "sites", "replicas", "crs", "metric", "bounds", "columns",
        "parameters", "counts", "bytes", "area", "pivots_hash", "timings",
    )  # fmt: skip
    facts = {name: manifest[name] for name in names}
    entries = manifest["partitions"]
    facts["partitions"] = len(entries)
    facts["objects_per_partition"] = [entry["objects"] for entry in entries]
    facts["bytes_per_partition"] = [entry["bytes"] for entry in entries]
    facts["cells"] = {
        "certified": manifest["sites"] - sum(entry["uncertified"] for entry in entries),
        "fixed": manifest["borders"]["fixed"],
    }
    facts["lambda"] = manifest["reach"]
    return facts


def _place(at: tuple[float, float] | None) -> list[list[float]]:
    if at is None:
        raise ValueError("no place is given: --at LON LAT, or --queries FILE --out FILE")
    return [list(at)]


def _names(columns: str) -> list[str]:
    return [name.strip() for name in columns.split(",") if name.strip()]


def _print_hits(index: dtoss.Index, hits: dtoss.Hits, as_json: bool) -> None:
    table = hits.to_arrow().rename_columns(["query_id", "id", "distance", "rank", *hits.columns])
    if as_json:
        print(json.dumps({"snapshot": index.snapshot, "hits": table.to_pylist()}, default=str))
        return
    import csv

    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(table.column_names)
    writer.writerows(zip(*(column.to_pylist() for column in table.columns), strict=True))


def _print_table(rows: Sequence[tuple[str, str]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, text in rows:
        table.add_row(name, text)
    console = Console(width=None if sys.stdout.isatty() else 140, highlight=False)
    console.print(table)


def _spark(master: str | None, driver_memory: str | None) -> Any:
    try:
        import pyspark  # noqa: F401
    except ImportError:
        raise InputError("this needs Spark: pip install 'dtoss[spark]'") from None
    from pipelines.java import JavaNotFound
    from pipelines.session import spark_session

    try:
        return spark_session(master, driver_memory=driver_memory)
    except JavaNotFound as error:
        raise InputError(str(error)) from None


def _queries(
    path: str,
    at: tuple[float, float] | None,
    id_: str,
    x: str | None,
    y: str | None,
    master: str | None,
    driver_memory: str | None,
) -> Any:
    """Return the positions in a file of queries."""
    if at is not None:
        raise ValueError("--at and --queries are both given: one of them is wanted")
    session = _spark(master, driver_memory)
    from pipelines.positions import Columns
    from pipelines.reading import read_positions

    return read_positions(session, [path], Columns(id=id_, x=x, y=y, attributes="none"))


def _target(option: str, out: str | None) -> str:
    if out is None:
        raise ValueError(f"{option} needs --out FILE for the result (.parquet, .csv or .jsonl)")
    suffix = Path(out).suffix
    if suffix not in (".parquet", ".csv", ".jsonl"):
        raise ValueError(f"--out {out} ends in {suffix or 'nothing'}: .parquet, .csv or .jsonl is wanted")
    return out


def _write(frame: Any, out: str) -> None:
    from pipelines.output import write_file

    rows = write_file(frame, out)
    print(f"{rows:,} rows in {out}", file=sys.stderr)


def _fail(message: str, code: int) -> NoReturn:
    print(f"error: {' '.join(message.split())}", file=sys.stderr)
    raise SystemExit(code)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command and exit: 0 on success, 2 for bad arguments or input, 1 for a failure inside."""
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    try:
        code = app(args=list(arguments) or ["--help"], standalone_mode=False)
        raise SystemExit(code if isinstance(code, int) else 0)
    except typer.Exit as done:
        raise SystemExit(done.exit_code) from None
    except (typer.Abort, KeyboardInterrupt):
        _fail("interrupted", 1)
    except _UsageError as error:
        _fail(error.format_message() if hasattr(error, "format_message") else str(error), 2)
    except BrokenPipeError:
        # whoever read our output has gone; that is no failure
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(0) from None
    except (DtossError, ValueError) as error:
        _fail(str(error), 2)
    except Exception as error:
        if os.environ.get("DTOSS_DEBUG"):
            traceback.print_exc()
        text = str(error).strip()
        if ours := re.search(r"^\s*dtoss\.errors\.\w+: (.*)", text, re.MULTILINE):
            _fail(ours[1], 2)  # raised in a task of Spark's
        _fail(f"{_first_cause(type(error).__name__, text)} (DTOSS_DEBUG=1 shows where)", 1)


def _first_cause(kind: str, text: str) -> str:
    """Return the line of an error's text that says most: of Spark's, what was raised in a task or in Java."""
    raised = re.findall(r"^(?:[\w.]*\.)?(\w+(?:Error|Exception|Interrupt)): (.+)", text, re.MULTILINE)
    if raised and kind in ("PythonException", "Py4JJavaError", "SparkException"):
        return ": ".join(raised[-1] if kind == "PythonException" else raised[0])
    if java := re.search(r"^: (.+)", text, re.MULTILINE):
        return java[1]
    return f"{kind}: {(text.splitlines() or [''])[0]}"


def run_script(command: str) -> None:
    """Run one command as a script for spark-submit."""
    main([command, *sys.argv[1:]])
