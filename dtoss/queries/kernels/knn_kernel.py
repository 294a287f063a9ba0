"""k nearest neighbours: where each query's search begins and how wide, which partitions it reads, and its answer.

The disc to search is guessed from the query before, or from how dense the first block is. The answer is ordered by
reported distances.

A query goes through these steps, a function each: :func:`answer_nearest` (k = 1, by far the commonest question) or
:func:`answer_at_home`, then :func:`widen_to_others` and :func:`write_answer` where its home does not know all.

Which partition a query reads after its home: the nearest borders come first.
"""

from __future__ import annotations

import numpy as np

from dtoss.compiled.kernel import kernel
from dtoss.compiled.lanes8 import WIDTH, lanes_at, put_lanes, roots
from dtoss.compiled.pointers import (
    bits_float,
    float64_at,
    float_bits,
    int32_at,
    int64_at,
    part_of,
    pointer,
    prefetch,
    uint8_at,
)
from dtoss.compiled.rank_sort import NAMES
from dtoss.geometry.distance import NEAR_CHORD2, near_distances, opposite_of, place_at, sphere_distances
from dtoss.geometry.rounding import PRUNE
from dtoss.partition import BLOCK
from dtoss.partitioning.partition_bounds import depth_at, inside_near, knows, must_read, nowhere, other_partition
from dtoss.partitioning.regions import fences_of, nearest_region, pivot_gap2
from dtoss.queries.kernels.address_table import IDS, MASK, OBJECTS, OWNED_SITES, SINGLE, SITES, row_of
from dtoss.queries.kernels.hit_order import far_of, heap_sort, settle
from dtoss.queries.kernels.nearest_disc import at_least, by_density, expand, site_of
from dtoss.queries.kernels.query_arguments import (
    NO_ROOM,
    Answers,
    FirstDisc,
    Nearest,
    Others,
    Query,
    Snapshot,
    Trail,
    scratch_of,
)
from dtoss.queries.kernels.walk import descend, fetch, fetch_blocks, fetch_graph, gap2, lost, nearest_site, unsure

WIDER = 1.15
"""How much larger than expected a disc is searched at first, in area."""
LEAST_LAST, MOST_WIDER = 2.0**-10, 2.0**10
"""The last disc counts as no smaller than this share of what density says: it may have been one crowded site. And how
many times larger than that a first disc may be: where scales differ by hundreds of powers of two, guesses may not."""
OUTSIDE = 0.6
"""Share of the squared distance of the k-th object from which on the nearest one is far: a query from outside."""
AHEAD = 12
"""Queries ahead for which memory is asked for."""
AS_NEAR = 4.0
"""Times the squared distance of what is known so far within which a walk begins where the last one ended."""
OVERFULL = 64
"""Hits gathered beyond four times k at which all but the k nearest are dropped."""
MERGED = 2
"""Partitions whose hits, each in order, are merged faster than all are sorted."""
ANSWERED = -2
"""In place of a number of hits: the answer is written already."""
NOT_OPEN = -3
"""In place of a number of hits: a partition that has to be read is not open."""


@kernel
def gather(row, p, query, k, owned_only, listed, size, scratch):
    """Append the objects of listed sites to the hits from ``size`` on; :data:`NO_ROOM` where there was too little.

    At most k objects of one site can be among the k nearest; they stand in id order.
    """
    keys = scratch.ordered
    objects = int32_at(row[OBJECTS])
    masked = row[MASK] != 0
    mask = uint8_at(row[MASK])
    for t in range(listed):
        site = site_of(keys[t], scratch.queue)
        if owned_only and site >= row[OWNED_SITES]:
            continue
        d = far_of(row, query.place, site, scratch.gaps[keys[t] & NAMES])
        if d > query.radius:
            continue
        left = k
        for i in range(objects[site], objects[site + 1]):
            if left == 0:
                break
            if masked and mask[i] == 0:
                continue
            if size == scratch.room:
                return NO_ROOM
            scratch.distance[size], scratch.part[size], scratch.item[size] = d, p, i
            size += 1
            left -= 1
    return size


