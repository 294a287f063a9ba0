"""A watch whose strategy splits cells by the words that rows say: events of one task, words counted as loops count."""

from __future__ import annotations

import json
import os
from collections import Counter

import numpy as np
import pytest

import dtoss
from dtoss.commits.offsets import Source
from dtoss.errors import StoreError
from dtoss.rows.input_columns import Columns
from dtoss.watch.events.watch_tables import verify_watch
from dtoss.watch.processing.watch_plan import Options, plan_batch
from dtoss.watch.sharding.layout_files import open_routing
from dtoss.watch.sharding.routing_grid import cells_of
from dtoss.watch.sharding.sharded_batch import commit_on_workers, open_words
from dtoss.watch.watch_folder import LAYOUTS, Home, Limits
from pipelines.watching.spreading import Spreading, SpreadOptions, cells_asked, words_of
from pipelines.watching.watch_batches import Rowwise
from tests.dtoss.watch.streams import BEGIN, NOW, SECOND, SPHERE, change, circle, rows_of, run, settings_of
from tests.dtoss.watch.watch_batch import run_on_workers
from tests.pipelines.watching.arrivals import once
from tests.pipelines.watching.test_drawn_layouts import all_columns

MADE = settings_of(text="text", messages=True)
SPOKEN = [f"w{one}" for one in range(30)]
SHARE = 1.0 / np.arange(1, 31)
SHARE /= SHARE.sum()


def asking(rng, names):
    """Half of them small and of words that many say, half of them everywhere and of words that few say."""
    found = []
    for name in names:
        seldom = rng.random() < 0.5
        words = rng.choice(SPOKEN[15:] if seldom else SPOKEN[:8], 2, replace=False)
        text = [" or ", " and "][rng.integers(2)].join(words)
        found.append(circle(name, *rng.uniform(0, 1, 2).tolist(), 2e7 if seldom else 9e3, words=text, events=1))
    return found


def saying(rng, count, number):
    """Messages of four words over a region, most of them at one place."""
    hot = rng.random(count) < 0.6
    x, y = np.where(hot, 0.5, rng.uniform(0, 1, count)), np.where(hot, 0.5, rng.uniform(0, 1, count))
    texts = [" ".join(rng.choice(SPOKEN, 4, p=SHARE)) if rng.random() < 0.95 else None for _ in range(count)]
    return [
        {"id": one, "t": BEGIN + number * SECOND, "x": x[one], "y": y[one], "text": texts[one],
         "attributes": {"occupied": 0, "kind": None}}
        for one in range(count)
    ]  # fmt: skip


@pytest.mark.parametrize("strategy", ["words", "ps2stream", "ps2stream-work"])
def test_events_are_those_of_one_task(tmp_path, strategy):
    """While subscriptions come and go, layouts change after each batch, and the process is another one now and then."""
    rng = np.random.default_rng(len(strategy))
    plain, home = (Home(str(tmp_path / name), "w", Limits(least_delta=3)) for name in ("plain", "spread"))
    names, split, rounds = [f"s{one}" for one in range(80)], 0, []
    spreading = Spreading(home, SpreadOptions(strategy, 4))
    for number in range(4):
        new = asking(rng, names if number == 0 else rng.choice(names, 8, replace=False).tolist())
        gone = rng.choice(names, 5, replace=False).tolist() if number else []
        for one in (plain, home):
            change(one, new, gone)
        rows, tasks = saying(rng, 150, number), int(rng.choice([1, 2, 7]))
        wanted = run(plain, MADE, rows, tasks)
        plan = spreading.routed(plan_batch(home, MADE, Source(files={f"f{number}": 1}), Options(), NOW))
        done, worked = run_on_workers(plan, rows_of(rows), tasks)
        commit = commit_on_workers(plan, done, worked, spreading.ended(plan, worked, done))
        assert all_columns(home, commit) == all_columns(plain, wanted)
        split += len(open_routing(home, plan.routed.layout["name"]).word)
        _check_said(home, plan, rows, done, spreading)
        rounds.append(commit.document["layout"]["round"])
        if number == 1:
            spreading = Spreading(home, SpreadOptions(strategy, 4))
    assert (split > 0) == (strategy != "ps2stream-work")  # what lists look at is not less when words are split off
    assert rounds == sorted(rounds)
    assert verify_watch(home).damaged == []
    if strategy == "ps2stream":
        home.asked.remove(LAYOUTS, commit.document["layout"]["words"]["name"])
        assert verify_watch(home).damaged
        open_words.cache_clear()
        with pytest.raises(StoreError, match="words-"):
            open_words(home, commit.document["layout"]["words"]["name"])


