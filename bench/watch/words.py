"""Messages against subscriptions with words: python -m bench.watch.words [--subscriptions N] [--messages N].

Subscriptions are squares of 1 to 50 km at towns, with one to three words, all joined by and or all by or. Messages have
eight words, at towns. Words are as frequent as in the names of towns; where those are missing, a generator makes towns
and words of Zipf's law. The same call finds them by words and place, by words only and by place only. One thread, in
processor seconds; the figures stand beside the goals.
"""

from __future__ import annotations

import argparse
import os
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from dtoss.watch.index.word_index import BY_BOTH, BY_PLACE_ONLY, BY_WORDS_ONLY, WordIndex, build_worded, vocabulary_in
from dtoss.watch.matching.word_match import candidate_pieces
from dtoss.watch.words.messages import messages_of
from dtoss.watch.words.tokenizer import tokens

TOWNS = Path(os.environ.get("DTOSS_DATA", Path(__file__).parents[3] / "shared" / "data")) / "cities500.parquet"
WORDS_OF_A_MESSAGE = 8
KM_A_DEGREE = 111.2
SIGNS = ("and", "or", "not")
FEWER = {BY_BOTH: 1, BY_WORDS_ONLY: 2, BY_PLACE_ONLY: 10}
"""What share of the messages is enough to time."""


def towns(random: np.random.Generator) -> tuple[NDArray[np.float64], list[str], NDArray[np.float64]]:
    """Return where towns are, distinct words, and the share of each."""
    if TOWNS.exists():
        table = pq.read_table(TOWNS, columns=["lon", "lat", "text"])
        places = np.stack([table.column("lon").to_numpy(), table.column("lat").to_numpy()], axis=1)
        counts = Counter(
            word for text in table.column("text").to_pylist() for word in tokens(text) if word not in SIGNS
        )
        said = np.array(list(counts.values()), np.float64)
        return places, list(counts), said / said.sum()
    size = 150_000
    share = 1.0 / (np.arange(size) + 20.0)
    centres = np.stack([random.uniform(-180, 180, 200), random.uniform(-55, 65, 200)], axis=1)
    places = centres[random.integers(0, 200, 200_000)] + random.normal(0.0, 2.0, (200_000, 2))
    places[:, 0] = (places[:, 0] + 180.0) % 360.0 - 180.0
    return places, [f"w{i:x}" for i in range(size)], share / share.sum()


def squares(places: NDArray[np.float64], random: np.random.Generator, size: int) -> NDArray[np.float64]:
    """Return squares of 1 to 50 km at towns, float64 (size, 4)."""
    middle = places[random.integers(0, len(places), size)]
    half = random.uniform(1.0, 50.0, size) / 2 / KM_A_DEGREE
    wide = half / np.cos(np.radians(np.minimum(np.abs(middle[:, 1]), 80.0)))
    west, east = (np.mod(middle[:, 0] + side + 180.0, 360.0) - 180.0 for side in (-wide, wide))
    return np.stack([west, middle[:, 1] - half, east, middle[:, 1] + half], axis=1)


def formulas(words: NDArray[Any], share: NDArray[np.float64], random: np.random.Generator, size: int) -> pa.Array:
    """Return formulas of one to three words, joined by and or by or."""
    drawn = random.choice(words, (size, 3), p=share)
    count, sign = random.integers(1, 4, size), random.choice([" and ", " or "], size)
    return pa.array(
        [s.join(row[:c]) for row, c, s in zip(drawn.tolist(), count.tolist(), sign.tolist(), strict=True)],
        pa.large_string(),
    )


def timed(call: Callable[[], Any], times: int = 3) -> tuple[float, Any]:
    """Return the least processor seconds of this thread that a call took, and what it returned."""
    best, found = np.inf, None
    for _ in range(times):
        began = time.thread_time()
        found = call()
        best = min(best, time.thread_time() - began)
    return best, found


def matched(worded: WordIndex, positions: NDArray[np.float64], messages: Any) -> int:
    """Return how many pairs there are."""
    return sum(len(piece.row) for piece in candidate_pieces(worded, positions, messages))


def run(subscriptions: int, count: int) -> None:
    """Print the figures of one size."""
    random = np.random.default_rng(0)
    places, words, share = towns(random)
    named = np.array(words, object)
    texts, boxes = formulas(named, share, random, subscriptions), squares(places, random, subscriptions)
    positions = places[random.integers(0, len(places), count)] + random.normal(0.0, 0.02, (count, 2))
    positions = np.clip(positions, [-179.9, -89.9], [180.0, 89.9])
    said = pa.array([" ".join(row) for row in random.choice(named, (count, WORDS_OF_A_MESSAGE), p=share)])
    top = np.sort(share)[-len(share) // 100 :].sum()
    print(
        f"\n{subscriptions:,} subscriptions, {count:,} messages of {WORDS_OF_A_MESSAGE} words of {len(words):,}, "
        f"of which the most frequent 1 % are {top:.0%} of all"
    )
    build_worded(texts.slice(0, 100), boxes[:100], "sphere")
    build_took, worded = timed(lambda: build_worded(texts, boxes, "sphere"), 2)
    vocabulary = vocabulary_in(worded)
    messages_of(vocabulary, said.slice(0, 10))
    print(
        f"  build {subscriptions / build_took / 1e6:.2f} M/s (goal .5), {worded.bytes / subscriptions:.0f} bytes each "
        f"(goal 250), {len(worded.places) / subscriptions:.2f} places each, levels "
        f"{[int(worded.levels[k]) for k in range(1, len(worded.levels)) if (worded.heads[:, 1] >> k & 1).any()]}"
    )
    delta_took, _ = timed(lambda: build_worded(texts.slice(0, 10_000), boxes[:10_000], "sphere"), 5)
    print(f"  10,000 of them built in {delta_took * 1e3:.0f} ms (goal 30)")
    took, _ = timed(lambda: messages_of(vocabulary, said))
    print(f"  words of messages numbered: {count / took / 1e6:.2f} M messages/s")
    rates, totals = {}, {}
    for by in (BY_BOTH, BY_WORDS_ONLY, BY_PLACE_ONLY):
        index = worded if by == BY_BOTH else build_worded(texts, boxes, "sphere", by=by)
        some = count // FEWER[by]
        mine = messages_of(vocabulary_in(index), said.slice(0, some))
        seconds, pairs = timed(lambda index=index, some=some, mine=mine: matched(index, positions[:some], mine))
        rates[by], totals[by] = some / seconds, matched(worded, positions[:some], messages_of(vocabulary, said[:some]))
        assert pairs == totals[by], "each way must find the same"
        print(f"  by {by:6} {rates[by] / 1e6:.3f} M messages/s, {pairs / some:.2f} matches each")
    both = 1.0 / (took / count + 1.0 / rates[BY_BOTH])
    print(
        f"  matched {rates[BY_BOTH] / 1e6:.2f} M messages/s (goal 1), with numbering {both / 1e6:.2f}; "
        f"{rates[BY_BOTH] / rates[BY_WORDS_ONLY]:.1f} x words only (goal 3), "
        f"{rates[BY_BOTH] / rates[BY_PLACE_ONLY]:.1f} x place only (goal 8)"
    )


def main() -> None:
    """Print the figures of both sizes, or of the one that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--subscriptions", type=int)
    parser.add_argument("--messages", type=int, default=200_000)
    options = parser.parse_args()
    for size in (options.subscriptions,) if options.subscriptions else (200_000, 1_000_000):
        run(size, options.messages)


if __name__ == "__main__":
    main()
