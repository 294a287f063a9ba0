"""What the rows of objects add to panes: each object's rows as they were are taken back, and as they are added."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from dtoss.compiled.kernel import kernel, step
from dtoss.compiled.pointers import pointer, prefetch
from dtoss.geometry.distance import SPHERE, plane_distance, sphere_distance
from dtoss.windows.bins import BOUNDS, SLOW
from dtoss.windows.patches import NO_KEY
from dtoss.windows.spec import FURTHEST_MM
from dtoss.windows.trajectories.cells_kernel import Cells, cell_of

NO_VISIT = -(1 << 62)
"""The pane of a visit that there is none of."""
(
    ONE_LABEL,
    PLACE_AXES,
    PANE,
    HORIZON,
    MAX_GAP,
    MAX_SPEED,
    EXPIRE,
    ASKS_MOVES,
    ASKS_FLOW,
    BINS,
    PLACE_BITS,
    RANKS,
    MAXIMA,
) = range(13)
"""What is asked for, in an array: times in microseconds; the horizon as a pane; -1 where nothing expires; the bits of
places and of labels in codes."""
SUM_ROWS, ARRIVALS, DEPARTURES, DISTANCE, MOVING, HERE, SUM_OBJECTS = range(7)
"""Where an array says the column of each sum; -1 where it is not asked for."""
TABLE_COLUMNS, DENSE, PANE0, TABLE_MASK = range(4)
"""Of a table, in an array."""
FLOWS, BINNED, JUMPS, LATER_COUNT = range(4)
"""What is counted."""
LAST_NEW, LAST_OLD, TOUCHED, TOUCHED_COUNT, WAITS = range(5)
"""Rows of the workspace."""
WAITING_CODES = 32
"""Numbers that wait for their memory: each twice and one more, and one more where it is taken back; 0 is none."""
HIGHER = 2
"""What is added to a speed in the table of the greatest: 0 is a cell that nothing touched, 1 one without moves."""
ROW_CELLS, END_CELLS = 4, 2
"""Cells of a key that a row changes at the most, and the end of an object's rows, beside the ends of visits."""
KEYS_OF_ROWS = 2
"""Rows whose keys a row changes: its own and those of the row before."""
SLOTS_OF_CELL = 2
"""Slots of a table by hash for each cell, at the least: so one that is free is near."""
FETCHED_AHEAD = 12
"""Rows between one that is added and the one whose memory is asked for."""
_MM, _PER_SECOND = 1000.0, 1_000_000
BIN_COUNT = len(BOUNDS)
BIN_BITS = BIN_COUNT.bit_length()


class Pool(NamedTuple):
    """Pointers to columns of rows: those known before, and those that came."""

    t: Any  # t, pane, place: microseconds, its pane, and the number that stands for it in codes
    pane: Any
    place: Any
    # first, key: the labels of row r are ``key[first[r]:first[r + 1]]``; of single keys ``key[r]``, -1 for none
    first: Any
    key: Any
    vectors: Any
    speed: Any  # Where the speed of the move to a row is written


class Rules(NamedTuple):
    """What is asked for, as its array says, and pointers to lengths in panes, rising, to bins, and groups of labels."""

    single: Any
    dimension: Any
    pane: Any
    horizon: Any
    max_gap: Any
    max_speed: Any
    expire: Any
    moves: Any
    flow: Any
    bins: Any
    places: Any
    ranks: Any
    maxima: Any
    lengths: Any
    count: Any
    slow: Any
    bounds: Any
    groups: Any


class Sums(NamedTuple):
    """The columns of the sums, -1 where one is not asked for; that of the first length of objects."""

    rows: Any
    arrivals: Any
    departures: Any
    distance: Any
    moving: Any
    here: Any
    objects: Any


class World(NamedTuple):
    """All that a walk reads and writes: rows, rules, the two tables, and pointers to codes, counts and who waits."""

    pool: Any
    rules: Any
    sums: Any
    cells: Any
    high: Any
    flow: Any
    bins: Any
    counts: Any
    waiting: Any


class Chain(NamedTuple):
    """The rows of an object by time, ``order[begin:end]``, of which those from ``start`` on are another's."""

    order: Any  # Rows of the pool
    begin: Any  # Rows of the pool
    start: Any  # Rows of the pool
    end: Any  # Rows of the pool
    sign: Any  # 1, or -1 for those that are taken back
    bucket: Any
    last: Any  # Pointer to the pane of the last visit of each label
    touched: Any  # touched, count: pointers to the labels that have one, and to how many
    count: Any


class Move(NamedTuple):
    """A move from row a to row b, the labels of both, its length in mm, its time in us, its speed in mm/s."""

    ka: Any
    ka_end: Any
    b: Any
    kb: Any
    kb_end: Any
    mm: Any
    us: Any
    speed: Any


