"""Whether the partitions of a snapshot agree with the regions, with each other, with the borders and the tombstones.

Checksums say that files are as they were written. This says that they were written right: what a partition's own
structure (:mod:`dtoss.snapshots.structure`) cannot tell.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dtoss.compiled.checked_memory import address
from dtoss.compiled.kernel import kernel
from dtoss.compiled.pointers import int32_at
from dtoss.errors import StoreError
from dtoss.geometry.space import Space
from dtoss.id_filter import filter_of_ids, order_of_ids
from dtoss.partition import Graph, Ids, Partition
from dtoss.partitioning.assign import assign
from dtoss.partitioning.regions import Regions
from dtoss.row_runs import runs
from dtoss.snapshots.manifest import reach_of, regions_of_manifest, space_of_manifest
from dtoss.snapshots.partition_file import decode_tombstones
from dtoss.snapshots.read_file import borders_in, partition_in
from dtoss.snapshots.structure import time_type

if TYPE_CHECKING:
    from dtoss.building.border import BorderTable
    from dtoss.snapshots.mapped_file import Source


def faults_of(manifest: dict[str, Any], sources: dict[str, Source]) -> Iterator[tuple[str | None, str]]:
    """Yield (file, what is wrong) for the files whose checksums hold; no file where the text names it."""
    space, regions = space_of_manifest(manifest), regions_of_manifest(manifest)
    partitions: dict[int, Partition] = {}
    files = [entry["file"] for entry in manifest["partitions"]]
    for number, file in enumerate(files):
        if file not in sources:
            continue
        try:
            partition = partition_in(sources[file], manifest, number)
        except StoreError as error:
            yield None, str(error)
            continue
        partitions[number] = partition
        for what in faults_of_partition(partition, space, regions):
            yield file, what
    owned = owned_of(partitions)
    for number, what in repeated_ids(owned):
        yield files[number], what
    if len(partitions) == len(files):
        for number, what in faults_of_replicas(partitions, regions, reach_of(manifest)):
            yield files[number], what
    borders, tombstones = manifest["borders"]["file"], manifest.get("tombstones")
    if borders in sources:
        try:
            table = borders_in(sources[borders], manifest)
        except StoreError as error:
            yield None, str(error)
        else:
            for what in faults_of_borders(table, partitions, regions):
                yield borders, what
    if tombstones and tombstones["file"] in sources:
        source = sources[tombstones["file"]]
        try:
            batch = decode_tombstones(source.data, source.path)
        except StoreError as error:
            yield None, str(error)
            return
        kind = manifest["time"] and manifest["time"]["type"]
        if (rows := len(batch)) != tombstones["rows"]:
            yield tombstones["file"], f"it has {rows} rows, the manifest says {tombstones['rows']}"
        if time_type(batch.column("t").type) != kind:
            yield tombstones["file"], f"its times are {time_type(batch.column('t').type)}, those of objects are {kind}"
        if ("string" in str(batch.column("id").type)) != (manifest["id_type"] == "string"):
            yield tombstones["file"], f"its ids are {batch.column('id').type}, those of objects {manifest['id_type']}"
        elif (risen := standing(batch, owned)) is not None:
            yield tombstones["file"], risen


@dataclass(frozen=True)
class Owned:
    """The owned objects of all partitions that could be read, in the order of their ids."""

    ids: Ids  # int64 (n,) or large strings, ascending
    partition: NDArray[np.int32]  # int32 (n,). Who owns each
    row: NDArray[np.int64]  # int64 (n,). Its number among the owned objects of that partition


def owned_of(partitions: Mapping[int, Partition]) -> Owned:
    """Return the owned objects of partitions by their ids. Cost O(n) for numbers, O(n log n) for strings."""
    count = {number: partition.owned_objects for number, partition in partitions.items()}
    pieces = [partition.ids[: count[number]] for number, partition in partitions.items()]
    if any(isinstance(piece, pa.Array) for piece in pieces):
        ids: Ids = pa.concat_arrays(pieces)
    else:
        ids = np.concatenate([np.empty(0, np.int64), *pieces])
    of = np.repeat(np.array(list(count), np.int32), list(count.values()))
    row = np.concatenate([np.empty(0, np.int64), *(np.arange(n) for n in count.values())])
    order = order_of_ids(ids)
    return Owned(ids.take(pa.array(order)) if isinstance(ids, pa.Array) else ids[order], of[order], row[order])


def faults_of_partition(partition: Partition, space: Space, regions: Regions) -> Iterator[str]:
    """Yield what is wrong with a partition as such: its regions, its vectors, its filter, its graphs."""
    owned, sites = partition.owned_sites, partition.sites
    homes = regions.nearest(np.ascontiguousarray(sites))
    if (wrong := np.flatnonzero(homes[:owned] != partition.number)).size:
        yield f"{wrong.size} owned sites lie in other regions, site {wrong[0]} in that of partition {homes[wrong[0]]}"
    if (wrong := np.flatnonzero(homes[owned:] != partition.replica_home)).size:
        yield f"{wrong.size} replicas are said to be of partitions in whose regions they do not lie"
    if (partition.replica_home == partition.number).any():
        yield "a replica is said to be of the partition itself"
    if not _are_vectors(partition, space):
        yield "sites are not the vectors of the positions"
    if partition.id_filter.tolist() != filter_of_ids(partition.ids[: partition.owned_objects]).tolist():
        yield "the filter is not that of the ids"
    graphs = [("neighbours", partition.graph, len(sites))]
    for level, graph in enumerate(partition.levels):
        graphs.append((f"neighbours of level {level + 1}", graph, len(graph.first) - 1))
    for what, graph, nodes in graphs:
        node = one_sided(graph, nodes)
        if node >= 0:
            yield f"{what} of site {node} do not have it as a neighbour, or it is its own, or one stands twice"


def _are_vectors(partition: Partition, space: Space) -> bool:
    wanted = np.repeat(partition.sites, np.diff(partition.first_object), axis=0)
    try:
        made = space.vectors(partition.positions)
    except ValueError:
        return False
    if space.to_lonlat:
        # another version of PROJ may round otherwise
        return bool((np.abs(made - wanted) <= 1e-9).all())
    return bool((made == wanted).all())


def repeated_ids(owned: Owned) -> Iterator[tuple[int, str]]:
    """Yield (partition, what is wrong) for each partition that owns an object that another one owns too."""
    ids = owned.ids
    if isinstance(ids, pa.Array):
        ids = pc.rank(ids, tiebreaker="dense").to_numpy() if len(ids) else np.empty(0, np.int64)
    again = np.flatnonzero(ids[1:] == ids[:-1]) + 1
    for number in np.unique(owned.partition[again]).tolist():
        first = again[owned.partition[again] == number]
        other = owned.partition[first[0] - 1]
        one = owned.ids[int(first[0])]
        yield number, f"{len(first)} ids stand twice, {one} in partition {other} too"


def faults_of_replicas(
    partitions: Mapping[int, Partition], regions: Regions, reach: NDArray[np.float64]
) -> Iterator[tuple[int, str]]:
    """Yield (partition, what is wrong with its replicas): missing, one too many, or not as their owner has them.

    All partitions are needed; which objects each must know is said by :func:`dtoss.partitioning.assign.assign`.
    """
    known: dict[int, dict[int, NDArray[np.int64]]] = {number: {} for number in partitions}
    for number, partition in partitions.items():
        sent = assign(np.ascontiguousarray(partition.sites[: partition.owned_sites]), regions, reach)
        for to in np.unique(sent.partition).tolist():
            sites = np.sort(sent.row[sent.partition == to])
            known[to][number] = runs(partition.first_object[sites], np.diff(partition.first_object)[sites])
    none = np.empty(0, np.int64)
    for number, partition in partitions.items():
        held = _rows_of_replicas(partition)
        for home in sorted({*known[number], *held}):
            mine, theirs = held.get(home, none), known[number].get(home, none)
            what = _difference(partition, mine, partitions[home], theirs)
            if what is not None:
                yield number, f"replicas of partition {home}: {what}"


def _rows_of_replicas(partition: Partition) -> dict[int, NDArray[np.int64]]:
    """Return the numbers of the replica objects by the partition that owns them."""
    size = np.diff(partition.first_object[partition.owned_sites :])
    home = np.repeat(partition.replica_home, size)
    rows = partition.owned_objects + np.arange(len(home))
    return {int(one): rows[home == one] for one in np.unique(home)}


def _difference(
    partition: Partition, mine: NDArray[np.int64], owner: Partition, theirs: NDArray[np.int64]
) -> str | None:
    """Return how rows of a partition differ from rows of another one, by their ids; None where they do not."""
    if len(mine) != len(theirs):
        return f"{len(mine)} objects where {len(theirs)} are wanted"
    if len(mine) == 0:
        return None
    mine = mine[order_of_ids(_taken(partition.ids, mine))]
    theirs = theirs[order_of_ids(_taken(owner.ids, theirs))]
    if _differ(_as_arrow(_taken(partition.ids, mine)), _as_arrow(_taken(owner.ids, theirs))):
        return "their ids are others"
    if partition.positions[mine].tobytes() != owner.positions[theirs].tobytes():
        return "their positions are others"
    columns: list[tuple[str, Any, Any]] = [("times", partition.times, owner.times)]
    columns += [(f"column {name!r}", column, owner.attributes[name]) for name, column in partition.attributes.items()]
    for what, column, other in columns:
        if column is not None and _differ(column.take(pa.array(mine)), other.take(pa.array(theirs))):
            return f"their {what} are others"
    return None


def _taken(ids: Ids, rows: NDArray[np.int64]) -> Ids:
    return ids.take(pa.array(rows)) if isinstance(ids, pa.Array) else ids[rows]


def _as_arrow(ids: Ids) -> pa.Array:
    return ids if isinstance(ids, pa.Array) else pa.array(ids)


def _differ(a: pa.Array, b: pa.Array) -> bool:
    if a.type != b.type:
        return True
    # NaN is not equal to itself, but its text is
    return not (a.equals(b) or repr(a.to_pylist()) == repr(b.to_pylist()))


def faults_of_borders(table: BorderTable, partitions: Mapping[int, Partition], regions: Regions) -> Iterator[str]:
    """Yield what is wrong with the border table: homes, ids, which points are open, and its graph."""
    if (regions.nearest(np.ascontiguousarray(table.sites)) != table.home).any():
        yield "points are said to be of partitions in whose regions they do not lie"
    node = one_sided(Graph(table.first, table.neighbours), len(table.sites))
    if node >= 0:
        yield f"neighbours of point {node} do not have it as a neighbour, or it is its own, or one stands twice"
    for number, partition in partitions.items():
        sites = partition.sites[partition.uncertified]
        points = np.flatnonzero(table.open & (table.home == number))
        mine = sites[np.lexsort(sites.T[::-1])]
        if mine.tobytes() != np.ascontiguousarray(table.sites[points]).tobytes():
            yield f"its open points of partition {number} are not the sites that this one could not certify"
            continue
        first = partition.first_object[partition.uncertified[np.lexsort(sites.T[::-1])]].astype(np.int64)
        if _differ(_as_arrow(_taken(partition.ids, first)), _as_arrow(_taken(table.ids, points))):
            yield f"ids of its open points of partition {number} are not the lowest of those sites"


def standing(tombstones: pa.RecordBatch, owned: Owned) -> str | None:
    """Return what to say of tombstones of objects that stand; None where there are none of these."""
    ids = tombstones.column("id")
    if len(ids) == 0 or len(owned.ids) == 0:
        return None
    both = pc.is_in(ids, value_set=_as_arrow(owned.ids))
    count = pc.sum(both).as_py()
    return f"{count} objects stand that are said to be deleted, {ids.filter(both)[0]} among them" if count else None


def one_sided(graph: Graph, nodes: int) -> int:
    """Return the first node of a graph whose list is wrong, -1 where there is none.

    A list is wrong if it names the node itself or one twice, or one whose list does not name the node. The structure
    of the graph has been checked. Cost O(edges times neighbours of a node).
    """
    held = np.ascontiguousarray(graph.first), np.ascontiguousarray(graph.neighbours)
    return int(_one_sided(address(held[0], "offsets"), address(held[1], "neighbours"), nodes))


@kernel("int64(int64, int64, int64)")
def _one_sided(first_at, neighbours_at, nodes):
    first, neighbours = int32_at(first_at), int32_at(neighbours_at)
    for i in range(nodes):
        for t in range(first[i], first[i + 1]):
            j = neighbours[t]
            if j == i:
                return i
            for u in range(first[i], t):
                if neighbours[u] == j:
                    return i
            found = False
            for u in range(first[j], first[j + 1]):
                if neighbours[u] == i:
                    found = True
                    break
            if not found:
                return i
    return -1