@kernel
def _measure(row, place, listed, scratch):
    """Fill ``scratch.distance`` and ``scratch.item`` with the reported distances and the sites of sorted keys.

    Returns whether each distance is greater than the one before.
    """
    keys, gaps, distance, sites = scratch.ordered, scratch.gaps, scratch.distance, scratch.item
    furthest = 0.0
    for t in range(listed):
        name = keys[t] & NAMES
        distance[t], sites[t] = gaps[name], site_of(name, scratch.queue)
        furthest = max(furthest, gaps[name])
    if place.dimension == 2 or furthest <= NEAR_CHORD2:
        # eight at a time: behind the last there is room, and what stands there is not looked at
        for t in range(0, listed, WIDTH):
            gap = lanes_at(distance, t)
            put_lanes(distance, t, roots(gap) if place.dimension == 2 else near_distances(gap))
    else:
        ground, opposite = float64_at(row[SITES]), opposite_of(place)
        for t in range(listed):
            scratch.keys[t] = float_bits(gap2(ground, sites[t], opposite))
        for t in range(0, listed, WIDTH):
            put_lanes(distance, t, sphere_distances(lanes_at(distance, t), lanes_at(scratch.keys, t)))
    before = -1.0
    ordered = True
    for t in range(listed):
        ordered &= distance[t] > before
        before = distance[t]
    return ordered


@kernel
def _write_listed(row, p, query, listed, scratch, out):
    """Write the objects of listed sites as the answer; returns how many, or -1 if they are out of order."""
    if not _measure(row, query.place, listed, scratch):
        return -1
    k, at = out.room, query.number * out.room
    objects, ids = int32_at(row[OBJECTS]), int64_at(row[IDS])
    if row[SINGLE] != 0:
        size = min(listed, k)
        for t in range(size):
            out.distance[at + t] = scratch.distance[t]
        if not out.strings:
            for t in range(size):
                out.id[at + t] = ids[scratch.item[t]]
        if out.places:
            for t in range(size):
                out.part[at + t], out.item[at + t] = p, scratch.item[t]
        return size
    size = 0
    for t in range(listed):
        site = scratch.item[t]
        begin = int(objects[site])
        for i in range(begin, min(int(objects[site + 1]), begin + k - size)):
            out.distance[at + size] = scratch.distance[t]
            if not out.strings:
                out.id[at + size] = ids[i]
            if out.places:
                out.part[at + size], out.item[at + size] = p, i
            size += 1
    return size


@kernel
def known_at_home(snapshot, home, query, gap):
    """Return whether the home of a query knows all objects within a squared distance of it."""
    far = np.sqrt(gap) * (1.0 + PRUNE)
    return far <= query.known or knows(query.place, snapshot.fences, snapshot.reach, home, far)


@kernel
def answer_nearest(snapshot, home, query, nearest, out):
    """Write the answer for k = 1: one site, and the lowest id on it; returns whether that is the answer.

    It is not where a site may be as near, where the home may not know what is as near, or where not all objects count.
    """
    row, gap = row_of(snapshot.rows, home), nearest.gap
    if not is_nearest(row, nearest, query.place.dimension) or gap > query.limit * (1.0 + PRUNE):
        return False
    if snapshot.fences.partitions > 1 and not known_at_home(snapshot, home, query, gap):
        return False
    r = query.number
    d = far_of(row, query.place, nearest.site, gap)
    out.hits[r], out.reads[r] = 0, 1
    if d <= query.radius:
        item = int32_at(row[OBJECTS])[nearest.site]
        out.distance[r], out.hits[r] = d, 1
        if out.places:
            out.part[r], out.item[r] = home, item
        if not out.strings:
            out.id[r] = int64_at(row[IDS])[item]
    return True


@kernel
def is_nearest(row, nearest, dimension):
    """Return whether a site is the nearest for sure, and all its objects count."""
    return nearest.second > nearest.gap * (1.0 + PRUNE) + lost(dimension) and row[MASK] == 0


@kernel
def gather_nearest(row, p, query, owned_only, nearest, size, scratch):
    """Append the first object of the site that is nearest for sure to the hits, if it lies within the radius."""
    if owned_only and nearest.site >= row[OWNED_SITES]:
        return size
    d = far_of(row, query.place, nearest.site, nearest.gap)
    if d > query.radius:
        return size
    scratch.distance[size], scratch.part[size], scratch.item[size] = d, p, int32_at(row[OBJECTS])[nearest.site]
    return size + 1


