"""Looks up objects in a run of the state, whose rows are by bucket and key."""

from __future__ import annotations

from dtoss.compiled.kernel import kernel

_READ = "Array(int64, 1, 'C', readonly=True)"


@kernel(f"void({_READ}, {_READ}, {_READ}, {_READ}, int64[::1])")
def first_of_keys(keys, offsets, buckets, wanted, out):
    """Write the first row of each key in its bucket.

    ``keys``: int64 (rows,). Of the run; ``offsets``: int64 (buckets + 1,). Bucket b has the rows ``offsets[b]:offsets[b
    + 1]``; ``buckets``, ``wanted``: int64 (n,). The bucket and the key of each object that is looked for; ``out``:
    int64 (n,). -1 where the key is not in the bucket.
    """
    for i in range(wanted.size):
        low, high = offsets[buckets[i]], offsets[buckets[i] + 1]
        end = high
        while low < high:
            middle = (low + high) // 2
            if keys[middle] < wanted[i]:
                low = middle + 1
            else:
                high = middle
        out[i] = low if low < end and keys[low] == wanted[i] else -1