def _check_said(home, plan, rows, done, spreading):
    """What tasks have counted is what a loop counts, and so is what the round keeps of it."""
    texts = open_words(home, plan.routed.words["name"])[0].to_pylist()
    grid = open_routing(home, plan.routed.layout["name"]).grid
    parts = [one for one in (plan.files.base, plan.files.delta) if one is not None]
    assert texts == words_of([cells_asked(home, one["name"], grid) for one in parts]).to_pylist()
    cell = cells_of(grid, SPHERE, np.array([[row["x"], row["y"]] for row in rows])).tolist()
    wanted = Counter((c, word) for c, row in zip(cell, rows, strict=True) for word in set((row["text"] or "").split()))
    wanted = {pair: count for pair, count in wanted.items() if pair[1] in texts}
    found = Counter()
    for one in (task.said for task in done if task.said is not None):
        for c, word, count in zip(one.cell.tolist(), one.word.tolist(), one.rows.tolist(), strict=True):
            found[c, texts[word]] += count
    assert found == wanted
    terms = spreading._ended.terms
    kept = zip(terms.cell.tolist(), terms.word.tolist(), terms.rows.tolist(), strict=True)
    assert {(c, texts[word]): count for c, word, count in kept} == wanted


def test_words_are_counted_for_strategies_that_split_by_them_alone(tmp_path):
    """Not for others, and not where rows have no texts."""
    home = Home(str(tmp_path), "w")
    change(home, asking(np.random.default_rng(0), ["a", "b", "c"]))
    for strategy, made in (("ours", MADE), ("ps2stream", settings_of(messages=True))):
        plan = plan_batch(home, made, Source(files={"f": 1}), Options(), NOW)
        plan = Spreading(home, SpreadOptions(strategy, 2)).routed(plan)
        assert plan.routed.words is None
        done, _ = run_on_workers(plan, rows_of(saying(np.random.default_rng(1), 5, 0)), 1)
        assert done[0].said is None


def test_with_spark_words_are_counted_in_tasks(spark, tmp_path):
    """Three batches of one run; layouts come to have words, and all events are there, as without Spark."""
    rng = np.random.default_rng(5)
    plain, home, incoming = Home(str(tmp_path / "plain")), Home(str(tmp_path / "spread")), tmp_path / "in"
    incoming.mkdir()
    for one in (plain, home):
        change(one, asking(np.random.default_rng(2), [f"s{number}" for number in range(60)]))
    for number in range(3):
        path, rows = incoming / f"m{number}.jsonl", saying(rng, 200, number)
        said = [{"lon": row["x"], "lat": row["y"], "said": row["text"]} for row in rows]
        path.write_text("".join(json.dumps(one) + "\n" for one in said))
        os.utime(path, (1, 1))
        run(plain, MADE, rows, 2)
    rows = Rowwise(text="said", messages=True, has_ids=False)
    once(
        spark,
        incoming,
        home.store,
        columns=Columns(id=None),
        rows=rows,
        spread=SpreadOptions("ps2stream", 3),
        most_rows=1,
    )
    counts = [
        Counter((one["subscription"], one["lon"], one["lat"]) for one in dtoss.events(store.store))
        for store in (plain, home)
    ]
    assert counts[0] == counts[1]
    assert sum(counts[0].values()) > 100
    split = [
        len(open_routing(home, home.batches.read(number).document["layout"]["layout"]["name"]).word)
        for number in range(1, home.batches.head().number + 1)
    ]
    assert max(split) > 0
