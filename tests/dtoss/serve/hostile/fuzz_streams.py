"""Broken Arrow streams: ``python -m tests.dtoss.serve.hostile.fuzz_streams [COUNT] [SEED]``.

Each is read or refused, nothing else. Those that are read, and that pyarrow reads too, have the same numbers in both:
so what is refused is not all there is. Prints how many were read, and how many refused for which status.
"""

import sys
from collections import Counter

import numpy as np
import pyarrow as pa

from dtoss.serve.bulk.arrow_in import columns_in
from dtoss.serve.core.problems import Problem
from tests.dtoss.serve.bulk.streams import broken, seeds, table_in

MOST = 1_000


def main(count=100_000, seed=0):
    rng = np.random.default_rng(seed)
    starts = seeds(rng)
    ends = Counter()
    for i in range(count):
        body = broken(starts[i % len(starts)], rng)
        try:
            found = columns_in(body, ("lon", "lat"), ("radius",), MOST, lambda: None)
        except Problem as problem:
            ends[problem.status] += 1
            continue
        ends["read"] += 1
        assert {"lon", "lat"} <= set(found) <= {"lon", "lat", "radius"}
        assert len({len(column) for column in found.values()}) == 1
        assert all(column.dtype == np.float64 and len(column) <= MOST for column in found.values())
        compared(body, found, ends)
    print(dict(ends))
    assert set(ends) <= {"read", "compared", "refused by pyarrow", 400, 413}
    assert ends["read"] > count // 50, "all were refused"
    assert ends["compared"] > count // 100, "none was compared"


def compared(body, found, ends):
    """Hold what was read against pyarrow, where it reads the stream: it may look at what does not matter here."""
    try:
        table = table_in(body)
    except (pa.ArrowException, OSError):
        ends["refused by pyarrow"] += 1
        return
    ends["compared"] += 1
    for name, column in found.items():
        np.testing.assert_array_equal(table[name].to_numpy().astype(np.float64), column)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