@kernel
def first_disc(row, place, k, block, nearest, trail):
    """Return the disc to search first, a site near to the query, and what the trail says of density from now on.

    As wide as the density of the block says, times what it was wrong by for the query before. Neither is trusted
    wholly: of guess, last disc and last guess the powers 1/2, 3/4 and -1/4 leave the least error on streets and in
    yards, at k = 8 and 32. Where the query before was far from all sites, and this one is, those of its answer hold k
    objects: no disc need be wider, and there one that is crosses many more sites. The last number is what the density
    says.
    """
    guess = by_density(row, k, block)
    if k == 1:
        return FirstDisc(block, nearest.gap * WIDER, 0.0), nearest, guess
    if trail.known > 0:
        sites, start, far = float64_at(row[SITES]), block * BLOCK, 0.0
        near = gap2(sites, start, place)
        if nearest.site >= 0 and gap2(sites, nearest.site, place) <= near:
            start, near = nearest.site, gap2(sites, nearest.site, place)
        for t in range(trail.known):
            gap = gap2(sites, int(trail.sites[t]), place)
            far = max(far, gap)
            if gap < near:
                start, near = int(trail.sites[t]), gap
        if near > OUTSIDE * far:
            return FirstDisc(start // BLOCK, at_least(far), np.sqrt(near)), Nearest(start, near, near), guess
    dense = guess
    if trail.last >= 0.0:
        last = max(trail.last, dense * LEAST_LAST)
        # by logarithms: the bits of a float are one, within a tenth, and nobody waits for roots
        bits = float_bits(last)
        bits = (float_bits(dense) >> 1) + (bits >> 1) + ((bits - float_bits(trail.dense)) >> 2)
        guess, most = WIDER * bits_float(max(bits, 0)), dense * MOST_WIDER
        guess = guess if guess < most else most
    return FirstDisc(block, guess, 0.0), nearest, dense


@kernel
def answer_at_home(snapshot, home, query, block, nearest, trail, scratch, out):
    """Write a query's answer if its home knows all of it and in order; else gather the hits that the home has.

    Returns (hits, whether the home knows all of the answer, a squared distance beyond which none of it lies, the
    query's trail); hits is :data:`ANSWERED` or :data:`NO_ROOM` where there are none to go on with.
    """
    row, place, k = row_of(snapshot.rows, home), query.place, out.room
    alone, limit = snapshot.fences.partitions == 1, query.limit
    if k == 1 and is_nearest(row, nearest, place.dimension):
        limit = min(limit, at_least(nearest.gap))
        alone = alone or known_at_home(snapshot, home, query, limit)
        trail = Trail(nearest.site, trail.last, trail.known, trail.dense, trail.sites)
        return gather_nearest(row, home, query, not alone, nearest, 0, scratch), alone, limit, trail
    # where the search begins: with a limit at the nearest site, which says whether there is anything within it
    if k > 1 and limit < np.inf:
        nearest = nearest_site(row, place, snapshot.bounds, nearest.site, block)
        block = nearest.site // BLOCK
    elif block < 0:
        block = descend(row, place)
    listed, last, known, dense = 0, trail.last, trail.known, trail.dense
    some = nearest.gap <= limit * (1.0 + PRUNE)
    if some or unsure(nearest, place.dimension):
        first, nearest, dense = first_disc(row, place, k, block, nearest, trail)
        most = limit if some else np.inf
        listed, objects, inside, last = expand(row, place, snapshot.bounds, k, first, most, scratch)
        if listed < 0:
            return NO_ROOM, alone, limit, trail
        if objects >= k:
            limit = min(limit, inside)
        near = at_least(bits_float(scratch.ordered[0])) if listed > 0 else 0.0
        if known >= 0:
            known = min(listed, k) if last < np.inf and near > OUTSIDE * last else 0
            for t in range(known):
                trail.sites[t] = site_of(scratch.ordered[t], scratch.queue)
        last = last if last < np.inf else -1.0
    trail = Trail(nearest.site, last, known, dense, trail.sites)
    if not alone and limit < np.inf:
        alone = known_at_home(snapshot, home, query, limit)
    if alone and query.radius == np.inf and row[MASK] == 0:
        # nothing is left out and nobody else is asked: written as it was listed
        size = _write_listed(row, home, query, listed, scratch, out)
        if size >= 0:
            out.hits[query.number], out.reads[query.number] = size, 1
            return ANSWERED, alone, limit, trail
    return gather(row, home, query, k, not alone, listed, 0, scratch), alone, limit, trail


@kernel
def nearest_of_other(row, p, place, bounds, limit, others):
    """Return the site of another partition nearest to a place, from where the last walk in it ended if that is near."""
    start = -1
    if others.kept:
        start = int(others.nearest[p])
        if start >= 0 and gap2(float64_at(row[SITES]), start, place) > AS_NEAR * limit:
            start = -1
    nearest = nearest_site(row, place, bounds, start, -1)
    if others.kept:
        others.nearest[p] = nearest.site
    return nearest


@kernel
def widen_to_others(snapshot, home, query, k, limit, size, scratch, others):
    """Append to a query's hits what all other partitions own of its answer, nearest borders first, and sort them.

    Returns (hits, partitions read); hits is :data:`NO_ROOM`, or :data:`NOT_OPEN`: then all partitions that are not
    open and have to be are flagged in ``others.need``.
    """
    place = query.place
    reads = 1 if row_of(snapshot.rows, home)[OWNED_SITES] > 0 else 0
    missing = everything = False
    step, runs = -1, min(size, 1)
    while True:
        p, step = next_to_read(snapshot, place, home, np.sqrt(limit) * (1.0 + PRUNE), step, everything)
        if p < 0:
            if everything or size >= k or missing or limit == np.inf or query.radius < np.inf:
                break
            # k replicas have been seen, and not all of their owners: whatever the reason, all are read
            everything, step, size, runs, reads, limit = True, -1, 0, 0, 0, np.inf
            continue
        row = row_of(snapshot.rows, p)
        if row[OWNED_SITES] < 0:
            others.need[p] = 1
            missing = True
            continue
        reads += 1
        # the disc of what is known so far, from the site that is nearest; none if that lies outside
        nearest = nearest_of_other(row, p, place, snapshot.bounds, limit, others)
        some = nearest.gap <= limit * (1.0 + PRUNE)
        if not some and not unsure(nearest, place.dimension):
            continue
        if k == 1 and is_nearest(row, nearest, place.dimension):
            limit = min(limit, at_least(nearest.gap))
            size, runs = gather_nearest(row, p, query, True, nearest, size, scratch), runs + 1
            continue
        block = nearest.site // BLOCK
        first = FirstDisc(block, max(by_density(row, k, block), nearest.gap * WIDER), 0.0)
        most = limit if some else np.inf
        listed, objects, inside, _ = expand(row, place, snapshot.bounds, k, first, most, scratch)
        if listed < 0:
            return NO_ROOM, reads
        if objects >= k:
            limit = min(limit, inside)
        before = size
        size = gather(row, p, query, k, True, listed, size, scratch)
        if size < 0:
            return NO_ROOM, reads
        runs += min(size - before, 1)
        if size > 4 * k + OVERFULL:
            heap_sort(snapshot.rows, scratch.distance, scratch.part, scratch.item, 0, size)
            size, runs = k, 1
    if missing:
        return NOT_OPEN, reads
    if runs <= MERGED:
        settle(snapshot.rows, scratch.distance, scratch.part, scratch.item, 0, size)
    else:
        heap_sort(snapshot.rows, scratch.distance, scratch.part, scratch.item, 0, size)
    return size, reads


@kernel
def write_answer(rows, query, size, reads, scratch, out):
    """Write the nearest of a query's hits, which are in order, and how many partitions it read."""
    size = min(size, out.room)
    at = query.number * out.room
    for t in range(size):
        part, item = scratch.part[t], scratch.item[t]
        out.distance[at + t] = scratch.distance[t]
        if out.places:
            out.part[at + t], out.item[at + t] = part, item
        if not out.strings:
            out.id[at + t] = int64_at(row_of(rows, part)[IDS])[item]
    out.hits[query.number] = size
    out.reads[query.number] = reads


@kernel
def fetch_ahead(rows, homes, blocks, r, dimension, k):
    """Ask for what later queries of a batch will read first: the memory comes while this one is answered."""
    later, soon = r + AHEAD, r + AHEAD // 2
    if k == 1:
        fetch(row_of(rows, int(homes[later])), int(blocks[later]), dimension)
        fetch_graph(row_of(rows, int(homes[soon])), int(blocks[soon]))
    else:
        fetch_blocks(row_of(rows, int(homes[later])), int(blocks[later]), dimension)


@kernel(
    "int64(int64[:, ::1], float64[::1], float64[:, ::1], float64[::1], int32[:, ::1], float64[:, ::1], float64[::1], "
    "float64[::1], float64[:, ::1], int32[::1], int32[::1], int32[::1], int64, int64, boolean, float64[::1], "
    "float64[::1], int64[::1], int32[::1], float64[::1], uint8[::1], float64[::1], int64[:, ::1], float64[:, ::1], "
    "int32[:, ::1], int32[:, ::1], int64[::1], int32[::1], uint8[::1], int32[::1])"
)
def knn_kernel(rows, furthest, pivots, weights, order, border, reach, bounds, queries, asked, homes, blocks, begin, k,
               strings, radius, chord, places, visits, gaps, seen, distance, out_id, out_distance, out_part, out_item,
               out_count, out_reads, need, others_nearest):  # fmt: skip
    """Answer the queries from ``begin`` on; returns how far it came: all of them, or the one that had too little room.

    That one has no answer yet: the caller makes more room and comes again from there. A query that has to read a
    partition which is not open sets its flag in ``need`` and gets a count of -1: the caller opens it and asks again.

    ``asked`` are the rows of the queries to answer, one after another; empty, all are. ``homes`` and ``blocks`` say
    where these start; empty, each comes down the hierarchy. ``radius`` and ``chord`` are the largest distance of each
    query, as it is reported and squared. ``others_nearest`` has room for a site of each partition, and k more.
    """
    m, dimension = queries.shape
    rearranged = asked.size > 0
    m = asked.size if rearranged else m
    fences = fences_of(pivots, weights, order, border)
    snapshot = Snapshot(pointer(rows), fences, pointer(reach), pointer(furthest), pointer(bounds))
    scratch = scratch_of(places, visits, gaps, seen, distance)
    out = Answers(pointer(out_id), pointer(out_distance), pointer(out_part), pointer(out_item), pointer(out_count),
                  pointer(out_reads), k, strings, out_part.size > 0, True)  # fmt: skip
    others = Others(pointer(need), pointer(others_nearest), True)
    last_sites = part_of(pointer(others_nearest), fences.partitions, k)
    q, planned = pointer(queries), homes.size > 0
    home, trail, inside = -1, Trail(-1, -1.0, 0, 1.0, last_sites), nowhere(dimension)
    for r in range(begin, m):
        number = int(asked[r]) if rearranged else r
        place = place_at(q, number, dimension)
        # which partition holds it, and which of its blocks is near: planned for a batch in curve order
        before, block = home, -1
        if planned:
            home, block = int(homes[r]), int(blocks[r])
            if r + AHEAD < m:
                if rearranged:
                    prefetch(q, int(asked[r + AHEAD]) * dimension)
                fetch_ahead(snapshot.rows, pointer(homes), pointer(blocks), r, dimension, k)
        else:
            home = nearest_region(place, fences, max(before, 0))
        inside = inside_near(inside, place, fences, home)
        known = snapshot.reach[home] + depth_at(inside, place)
        query = Query(number, place, radius[number], chord[number], known * (1.0 - PRUNE))
        if home != before or not planned:
            trail = Trail(-1, -1.0, 0, 1.0, last_sites)
        row = row_of(snapshot.rows, home)
        if row[OWNED_SITES] < 0:
            need[home] = 1
            out.hits[number] = -1
            continue
        # what the home has: often that is all
        size, alone, limit = 0, fences.partitions == 1, query.limit
        if row[OWNED_SITES] > 0:
            nearest = Nearest(trail.site, 0.0, 0.0)
            if k == 1:
                nearest = nearest_site(row, query.place, snapshot.bounds, trail.site, block)
                block = nearest.site // BLOCK
                if answer_nearest(snapshot, home, query, nearest, out):
                    trail = Trail(nearest.site, trail.last, trail.known, trail.dense, last_sites)
                    continue
            size, alone, limit, trail = answer_at_home(snapshot, home, query, block, nearest, trail, scratch, out)
        # what others own of it
        reads = 1 if row[OWNED_SITES] > 0 else 0
        if alone and size >= 0:
            settle(snapshot.rows, scratch.distance, scratch.part, scratch.item, 0, size)
        elif size >= 0:
            size, reads = widen_to_others(snapshot, home, query, k, limit, size, scratch, others)
        if size == NO_ROOM:
            return r
        if size == NOT_OPEN:
            out.hits[number] = -1
        elif size >= 0:
            write_answer(snapshot.rows, query, size, reads, scratch, out)
    return m


@kernel
def next_to_read(snapshot, place, home, far, step, everything):
    """Return the next partition that may own an object within ``far`` of a place, and its step; -1 if there is none.

    The first step comes after -1. With ``everything``, all partitions with sites are next in turn, also the home. One
    that is not open has -1 owned sites.
    """
    fences = snapshot.fences
    listed = fences.listed
    d = np.sqrt(pivot_gap2(place, fences, home))
    while True:
        step += 1
        if everything:
            if step == fences.partitions:
                return -1, step
            p = step
        else:
            if step == fences.partitions - 1 or (step < listed and fences.border[home * listed + step] > d + far):
                return -1, step
            p = other_partition(fences, home, step)
        if row_of(snapshot.rows, p)[OWNED_SITES] == 0:
            continue
        if everything or must_read(place, fences, snapshot.furthest, home, p, far):
            return p, step