@step
def keys_of(pool, single, row):
    """Return where the labels of a row begin and end."""
    if single:
        return row, row + int(pool.key[row] >= 0)
    return pool.first[row], pool.first[row + 1]


@step
def _holds(pool, begin, end, key):
    for i in range(begin, end):  # noqa: SIM110
        if pool.key[i] == key:
            return True
    return False


@step
def _measured(pool, rules, a, b):
    """Return length and speed of the move from row a to b, in mm and mm/s; -1 and 0 of none, -1 and 1 of a jump."""
    lasting = pool.t[b] - pool.t[a]
    if lasting > rules.max_gap:
        return -1, 0
    i, j, v = a * rules.dimension, b * rules.dimension, pool.vectors
    if rules.dimension == SPHERE:
        far = sphere_distance(v[i], v[i + 1], v[i + 2], v[j], v[j + 1], v[j + 2])
    else:
        far = plane_distance(v[i], v[i + 1], v[j], v[j + 1])
    whole = np.rint(far * _MM)
    if not whole <= FURTHEST_MM:
        return -1, 1
    mm = int(whole)
    speed = mm * _PER_SECOND // lasting
    if speed > rules.max_speed:
        return -1, 1
    return mm, speed


@kernel
def _bin(slow, bounds, speed):
    if speed < SLOW:
        return int(slow[speed])
    low, high = 0, BIN_COUNT
    while high - low > 1:
        middle = (low + high) // 2
        if bounds[middle] <= speed:
            low = middle
        else:
            high = middle
    return low


@step
def _fetch(world, b, a):
    """Ask for the memory of the cells that a row will touch."""
    cells, pane, key, before = world.cells, world.pool.pane[b], world.pool.key[b], world.pool.key[a]
    if key >= 0:
        cell = cell_of(cells, pane, key)
        prefetch(cells.values, cell)
        prefetch(cells.values, cell + cells.columns - 1)
        if world.rules.maxima and world.high.dense:
            prefetch(world.high.values, cell_of(world.high, pane, key))
    if before >= 0 and before != key and (world.sums.departures >= 0 or world.sums.here >= 0):
        cell = cell_of(cells, pane, before)
        prefetch(cells.values, cell)
        prefetch(cells.values, cell + cells.columns - 1)


@kernel
def _add_signed(world, chain):
    """Add, or take back, what rows from the start on are, and what they change of the row before."""
    pool, rules, sums, cells, sign = world.pool, world.rules, world.sums, world.cells, chain.sign
    for at in range(chain.start, chain.end):
        if rules.single and cells.dense and at + FETCHED_AHEAD < chain.end:
            _fetch(world, chain.order[at + FETCHED_AHEAD], chain.order[at + FETCHED_AHEAD - 1])
        b = chain.order[at]
        pane = pool.pane[b]
        kb, kb_end = keys_of(pool, rules.single, b)
        for i in range(kb, kb_end):
            key = pool.key[i]
            cell = cell_of(cells, pane, key)
            if sums.rows >= 0:
                cells.values[cell + sums.rows] += sign
            if sums.here >= 0:
                cells.values[cell + sums.here] += sign
            if sums.objects >= 0 and chain.last[key] != pane:
                _visited(world, chain, cell, pane, key)
        if at == chain.begin:
            continue
        a = chain.order[at - 1]
        ka, ka_end = keys_of(pool, rules.single, a)
        if sums.here >= 0:
            _left(world, a, ka, ka_end, pane, sign)
        if rules.moves:
            mm, speed = _measured(pool, rules, a, b)
            if rules.maxima and sign > 0:
                pool.speed[b] = speed if mm >= 0 else -1
            if mm >= 0:
                _moved(world, Move(ka, ka_end, b, kb, kb_end, mm, pool.t[b] - pool.t[a], speed), chain.bucket, sign)
            else:
                world.counts[JUMPS] += sign * speed
    if sums.here >= 0 and rules.expire >= 0 and chain.end > chain.begin:
        a = chain.order[chain.end - 1]
        ka, ka_end = keys_of(pool, rules.single, a)
        _left(world, a, ka, ka_end, -NO_VISIT, sign)


@step
def _later(world, at, sign):
    """Add a sign to a number of the table once its memory has come: some other numbers later."""
    turn = world.counts[LATER_COUNT] & (WAITING_CODES - 1)
    world.counts[LATER_COUNT] += 1
    waiting = world.waiting[turn]
    if waiting != 0:
        world.cells.values[(waiting - 1) >> 1] += 1 - 2 * ((waiting - 1) & 1)
    world.waiting[turn] = 2 * at + int(sign < 0) + 1
    prefetch(world.cells.values, at)


