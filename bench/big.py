"""67 million uniform objects rebuilt on this machine: `python -m bench.big`, time by stage, peak memory, bytes.

Prints a table; everything it makes is deleted at the end. Needs some 20 GB of disk.
"""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from bench.measuring.rebuilds import first_answer, peak_memory, size_of
from datasets.tables.command import run, say
from datasets.tables.seeded_batches import write_parquet
from datasets.uniform import PLANE_SCHEMA, uniform_plane

NEEDED = 300
"""Bytes of disk for an object: positions, shuffles, the snapshot."""


def main(
    scratch: Annotated[Path, typer.Option(help="Folder for the positions and the store; made, and deleted again.")],
    objects: Annotated[int, typer.Option(help="How many.")] = 67_000_000,
    objects_per_partition: Annotated[int, typer.Option(help="As in dtoss rebuild.")] = 250_000,
) -> None:
    """Time a rebuild of very many objects."""
    from dtoss.rows.input_columns import Columns
    from pipelines.engines.progress import Stages
    from pipelines.rebuild import rebuild
    from pipelines.rows.read_files import read_positions
    from pipelines.spark.session import spark_session

    scratch.mkdir(parents=True)
    try:
        free = shutil.disk_usage(scratch).free
        if free < NEEDED * objects:
            say(f"{free / 1e9:.0f} GB are free, {NEEDED * objects / 1e9:.0f} GB are wanted: name another --scratch")
            raise typer.Exit(2)
        positions, store = scratch / "uniform.parquet", scratch / "store"
        began = time.perf_counter()
        write_parquet(uniform_plane(objects), PLANE_SCHEMA, positions)
        generated = time.perf_counter() - began
        local = str((scratch / "spark").absolute())
        session = spark_session(name="big", settings={"spark.local.dir": local})
        with peak_memory() as peak:
            began = time.perf_counter()
            read = read_positions(session, [str(positions)], Columns(attributes="none"))
            manifest = rebuild(
                read,
                str(store),
                crs="none",
                objects_per_partition=objects_per_partition,
                stages=Stages(session, shown=True),
            )
            spent = time.perf_counter() - began
        sizes = [entry["objects"] for entry in manifest["partitions"]]
        rows = [
            ("objects", f"{manifest['objects']:,} on {manifest['sites']:,} sites"),
            ("partitions", f"{len(sizes)}: largest {max(sizes) * len(sizes) / sum(sizes):.3f} of the mean"),
            ("generated in", f"{generated:.0f} s"),
            ("rebuilt in", f"{spent:.0f} s, {manifest['objects'] / spent:,.0f} objects/s"),
            *((f"  {name}", f"{seconds:.1f} s") for name, seconds in manifest["timings"].items()),
            ("peak memory", f"{peak.bytes / 1e9:.1f} GB, all processes"),
            ("on disk", f"{size_of(store) / 1e9:.2f} GB; the positions {positions.stat().st_size / 1e9:.2f} GB"),
            ("replicas", f"{manifest['replicas'] / manifest['objects']:.2%}"),
            ("open and first answer", f"{1000 * first_answer(str(store), (5e8, 5e8)):.0f} ms"),
        ]
        table = Table(show_header=False, box=None, pad_edge=False)
        for row in rows:
            table.add_row(*row)
        Console(width=100, highlight=False).print(table)
        session.stop()
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


if __name__ == "__main__":
    run(main)
