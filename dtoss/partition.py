"""One partition: its objects, sites, graph and hierarchy as flat arrays, and their file.

The file is Arrow IPC, uncompressed, one row whose columns are lists: every array of the partition is one contiguous
buffer that opens by memory mapping, with nothing parsed. Owned sites come first, in curve order, then replicas, in
curve order; objects follow their sites, in id order on each.
"""

from __future__ import annotations

import hashlib
import io
import json
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dtoss.blocks import BLOCK, Blocks
from dtoss.errors import StoreError

FAN = BLOCK
"""Each level of the hierarchy keeps every 16th site of the level below, the first of each block."""

Ids: TypeAlias = NDArray[np.int64] | Any
"""int64 (n,), or an Arrow array of large strings."""


@dataclass(frozen=True)
class Graph:
    """Neighbours of sites: those of site i are ``neighbours[first[i]:first[i + 1]]``, both int32."""

    first: NDArray[np.int32]
    neighbours: NDArray[np.int32]


@dataclass(frozen=True)
class Partition:
    """A partition with m sites and n objects, owned ones first.

    Parameters
    ----------
    number : which partition this is.
    ids : int64 (n,) or strings.
    positions : float64 (n, 2): lon, lat or x, y as they were read.
    sites : float64 (m, dimension): distinct vectors.
    first_object : int32 (m + 1,): the objects on site i are ``first_object[i]:first_object[i + 1]``.
    owned_sites : sites ``0:owned_sites`` are owned, the others replicas.
    replica_home : int32 (m - owned_sites,): the partitions that own the replicas.
    graph : the diagram of all sites, clipped to the bounds in the plane.
    rim : int32: sites whose cells reach the bounds; empty on the sphere.
    levels : graphs over the owned sites 0, F, 2F, ...; 0, F^2, ...; and so on, F = 16: to find where a query starts.
    keys : int64: places on the curve of the owned sites 0, F, 2F, ...: where a batch in curve order starts.
    blocks : runs of F sites, owned or not, and their graph: how a search spreads.
    uncertified : int32, ascending: owned sites whose cells the border table holds.
    furthest : distance or chord from the pivot to the furthest owned site; -1 where there is none.
    attributes : further columns, Arrow arrays of length n.
    """

    number: int
    ids: Ids
    positions: NDArray[np.float64]
    sites: NDArray[np.float64]
    first_object: NDArray[np.int32]
    owned_sites: int
    replica_home: NDArray[np.int32]
    graph: Graph
    rim: NDArray[np.int32]
    levels: tuple[Graph, ...]
    keys: NDArray[np.int64]
    blocks: Blocks
    uncertified: NDArray[np.int32]
    furthest: float
    attributes: dict[str, pa.Array] = field(default_factory=dict)

    @property
    def owned_objects(self) -> int:
        """Objects that belong to this partition."""
        return int(self.first_object[self.owned_sites])


def _arrays(partition: Partition) -> dict[str, Any]:
    arrays: dict[str, Any] = {
        "ids": partition.ids,
        "positions": partition.positions.ravel(),
        "sites": partition.sites.ravel(),
        "first_object": partition.first_object,
        "replica_home": partition.replica_home,
        "first": partition.graph.first,
        "neighbours": partition.graph.neighbours,
        "rim": partition.rim,
        "keys": partition.keys,
        "balls": partition.blocks.balls.ravel(),
        "block_first": partition.blocks.first,
        "block_neighbours": partition.blocks.neighbours,
        "uncertified": partition.uncertified,
    }
    for level, graph in enumerate(partition.levels):
        arrays[f"first_{level + 1}"] = graph.first
        arrays[f"neighbours_{level + 1}"] = graph.neighbours
    for name, column in partition.attributes.items():
        arrays[f"attribute:{name}"] = column
    return arrays


def pack(arrays: dict[str, Any], facts: dict[str, Any]) -> pa.RecordBatch:
    """Return a batch of one row whose columns are lists, with facts in its metadata."""
    columns, names = [], []
    for name, values in arrays.items():
        array = values if isinstance(values, pa.Array) else pa.array(values)
        columns.append(pa.LargeListArray.from_arrays(pa.array([0, len(array)], pa.int64()), array))
        names.append(name)
    schema = pa.schema(
        [pa.field(name, column.type) for name, column in zip(names, columns, strict=True)],
        metadata={"dtoss": json.dumps(facts, sort_keys=True)},
    )
    return pa.record_batch(columns, schema=schema)


def unpack(batch: pa.RecordBatch) -> tuple[dict[str, pa.Array], dict[str, Any]]:
    """Return the arrays and facts of a packed batch, without a copy."""
    arrays = {name: batch.column(i).values for i, name in enumerate(batch.schema.names)}
    return arrays, json.loads(batch.schema.metadata[b"dtoss"])


def to_bytes(batch: pa.RecordBatch) -> pa.Buffer:
    """Return a batch as an Arrow IPC file."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue()


def checksum(data: pa.Buffer | bytes) -> str:
    """Return the SHA-256 of a file's bytes, in hexadecimal."""
    return hashlib.sha256(memoryview(data)).hexdigest()


def encode(partition: Partition) -> pa.Buffer:
    """Return the bytes of a partition's file: the same partition, the same bytes."""
    facts = {
        "number": partition.number,
        "dimension": partition.sites.shape[1],
        "owned_sites": partition.owned_sites,
        "levels": len(partition.levels),
        "furthest": partition.furthest,
    }
    return to_bytes(pack(_arrays(partition), facts))


def decode(source: pa.Buffer | pa.NativeFile | io.IOBase, name: str) -> Partition:
    """Return the partition in a file; its arrays are views of the source.

    Raises
    ------
    StoreError
        If the file cannot be read as a partition; the message names it.
    """
    try:
        arrays, facts = unpack(pa.ipc.open_file(source).get_batch(0))
    except (pa.ArrowInvalid, OSError, KeyError, TypeError, ValueError) as error:
        raise StoreError(f"{name} is not a partition file or is damaged ({error}); roll back or rebuild") from None
    plain = {
        key: value.to_numpy(zero_copy_only=True)
        for key, value in arrays.items()
        if not key.startswith("attribute:") and not (key == "ids" and pa.types.is_large_string(value.type))
    }
    ids = plain.get("ids", arrays["ids"])
    return Partition(
        number=facts["number"],
        ids=ids,
        positions=plain["positions"].reshape(-1, 2),
        sites=plain["sites"].reshape(-1, facts["dimension"]),
        first_object=plain["first_object"],
        owned_sites=facts["owned_sites"],
        replica_home=plain["replica_home"],
        graph=Graph(plain["first"], plain["neighbours"]),
        rim=plain["rim"],
        levels=tuple(
            Graph(plain[f"first_{level + 1}"], plain[f"neighbours_{level + 1}"]) for level in range(facts["levels"])
        ),
        keys=plain["keys"],
        blocks=Blocks(plain["balls"].reshape(-1, 4), plain["block_first"], plain["block_neighbours"]),
        uncertified=plain["uncertified"],
        furthest=facts["furthest"],
        attributes={
            key.removeprefix("attribute:"): value for key, value in arrays.items() if key.startswith("attribute:")
        },
    )
