"""The command that says which server of a plan is asked about a place."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from dtoss.errors import InputError
from pipelines.command.terminal import options


def route(
    store: options.Store,
    at: options.At,
    plan: Annotated[str, typer.Option(help="The plan.", metavar="FILE", show_default=False)],
    peers: Annotated[
        str | None, typer.Option(help="TOML file of where the plan's servers are: number = URL.", metavar="FILE")
    ] = None,
    radius: Annotated[
        float | None, typer.Option(help="Also servers of what may be within so many metres or CRS units.", min=0)
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Say which partition holds a place, and which servers of a plan have it."""
    import numpy as np

    from dtoss.client.peers import read_peers
    from dtoss.geometry.space import as_positions
    from dtoss.partitioning.partition_bounds import far_of_radius, owners_that_may
    from dtoss.serve.cluster.plan_placement import rank, read_placement
    from dtoss.snapshots.manifest import regions_of_manifest, space_of_manifest
    from dtoss.snapshots.store import Store

    if at is None:
        raise InputError("there is no place: --at LON LAT")
    manifest = Store(store).manifest()
    space, regions = space_of_manifest(manifest), regions_of_manifest(manifest)
    placement = read_placement(plan, manifest["pivots_hash"], len(regions))
    vectors = space.vectors(as_positions([at], space))
    home = int(regions.nearest(vectors)[0])
    urls = {} if peers is None else read_peers(peers).addresses
    others: list[int] = []
    if radius is not None:
        furthest = np.array([entry["furthest"] for entry in manifest["partitions"]])
        far = far_of_radius(np.array([radius]), vectors.shape[1])
        _, part = owners_that_may(regions, vectors, np.array([home], np.int32), far, furthest)
        others = sorted({number for number in part.tolist() if number != home and furthest[number] >= 0})
    rows = [_row(number, placement.holders[number], urls, rank) for number in [home, *others]]
    if as_json:
        print(json.dumps({"snapshot": manifest["snapshot"], "home": home, "partitions": rows}))
        return
    for row in rows:
        print(f"partition {row['partition']}: " + ", ".join(map(_named, row["servers"])))


def _row(number: int, holders: tuple[int, ...], urls: Any, rank: Any) -> dict[str, Any]:
    """Return a partition and its servers, the one first that is asked first."""
    servers = sorted(holders, key=lambda server: int(rank(number, server)))
    if urls and (unknown := [server for server in servers if server not in urls]):
        raise InputError(f"--peers does not name server {unknown[0]}: add a line of its URL")
    told = [{"server": server, "url": str(urls[server]) if server in urls else None} for server in servers]
    return {"partition": number, "servers": told}


def _named(one: dict[str, Any]) -> str:
    return f"server {one['server']}" + (f" at {one['url']}" if one["url"] else "")
