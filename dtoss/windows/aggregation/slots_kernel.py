"""Keys looked up in a table of all that lie between the least and the greatest."""

from __future__ import annotations

from dtoss.compiled.kernel import kernel

_KEYS = "Array(int64, 1, 'A', readonly=True)"


@kernel(f"UniTuple(int64, 2)({_KEYS})")
def bounds(keys):
    """Return the least and the greatest of some numbers; there is one at least."""
    low = high = keys[0]
    for key in keys:
        low, high = min(low, key), max(high, key)
    return low, high


@kernel(f"void({_KEYS}, int64, boolean[::1])")
def mark(keys, low, there):
    """Mark the numbers that there are; ``there`` is about those from ``low`` on."""
    for key in keys:
        there[key - low] = True


@kernel(f"void({_KEYS}, int64, int32[::1], int32[::1])")
def look_up(keys, low, table, out):
    """Write what a table, which is about the numbers from ``low`` on, says of each key, -1 of those beyond."""
    for i in range(keys.size):
        at = keys[i] - low
        out[i] = table[at] if 0 <= at < table.size else -1
