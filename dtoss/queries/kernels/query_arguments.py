"""What the kernels of queries pass on to one another: a few named tuples in stead of dozens of arguments.

They are made inside a kernel, of the flat arrays that Python hands it, and live in registers: passing one on costs no
more than its parts. Pointers keep nothing alive: the caller of the kernel holds the arrays.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from dtoss.compiled.kernel import kernel
from dtoss.compiled.lanes16 import LANES
from dtoss.compiled.pointers import part_of, pointer
from dtoss.geometry.distance import Place
from dtoss.partitioning.regions import Fences

NO_ROOM = -1
"""In place of a number of hits: the workspace was too small. The caller makes it larger and asks again."""


class Snapshot(NamedTuple):
    """What is searched."""

    rows: Any  # Pointer to the address table; ``row_of`` finds the row of a partition in it
    fences: Fences  # The borders of the partitions
    reach: Any  # Pointer to lambda of each partition
    furthest: Any  # Pointer to how far from each pivot its objects are found; -1 where it has none
    bounds: Any  # Pointer to xmin, ymin, xmax, ymax of the plane


class Query(NamedTuple):
    """One query of a batch."""

    number: int  # Its row in the batch
    place: Place
    radius: float  # The largest distance of a hit, as it is reported; infinity is none
    limit: float  # The same squared, as vectors see it
    # Its home knows everything within this distance, or chord, or more; negative where it may know nothing
    known: float


class Ranged(NamedTuple):
    """What is searched for ranges."""

    rows: Any
    fences: Fences
    reach: Any
    furthest: Any
    bounds: Any
    runs: Any  # Pointer to the addresses of the balls of runs of each partition: :mod:`dtoss.queries.open_snapshot`


class Disc(NamedTuple):
    """What is searched of a partition for the objects within a radius."""

    query: Query
    # A little more than the radius, as vectors see it: a block that it does not meet has no site in the disc
    reach: float
    flood: float  # Squared distance within which the disc's sites are connected
    sure: float  # A little less than the radius, as vectors see it: a block within holds sites of the disc alone
    stop: int  # The site after the last one that counts
    asked: int  # How many, their ids, or where they are: :mod:`dtoss.queries.kernels.disc_search`


class Nearest(NamedTuple):
    """Where a walk to a query has ended."""

    site: int  # The nearest one; -1 where there is none, or nobody has walked
    gap: float  # gap, second: squared distances of the site and of its nearest neighbour
    second: float


class FirstDisc(NamedTuple):
    """Where a search for the nearest begins."""

    block: int  # A block that the disc meets, or one near the query
    square: float  # The squared radius
    # The distance of the nearest site, if the query is far from all of them, else 0: no less is worth a look
    near: float


class Trail(NamedTuple):
    """What one query leaves to the next one of the same partition; -1 where it leaves nothing."""

    site: int  # Where its walk ended
    last: float  # Squared distance of its k-th object
    # How many sites of its answer are noted: none unless it stood far outside; negative where none are to be
    known: int
    dense: float  # What the density of its first block said of ``last``
    sites: Any  # Pointer to int32 (k,): these sites of its home, which hold k objects


class Others(NamedTuple):
    """What is noted of the partitions that a query reads beside its home."""

    need: Any  # Pointer to a byte for each partition: set for one that has to be open and is not
    nearest: Any  # Pointer to int32 for each: the site where the last walk in it ended; -1 where there was none
    kept: bool  # Whether ``nearest`` is there at all: a place by itself has none before it


class Scratch(NamedTuple):
    """Memory to work in, of one thread: :class:`dtoss.queries.workspace.Workspace`."""

    keys: Any  # keys, ordered: pointers to int64 (room + 16,) and (room,): what a search lists, and the same in order
    ordered: Any
    # part, item, distance: pointers to int64, int64 and float64 (room,): hits that are gathered. Where ranges are
    # searched, ``part`` holds partition and item in one number
    part: Any
    item: Any
    distance: Any
    queue: Any  # Pointer to int32: the blocks that a search has come to, in this order
    gaps: Any  # Pointer to float64: squared distances of the sites of visited blocks, 16 for each place of the queue
    # Pointer to a byte for each block: 1 for those in the queue. All 0 when a search begins, and left so by every
    # search, however it ends
    seen: Any
    room: int  # Hits that there is room for


class Answers(NamedTuple):
    """Where the answers of a batch are written."""

    # id, distance, part, item: pointers to int64, float64, int32 and int32: the hits. Ids that are strings are not
    # written: the caller finds them by part and item
    id: Any
    distance: Any
    part: Any
    item: Any
    hits: Any  # Pointer to int64: how many each query has; -1 for one that needs a partition which is not open
    reads: Any  # Pointer to int32: partitions that each query read
    room: int  # Places for hits: of each query where the k nearest are asked for, so k; of the batch where ranges are
    strings: bool  # Whether ids are strings
    places: bool  # Whether part and item are wanted: who needs neither columns nor strings needs the ids alone
    ordered: bool  # Whether the hits of a query are put in order: those of ranges need not be


@kernel
def scratch_of(places, visits, gaps, seen, distance):
    """Return the scratch of the arrays of a workspace; ``places`` is cut into four of the length of ``distance``."""
    room, whole = distance.size, pointer(places)
    # behind the keys there is room for LANES more, which are read and written with the last of them
    keys, behind = part_of(whole, 0, room + LANES), room + LANES
    ordered, part = part_of(whole, behind, room), part_of(whole, behind + room, room)
    item = part_of(whole, behind + 2 * room, room)
    queue, marks = pointer(visits), pointer(seen)
    return Scratch(keys, ordered, part, item, pointer(distance), queue, pointer(gaps), marks, room)
