"""How far the page's model of other layouts depends on its sample: costs from all rows, and from ever fewer.

``python -m bench.history.sampled_rivals`` needs the Cabspotting positions in the folder named by DTOSS_DATA.
"""

from __future__ import annotations

import tempfile
import time

import numpy as np
import pyarrow.parquet as pq

from bench.history.worlds import HOTSPOTS, METRES, SPREAD
from bench.measuring.points import DATA
from dtoss.history.adaptive.rivals import SAMPLED_BLOCKS, SAMPLED_ROWS, Sample, sample_of
from dtoss.history.append_frame import append
from dtoss.history.query.explain import QUESTIONS
from dtoss.history.questions import Questions
from dtoss.history.versions import Home
from pipelines.reports.history_facts import rival_reads

ASKED = 100
"""Questions of each kind."""
REQUEST_BYTES = 50_000
"""What a request costs: that of a local disk."""
RADIUS = 6_371_008.8
"""Metres of the Earth, by which lengths become distances of vectors."""
HOUR = 3600e6
"""Microseconds."""


def asked_of(home: Home, seed: int = 0) -> Questions:
    """Return an hour within 560 m, all times within 300 m, a day within 800 m, and 10 minutes of all places."""
    space, leaves = home.version().schema.space, home.version().leaves
    first, last = float(leaves.t_from.min()), float(leaves.t_to.max())
    rng = np.random.default_rng(seed)
    kinds = [("airport", 560.0, HOUR), ("Mission", 300.0, last - first), ("airport", 800.0, 24 * HOUR)]
    m = 3 * ASKED
    spots = np.repeat([HOTSPOTS[name] for name, _, _ in kinds], ASKED, axis=0)
    vectors = space.vectors(spots + rng.normal(0, SPREAD / METRES, (m, 2)))
    length = np.repeat([*(span for _, _, span in kinds), HOUR / 6], ASKED)
    begin = np.where(length >= last - first, first, rng.uniform(first, last, m + ASKED))
    return Questions(
        np.arange(1, m + ASKED + 1),
        np.full(m + ASKED, QUESTIONS.index("range"), np.int8),
        np.ones(m + ASKED, np.int64),
        np.zeros(m + ASKED, np.int32),
        begin,
        begin + length,
        np.append(np.arange(m + 1), np.full(ASKED, m)).astype(np.int64),
        vectors,
        vectors,
        np.repeat([radius / RADIUS for _, radius, _ in kinds], ASKED),
    )


def costs(sample: Sample, asked: Questions) -> dict[str, float]:
    """Return what a question costs each rival in the mean, in bytes."""
    return {
        name: float((reads[:, 0] * REQUEST_BYTES + reads[:, 1]).mean())
        for name, reads in rival_reads(sample, asked, REQUEST_BYTES).items()
    }


def main() -> None:
    """Print the costs of each rival from samples, as shares of those from all rows."""
    with tempfile.TemporaryDirectory() as folder:
        table = pq.read_table(DATA / "cabspotting_sf.parquet", columns=["uid", "t", "lon", "lat"])
        append(table, f"{folder}/H", batch="cabs", id="uid", time="t")
        home = Home(f"{folder}/H")
        asked, version = asked_of(home), home.version()
        whole: dict[str, float] = {}
        few = SAMPLED_ROWS // 8
        for rows, blocks in (
            (len(table), len(table)),
            (SAMPLED_ROWS, SAMPLED_BLOCKS),
            (few, SAMPLED_BLOCKS),
            (few, 64),
        ):
            began = time.perf_counter()
            sample = sample_of(home, version, rows, blocks)
            found = costs(sample, asked)
            whole = whole or found
            shares = ", ".join(f"{name} {found[name] / whole[name]:.3f}" for name in found)
            took = time.perf_counter() - began
            each = f"{len(sample):,} rows, each for {sample.stands_for:.1f}"
            print(f"{each}, of at most {blocks:,} blocks: {shares}; {took:.1f} s")


if __name__ == "__main__":
    main()