@step
def _visited(world, chain, cell, pane, key):
    """Add a visit: of windows that are longer than the time since the last one the object is still the same."""
    rules, cells, objects = world.rules, world.cells, world.sums.objects
    before = chain.last[key]
    i = 0
    while i < rules.count and (before == NO_VISIT or rules.lengths[i] < pane - before):
        cells.values[cell + objects + i] += chain.sign
        if before != NO_VISIT and before + rules.lengths[i] >= rules.horizon:
            _later(world, cell_of(cells, before + rules.lengths[i], key) + objects + i, -chain.sign)
        i += 1
    if before == NO_VISIT:
        chain.touched[chain.count[0]] = key
        chain.count[0] += 1
    chain.last[key] = pane


@kernel
def _ended(world, key, last, sign):
    """Add the ends of a last visit, which no other follows."""
    for i in range(world.rules.count):
        gone = last + world.rules.lengths[i]
        if gone >= world.rules.horizon:
            _later(world, cell_of(world.cells, gone, key) + world.sums.objects + i, -sign)


@step
def _left(world, a, ka, ka_end, pane, sign):
    """Take an object from where row a is, at the pane of its next row or where it expires."""
    rules = world.rules
    if rules.expire >= 0:
        pane = min(pane, (world.pool.t[a] + rules.expire) // rules.pane)
    if pane < rules.horizon:
        return
    for i in range(ka, ka_end):
        world.cells.values[cell_of(world.cells, pane, world.pool.key[i]) + world.sums.here] -= sign


@step
def _moved(world, move, bucket, sign):
    """Add a move to all that is asked of moves."""
    pool, rules, sums, cells = world.pool, world.rules, world.sums, world.cells
    pane, place = pool.pane[move.b], pool.place[move.b]
    if sums.departures >= 0:
        for i in range(move.ka, move.ka_end):
            if not _holds(pool, move.kb, move.kb_end, pool.key[i]):
                cells.values[cell_of(cells, pane, pool.key[i]) + sums.departures] += sign
    for i in range(move.kb, move.kb_end):
        key = pool.key[i]
        if sums.arrivals >= 0 and not _holds(pool, move.ka, move.ka_end, key):
            cells.values[cell_of(cells, pane, key) + sums.arrivals] += sign
        if sums.distance >= 0:
            cell = cell_of(cells, pane, key)
            cells.values[cell + sums.distance] += sign * move.mm
            cells.values[cell + sums.moving] += sign * move.us
        if rules.bins:
            code = (((rules.groups[key] << rules.places) | place) << rules.ranks) | (key + 1)
            code = (code << BIN_BITS) | _bin(rules.slow, rules.bounds, move.speed)
            world.bins[world.counts[BINNED]] = (code << 1) | int(sign < 0)
            world.counts[BINNED] += 1
        if rules.maxima:
            cell = cell_of(world.high, pane, key) + bucket
            least = move.speed + HIGHER if sign > 0 else 1
            world.high.values[cell] = max(world.high.values[cell], least)
    if rules.flow:
        left = pool.key[move.ka] if move.ka_end > move.ka else NO_KEY
        entered = pool.key[move.kb] if move.kb_end > move.kb else NO_KEY
        if left != entered:
            group = rules.groups[entered if entered >= 0 else left]
            code = (((group << rules.places) | place) << rules.ranks) | (left + 1)
            code = (code << rules.ranks) | (entered + 1)
            world.flow[world.counts[FLOWS]] = (code << 1) | int(sign < 0)
            world.counts[FLOWS] += 1


@kernel
def _known(world, chain, other, key, pane):
    """Say that a label was visited, before what is added or taken back."""
    if chain.last[key] == NO_VISIT:
        chain.touched[chain.count[0]] = key
        chain.count[0] += 1
    chain.last[key], other.last[key] = pane, pane


@kernel
def _take_back_and_add(world, new, old, visits, visit, visit_end):
    """Add an object's rows, and take back what they were: both have the same rows before their start."""
    pool, rules = world.pool, world.rules
    if world.sums.objects >= 0:
        for i in range(visit, visit_end):
            _known(world, new, old, visits[0][i], visits[1][i])
        for at in range(new.begin, new.start):
            row = new.order[at]
            if pool.pane[row] >= rules.horizon:
                begin, end = keys_of(pool, rules.single, row)
                for i in range(begin, end):
                    _known(world, new, old, pool.key[i], pool.pane[row])
    _add_signed(world, new)
    if old.end > old.begin:
        _add_signed(world, old)
    for i in range(new.count[0]):
        key = new.touched[i]
        now, before = new.last[key], old.last[key]
        new.last[key], old.last[key] = NO_VISIT, NO_VISIT
        if now != before:
            if now != NO_VISIT:
                _ended(world, key, now, 1)
            if before != NO_VISIT:
                _ended(world, key, before, -1)
    new.count[0] = 0


@kernel
def _cells_in(values, facts, offset, stride, panes, labels, used):
    return Cells(
        pointer(values), facts[TABLE_COLUMNS], facts[DENSE] != 0, facts[PANE0], pointer(offset), pointer(stride),
        pointer(panes), pointer(labels), facts[TABLE_MASK], used,
    )  # fmt: skip


_TABLE = "int64[:, ::1], int64[::1], int64[::1], int64[::1], int64[::1], int64[::1], int64[::1]"


@kernel(
    "int64(int64, int64, int64[::1], int16[::1], int64[::1], int64[::1], int64[::1], int64[::1],"
    " int64[::1], int64[::1], int64[::1], int64[::1], int64[::1], float64[:, ::1], int64[::1],"
    " int64[::1], int64[::1], int64[::1], int64[::1], int64[::1], int64[::1], int64[::1], int64[::1],"
    f" int64[::1], int64[::1], int64[::1], int64[::1], {_TABLE}, {_TABLE},"
    " int64[::1], int64[::1], int64[::1], int64[:, ::1])"
)
def walk(
    chain, most, asked, slow, bounds, lengths, groups, sums,
    t, pane, place, first, key, vectors, speed,
    order, olds, begin, start, end, old_begin, old_end, visit_begin, visit_end,
    bucket, visit_key, visit_pane,
    values, facts, offset, stride, panes, labels, used,
    high, high_facts, high_offset, high_stride, high_panes, high_labels, high_used,
    flow, bins, counts, work,
):  # fmt: skip
    """Walk the objects from number ``chain`` on; return the one that had too little room in a table, or how many."""
    rules = Rules(
        asked[ONE_LABEL] != 0, asked[PLACE_AXES], asked[PANE], asked[HORIZON], asked[MAX_GAP], asked[MAX_SPEED],
        asked[EXPIRE], asked[ASKS_MOVES] != 0, asked[ASKS_FLOW] != 0, asked[BINS] != 0, asked[PLACE_BITS], asked[RANKS],
        asked[MAXIMA] != 0, pointer(lengths), lengths.size, pointer(slow), pointer(bounds),
        pointer(groups),
    )  # fmt: skip
    pool = Pool(
        pointer(t), pointer(pane), pointer(place), pointer(first), pointer(key), pointer(vectors), pointer(speed)
    )  # fmt: skip
    columns = Sums(
        sums[SUM_ROWS], sums[ARRIVALS], sums[DEPARTURES], sums[DISTANCE], sums[MOVING], sums[HERE], sums[SUM_OBJECTS]
    )
    table = _cells_in(values, facts, offset, stride, panes, labels, pointer(used))
    highest = _cells_in(high, high_facts, high_offset, high_stride, high_panes, high_labels, pointer(high_used))
    world = World(
        pool, rules, columns, table, highest, pointer(flow), pointer(bins), pointer(counts), pointer(work[WAITS])
    )
    last_new, last_old = pointer(work[LAST_NEW]), pointer(work[LAST_OLD])
    touched, count = pointer(work[TOUCHED]), pointer(work[TOUCHED_COUNT])
    rows, old_rows, visits = pointer(order), pointer(olds), (pointer(visit_key), pointer(visit_pane))
    stays = True
    while stays and chain < begin.size:
        here = end[chain] - start[chain] + old_end[chain] - old_begin[chain]
        known = start[chain] - begin[chain] + visit_end[chain] - visit_begin[chain]
        need = (here * (lengths.size + ROW_CELLS) + known * lengths.size + END_CELLS) * most * KEYS_OF_ROWS
        stays = table.dense or SLOTS_OF_CELL * (used[0] + need) <= labels.size
        if rules.maxima and not highest.dense:
            stays = stays and SLOTS_OF_CELL * (high_used[0] + here * most) <= high_labels.size
        if not stays:
            continue
        prefix = start[chain] - begin[chain]
        new = Chain(rows, begin[chain], start[chain], end[chain], 1, bucket[chain], last_new, touched, count)
        old = Chain(
            old_rows, old_begin[chain], old_begin[chain] + prefix, old_end[chain], -1, bucket[chain], last_old, touched,
            count,
        )  # fmt: skip
        _take_back_and_add(world, new, old, visits, visit_begin[chain], visit_end[chain])
        chain += 1
    for turn in range(WAITING_CODES):
        waiting = world.waiting[turn]
        world.waiting[turn] = 0
        if waiting != 0:
            table.values[(waiting - 1) >> 1] += 1 - 2 * ((waiting - 1) & 1)
    return chain
