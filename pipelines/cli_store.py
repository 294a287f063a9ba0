"""The commands of a store: rebuild, info and rollback."""

from __future__ import annotations

import json
from typing import Annotated, Literal

import typer

from pipelines.cli_options import DriverMemory, Json, Master, Snapshot, Store
from pipelines.cli_output import print_table, start_spark
from pipelines.store_info import facts_of_manifest, print_info, roll_back


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
    from dtoss.store import Store as StorePlace
    from dtoss.store import on_stderr
    from pipelines.positions import Columns
    from pipelines.progress import Stages
    from pipelines.reading import read_positions
    from pipelines.rebuild import check_arguments, summary
    from pipelines.rebuild import rebuild as run

    check_arguments(partitions, objects_per_partition, on_duplicate, max_bad, keep, pivots, reach)
    space_of(crs, metric)
    with StorePlace(store).writer() as lock:
        session = start_spark(master, driver_memory)
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
            warn=on_stderr,
            lock=lock,
        )
    if as_json:
        print(json.dumps(facts_of_manifest(manifest)))
    else:
        print_table(summary(manifest))


def info(
    store: Store,
    snapshot: Snapshot = None,
    verify: Annotated[bool, typer.Option("--verify", help="Read every file and compare its checksum.")] = False,
    as_json: Json = False,
) -> None:
    """Say what is in a store's current snapshot."""
    print_info(store, snapshot, verify=verify, as_json=as_json)


def rollback(store: Store) -> None:
    """Make the snapshot before the current one current again."""
    roll_back(store)
