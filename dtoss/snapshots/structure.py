"""The structure of what a snapshot's files hold, checked before the first kernel reads it.

Kernels follow addresses and do not look back: an offset, a neighbour or a count that is out of range would read what
is not there, and a coordinate that is no number would be sorted for ever. So everything that a kernel uses as an index
or as the end of a loop is compared with the counts, and all coordinates with the range that they must lie in. Damage
that passes can make an answer wrong, but cannot make a query crash or hang; checksums find it (``verify="touch"``).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dtoss.compiled.checked_memory import address
from dtoss.compiled.kernel import kernel
from dtoss.compiled.pointers import float64_at, int32_at, int64_at, uint8_at
from dtoss.errors import StoreError
from dtoss.geometry.distance import SPHERE, YMAX
from dtoss.geometry.rounding import UNIT
from dtoss.geometry.space import FURTHEST
from dtoss.id_filter import text_buffers, words_of
from dtoss.partition import BLOCK, FAN, Graph, Partition

if TYPE_CHECKING:
    from dtoss.building.border import BorderTable

OFFSETS, STARTS, INDEXES, PICKED, ASCENDING_KEYS, WITHIN, SITE_VECTORS = range(7)
"""What an array is checked to be, by :func:`_first_bad`."""
_BOUND = 3
"""The column of a job that holds its bound."""


@dataclass(frozen=True)
class Claims:
    """What the manifest says of a partition."""

    number: int  # Which partition it is
    objects: int  # How many it owns
    sites: int  # How many it owns
    replicas: int  # Objects of others in its file
    uncertified: int  # Owned sites whose cells the border table holds
    furthest: float  # As the file must say it, to the bit
    dimension: int  # 2 in the plane, 3 on the sphere
    partitions: int  # How many there are
    box: tuple[float, float, float, float]  # Of the positions: xmin, ymin, xmax, ymax
    string_ids: bool  # Whether ids are strings
    columns: frozenset[str]  # Names of the attributes
    time: str | None = None  # Spark's type of the objects' times; None where they have none


def check_partition(partition: Partition, claims: Claims, name: str) -> None:
    """Compare a partition with what the manifest says of it, and its arrays with each other.

    Cost O(bytes of the arrays), at the speed of memory.
    """
    sites, dimension = partition.sites.shape
    objects, owned, blocks = len(partition.positions), partition.owned_sites, len(partition.blocks.balls)
    text = isinstance(partition.ids, pa.Array)
    _equal(name, "number", partition.number, claims.number)
    _equal(name, "dimension", dimension, claims.dimension)
    _equal(name, "strings as ids", text, claims.string_ids)
    _equal(name, "owned sites", owned, claims.sites)
    _equal(name, "furthest", partition.furthest, claims.furthest)
    _equal(name, "uncertified sites", len(partition.uncertified), claims.uncertified)
    _equal(name, "objects", objects, claims.objects + claims.replicas)
    _equal(name, "ids", len(partition.ids), objects)
    _equal(name, "columns", sorted(partition.attributes), sorted(claims.columns))
    for column, values in partition.attributes.items():
        _equal(name, f"values of column {column!r}", len(values), objects)
    _check_times(partition, claims, name)
    if not 0 <= owned <= sites:
        raise _damaged(name, f"{owned} owned sites of {sites}")
    _equal(name, "homes of replicas", len(partition.replica_home), sites - owned)
    _equal(name, "balls", blocks, -(-sites // BLOCK))
    _equal(name, "curve keys", len(partition.keys), -(-owned // FAN))
    jobs = [
        ("first objects", STARTS, partition.first_object, sites, objects),
        *_graph_jobs("graph", partition.graph, sites),
        *_graph_jobs("blocks", Graph(partition.blocks.first, partition.blocks.neighbours), blocks),
        ("rim", PICKED, partition.rim, len(partition.rim), sites),
        ("uncertified sites", PICKED, partition.uncertified, len(partition.uncertified), owned),
        ("homes of replicas", INDEXES, partition.replica_home, len(partition.replica_home), claims.partitions),
        ("curve keys", ASCENDING_KEYS, partition.keys, len(partition.keys), 0),
        ("positions", WITHIN, partition.positions, objects, 0),
        ("sites", SITE_VECTORS, partition.sites, sites, dimension),
    ]
    nodes = owned
    for level, graph in enumerate(partition.levels):
        nodes = -(-nodes // FAN)
        jobs += _graph_jobs(f"level {level + 1}", graph, nodes)
    table = np.zeros((len(jobs), 5), np.int64)
    for row, (what, kind, array, count, bound) in zip(table, jobs, strict=True):
        if kind in (OFFSETS, STARTS):
            _equal(name, f"offsets of {what}", len(array), count + 1)
        row[:] = kind, address(array, what), count, bound, address(partition.blocks.balls, "balls")
    bad = _first_bad(table, np.array(claims.box))
    if bad >= 0:
        raise _damaged(name, f"{jobs[bad][0]} out of range or out of order")
    _equal(name, "owned objects", partition.owned_objects, claims.objects)
    _check_id_order(partition, name)


def _floats(values: pa.Array) -> NDArray[np.floating[Any]]:
    """Return the numbers of an array without nulls: ``to_numpy`` would import pandas."""
    if len(values) == 0:
        return np.empty(0)
    found = np.frombuffer(values.buffers()[1], f"f{values.type.bit_width // 8}")
    return found[values.offset : values.offset + len(values)]


def _check_times(partition: Partition, claims: Claims, name: str) -> None:
    times = partition.times
    _equal(name, "type of times", None if times is None else time_type(times.type), claims.time)
    if times is not None:
        _equal(name, "times", len(times), len(partition.positions))
        if pa.types.is_floating(times.type) and np.isnan(_floats(times)).any():
            raise _damaged(name, "a time is NaN")


def _check_id_order(partition: Partition, name: str) -> None:
    order, ids, count = partition.id_order, partition.ids, partition.owned_objects
    _equal(name, "numbers of objects by id", len(order), count)
    _equal(name, "words of the filter of ids", len(partition.id_filter), words_of(count))
    if isinstance(ids, pa.Array):
        offsets, texts = text_buffers(ids)
        bad = _texts_fall(
            address(order, "order by id"), count, address(offsets, "offsets of ids"), address(texts, "ids")
        )
    else:
        bad = _numbers_fall(address(order, "order by id"), count, address(ids, "ids"))
    if bad:
        raise _damaged(name, "ids out of order, or one stands twice")


_TIME_TYPES = {
    "int8": "tinyint",
    "int16": "smallint",
    "int32": "int",
    "int64": "bigint",
    "float": "float",
    "double": "double",
    "date32[day]": "date",
    "timestamp[us, tz=UTC]": "timestamp",
    "timestamp[us]": "timestamp_ntz",
}


def time_type(kind: pa.DataType) -> str:
    """Return what Spark calls the type of a file's times; the type's own name where it is none of times.

    Examples
    --------
    >>> time_type(pa.timestamp("us", "UTC")), time_type(pa.int64()), time_type(pa.decimal128(20, 0))
    ('timestamp', 'bigint', 'decimal(20,0)')
    """
    if pa.types.is_decimal128(kind):
        return f"decimal({kind.precision},{kind.scale})"
    return _TIME_TYPES.get(str(kind), str(kind))


def check_border(table: BorderTable, points: int, fixed: int, dimension: int, partitions: int, name: str) -> None:
    """Compare a border table with what the manifest says of it, and its arrays with each other."""
    sites = table.sites
    _equal(name, "points", sites.shape, (points, dimension))
    _equal(name, "open points", int(np.count_nonzero(table.open)), fixed)
    for what, values in (("homes", table.home), ("ids", table.ids), ("marks", table.open), ("areas", table.area)):
        _equal(name, what, len(values), points)
    _equal(name, "offsets of neighbours", len(table.first), points + 1)
    with np.errstate(over="ignore", invalid="ignore"):
        size = (sites * sites).sum(axis=1)
    wrong = {
        "marks": (table.open.view(np.uint8) > 1).any(),
        "homes": ((table.home < 0) | (table.home >= partitions)).any(),
        "offsets": table.first[0] != 0
        or table.first[-1] != len(table.neighbours)
        or (table.first[1:] < table.first[:-1]).any(),
        "neighbours": ((table.neighbours < 0) | (table.neighbours >= points)).any(),
        "areas": not (np.isfinite(table.area) & (table.area >= 0.0)).all(),
        "points": not (np.abs(sites) <= FURTHEST).all()
        or (dimension == 3 and (np.abs(size - 1.0) > UNIT).any())
        or not ascend(sites),
    }
    for what, found in wrong.items():
        if found:
            raise _damaged(name, f"{what} out of range or out of order")


def ascend(sites: NDArray[np.float64]) -> bool:
    """Return whether vectors are in the order of their first numbers, then of their second ones, and so on."""
    one, next_one = sites[:-1], sites[1:]
    ascends = one[:, -1] <= next_one[:, -1]
    for axis in reversed(range(sites.shape[1] - 1)):
        ascends = (one[:, axis] < next_one[:, axis]) | ((one[:, axis] == next_one[:, axis]) & ascends)
    return bool(ascends.all())


def _graph_jobs(what: str, graph: Graph, nodes: int) -> Iterator[tuple[str, int, NDArray[Any], int, int]]:
    yield what, OFFSETS, graph.first, nodes, len(graph.neighbours)
    yield f"neighbours of {what}", INDEXES, graph.neighbours, len(graph.neighbours), nodes


def _equal(name: str, what: str, found: Any, wanted: Any) -> None:
    if found != wanted:
        raise _damaged(name, f"{what}: {found} where {wanted} is wanted")


def _damaged(name: str, what: str) -> StoreError:
    return StoreError(f"{name} is damaged ({what}); roll back or rebuild")


@kernel
def _falls(values, count):
    """Return whether one of the values is less than the one before."""
    bad = False
    for i in range(1, count):
        bad |= values[i] < values[i - 1]
    return bad


@kernel
def _stays(values, count):
    """Return whether one of the values is not greater than the one before."""
    bad = False
    for i in range(1, count):
        bad |= values[i] <= values[i - 1]
    return bad


@kernel
def _beyond(values, count, end):
    """Return whether one of the values is negative or not less than ``end``."""
    most = np.uint32(0)
    for i in range(count):
        value = np.uint32(values[i])
        most = value if value > most else most
    return count > 0 and most >= end


@kernel
def _outside(positions, count, box):
    """Return whether one of the positions is not in the box."""
    xmin, ymin, xmax, ymax = box[0], box[1], box[2], box[YMAX]
    bad = False
    for i in range(count):
        x, y = positions[2 * i], positions[2 * i + 1]
        bad |= not ((x >= xmin) & (x <= xmax) & (y >= ymin) & (y <= ymax))
    return bad


@kernel
def _astray(sites, balls, count, dimension):
    """Return whether one of the sites is not in the ball of its block, or is no unit vector on the sphere."""
    bad = False
    for b in range((count + BLOCK - 1) // BLOCK):
        x, y, z, radius = balls[4 * b], balls[4 * b + 1], balls[4 * b + 2], balls[4 * b + SPHERE]
        most = radius * radius
        bad |= not (most < np.inf)
        begin, end = b * BLOCK, min(b * BLOCK + BLOCK, count)
        if dimension == SPHERE:
            for i in range(begin, end):
                p, q, r = sites[SPHERE * i], sites[SPHERE * i + 1], sites[SPHERE * i + 2]
                gap = (p - x) * (p - x) + (q - y) * (q - y) + (r - z) * (r - z)
                size = p * p + q * q + r * r
                bad |= not ((gap <= most) & (abs(size - 1.0) <= UNIT))
        else:
            for i in range(begin, end):
                p, q = sites[2 * i] - x, sites[2 * i + 1] - y
                bad |= not (p * p + q * q <= most)
            bad |= z != 0.0
    return bad


@kernel("int64(int64[:, ::1], float64[::1])")
def _first_bad(jobs, box):
    """Return the first row (kind, address, count, bound, address of the balls) whose array is not what it must be."""
    for row in range(jobs.shape[0]):
        kind, address, count, bound = jobs[row, 0], jobs[row, 1], jobs[row, 2], jobs[row, _BOUND]
        bad = False
        if kind in (OFFSETS, STARTS):
            offsets = int32_at(address)
            bad = offsets[0] != 0 or offsets[count] != bound
            bad |= _falls(offsets, count + 1) if kind == OFFSETS else _stays(offsets, count + 1)
        elif kind == INDEXES:
            bad = _beyond(int32_at(address), count, bound)
        elif kind == PICKED:
            bad = _beyond(int32_at(address), count, bound) or _stays(int32_at(address), count)
        elif kind == ASCENDING_KEYS:
            bad = _falls(int64_at(address), count)
        elif kind == WITHIN:
            bad = _outside(float64_at(address), count, box)
        else:
            bad = _astray(float64_at(address), float64_at(jobs[row, 4]), count, bound)
        if bad:
            return row
    return -1


@kernel("boolean(int64, int64, int64)")
def _numbers_fall(order_at, count, ids_at):
    """Return whether an order goes out of its bounds, or ids do not strictly ascend along it: an id stands twice."""
    order, ids = int32_at(order_at), int64_at(ids_at)
    if _beyond(order, count, count):
        return True
    bad = False
    for i in range(1, count):
        bad |= ids[order[i]] <= ids[order[i - 1]]
    return bad


@kernel("boolean(int64, int64, int64, int64)")
def _texts_fall(order_at, count, offsets_at, texts_at):
    """As :func:`_numbers_fall`, of texts, which are compared by their bytes."""
    order, offsets, texts = int32_at(order_at), int64_at(offsets_at), uint8_at(texts_at)
    if _beyond(order, count, count):
        return True
    for i in range(1, count):
        a, b = offsets[order[i - 1]], offsets[order[i]]
        end_a, end_b = offsets[order[i - 1] + 1], offsets[order[i] + 1]
        while a < end_a and b < end_b and texts[a] == texts[b]:
            a, b = a + 1, b + 1
        if b == end_b or (a < end_a and texts[a] > texts[b]):
            return True
    return False
