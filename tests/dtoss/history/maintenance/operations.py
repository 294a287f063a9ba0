"""Random operations upon one history, one after the other, beside a table of all rows.

As a script ``python -m tests.dtoss.history.maintenance.operations`` a thousand of them (a part of check-data).
"""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import dtoss
from dtoss.history.adaptive.adapt import adapt
from dtoss.history.append_frame import Key, commit_batch
from dtoss.history.data_file import write_file
from dtoss.history.history_commit import RepeatedKeys
from dtoss.history.layouts.compaction import make_order, settle
from dtoss.history.maintenance.erase_rows import forget, retain
from dtoss.history.maintenance.history_table import clear, restore, verify_history
from dtoss.history.row_blocks import BY_TIME, ORDER_NAMES, sorted_rows
from dtoss.history.sums import sum_of
from dtoss.history.versions import Home
from tests.dtoss.history.drop_orders import drop_orders
from tests.dtoss.history.maintenance.faults import MANY, ROWS, SCHEMA, ask_corner, batch

WHAT = (
    ["append"] * 8 + ["repeat", "settle", "settle", "order", "drop", "adapt", "adapt"]
    + ["forget", "retain", "clear", "damage"]
)  # fmt: skip
ASKED_EVERY = 25
"""Operations between two looks at answers and files; rows and sums are compared after each."""


class Model:
    """All rows of a history as one table, and what is done to both."""

    def __init__(self, home: Home, seed: int) -> None:
        self.home, self.rng = home, np.random.default_rng(seed)
        self.rows = SCHEMA.arrow.empty_table()
        self.batches = 0

    def append(self) -> None:
        """A batch that is new, at times a large one."""
        rows = self._batch(self.batches)
        self._commit(rows, str(self.batches))
        self.rows = pa.concat_tables([self.rows, rows])
        self.batches += 1

    def repeat(self) -> None:
        """A batch of which the key stands already."""
        key = int(self.rng.integers(self.batches))
        try:
            self._commit(self._batch(key), str(key))
        except RepeatedKeys:
            return
        raise AssertionError(f"batch {key} was appended twice")

    def _batch(self, number: int) -> pa.Table:
        return batch(number, ROWS if number % 40 else MANY)

    def _commit(self, rows: pa.Table, key: str) -> None:
        file = write_file(self.home.folder, BY_TIME, [(sorted_rows(rows, "time"), None)], SCHEMA, key)
        commit_batch(self.home, SCHEMA, [file], [Key(key)])

    def settle(self) -> None:
        """Tiers, and orders of any period."""
        settle(self.home, orders=["time", "place", "object"][: int(self.rng.integers(1, 4))], **self._sizes())

    def _sizes(self) -> dict[str, float]:
        return {"leaf_bytes": float(10 ** self.rng.uniform(3.5, 6.7)), "period_bytes": float(self.rng.uniform(1, 5000))}

    def order(self) -> None:
        """One order of one period, made or made again."""
        number = int(self.rng.choice(self.home.version().periods.number))
        make_order(self.home, number, str(self.rng.choice(ORDER_NAMES[1:])), leaf_bytes=self._sizes()["leaf_bytes"])

    def drop(self) -> None:
        """An order of all periods."""
        drop_orders(self.home, [str(self.rng.choice(ORDER_NAMES[1:]))])

    def adapt(self) -> None:
        """After some questions about one corner."""
        x, y = self.rng.uniform(0, 1, 2).tolist()
        ask_corner(self.home, (x, y), 40)
        adapt(self.home, request_bytes=1.0)

    def forget(self) -> None:
        """All rows of an object, seldom of two."""
        gone = [int(self.rng.integers(0, 12))]
        forget(self.home, gone)
        self.rows = self.rows.filter(pc.invert(pc.is_in(self.rows.column("id"), pa.array(gone))))

    def retain(self) -> None:
        """Rows from a moment on: few go."""
        first = int(self.rng.integers(0, max(10 * self.batches - 400, 1)))
        retain(self.home, first)
        self.rows = self.rows.filter(pc.greater_equal(self.rows.column("t"), first))

    def clear(self) -> None:
        """Old versions and their files."""
        clear(self.home, keep=int(self.rng.integers(1, 4)), keep_for=0.0, grace=0.0)

    def damage(self) -> None:
        """A file of an order is cut short, and made again of another where there is one."""
        version = self.home.version()
        covered = version.periods.orders != 1
        if not covered.any():
            return
        period = int(self.rng.choice(version.periods.number[covered]))
        mine = np.flatnonzero(version.leaves.period == period)
        leaf = int(self.rng.choice(mine))
        path = Path(self.home.folder.path(version.files.name[version.leaves.file[leaf]]))
        path.write_bytes(path.read_bytes()[:-3])
        assert restore(self.home).made


def look(home: Home, model: Model) -> None:
    """Compare answers with numpy over all rows, from a reader's side, and read all files."""
    assert verify_history(home).damaged == []
    history = dtoss.history.open(home.path, learn=False)
    live = model.rows.filter(pc.invert(model.rows.column("deleted")))
    ids, t, x, y = (live.column(name).to_numpy() for name in ("id", "t", "x", "y"))
    place, radius = model.rng.uniform(0, 1, 2), float(model.rng.uniform(0, 0.4))
    first = int(model.rng.integers(0, 10 * model.batches + 1))
    far = np.sqrt((x - place[0]) ** 2 + (y - place[1]) ** 2)
    near = (far <= radius) & (t >= first)
    found = history.range([place], radius, between=(first, None))
    order = np.lexsort((t[near], ids[near], far[near]))
    assert found.id.tolist() == ids[near][order].tolist()
    assert np.allclose(found.distance, far[near][order], rtol=1e-12, atol=0.0)
    nearest = history.knn([place], 7, per="row", between=(first, None))
    timely = np.flatnonzero(t >= first)
    best = timely[np.lexsort((t[timely], ids[timely], far[timely]))][:7]
    assert nearest.id.tolist() == ids[best].tolist()
    if len(ids):
        one = int(model.rng.choice(ids))
        assert history.trajectory(one).columns["t"].to_pylist() == np.sort(t[ids == one]).tolist()


def operated(home: Home, count: int, seed: int) -> Counter[str]:
    """Do so many random operations and return how often each; after each all rows are there, and no others."""
    model = Model(home, seed)
    done: Counter[str] = Counter()
    model.append()
    for number in range(count):
        what = str(model.rng.choice(WHAT))
        getattr(model, what)()
        done[what] += 1
        version = home.version()
        assert (version.rows, version.sum) == (len(model.rows), sum_of(model.rows)), (number, what)
        done["cut"] += version.what == "adapt"
        if number % ASKED_EVERY == 0 or number == count - 1:
            look(home, model)
    return done


def main() -> None:
    """Print how often each operation was done."""
    with tempfile.TemporaryDirectory() as folder:
        done = operated(Home(f"{folder}/h"), 1000, 1)
        said = ", ".join(f"{count} {what}" for what, count in sorted(done.items()))
        print(f"1,000 operations, each with all rows and sums: {said}")


if __name__ == "__main__":
    main()
