"""A rehearsal of made rows: what is counted, which strategy is taken, the files, and inputs that are none."""

from __future__ import annotations

import csv
import json
import re
from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from ceps.strategies import AUTO, names
from dtoss.errors import InputError
from dtoss.geometry.space import space_of
from dtoss.watch.sharding.routing_grid import cells_of
from dtoss.watch.watch_folder import Home
from pipelines.options.streaming import Questions, StreamColumns
from pipelines.simulation.simulate import best_of, facts_of, read_stream, rehearse_stream
from tests.dtoss.watch.oracle import asked_holds
from tests.dtoss.watch.streams import change, circle

SPHERE = space_of()
HOUR = 3_600


def made(folder, kind="parquet", rows=600, seed=0, hot=0.4):
    """Rows of six hours about a town, many of them at one place from the third hour on, and circles there."""
    rng = np.random.default_rng(seed)
    t = np.sort(rng.integers(0, 6 * HOUR, rows))
    lon, lat = rng.normal(8.66, 0.05, rows), rng.normal(50.11, 0.03, rows)
    there = (rng.random(rows) < hot) & (t >= 3 * HOUR)
    lon[there], lat[there] = 8.66, 50.11
    table = pa.table({"id": rng.integers(0, 30, rows), "t": t, "lon": lon, "lat": lat, "speed": rng.random(rows)})
    path = folder / f"rows.{kind}"
    if kind == "parquet":
        pq.write_table(table, path)
    else:
        pyarrow.csv.write_csv(table, path)
    asked = [
        {"id": f"s{one}", "circle": [float(rng.normal(8.66, 0.05)), float(rng.normal(50.11, 0.03)), 900.0]}
        | ({"where": "speed > 0.5"} if one % 3 == 0 else {})
        for one in range(60)
    ]
    subscriptions = folder / "subs.jsonl"
    subscriptions.write_text("".join(json.dumps(one) + "\n" for one in asked))
    return path, subscriptions


def test_what_a_round_costs_is_what_brute_force_counts(tmp_path):
    """Rows and matches of each cell; as many candidates at least; each round judged once; the best by its rule."""
    path, asked = made(tmp_path)
    done = rehearse_stream(str(path), Questions([str(asked)]), workers=[3], round_seconds=HOUR, side=8)
    rounds = done.rounds
    assert len(rounds) == 6
    table = pq.read_table(path)
    positions = np.stack([table["lon"].to_numpy(), table["lat"].to_numpy()], axis=1)
    cell, hour = cells_of(rounds.grid, SPHERE, positions), table["t"].to_numpy() // HOUR
    schema = {"speed": pa.float64(), "id": pa.int64()}
    records = [json.loads(line) for line in asked.read_text().splitlines()]
    circles = [
        circle(one["id"], *one["circle"][:2], one["circle"][2], where=one.get("where"), events=7) for one in records
    ]
    rows = [
        {"id": row["id"], "x": row["lon"], "y": row["lat"], "attributes": {"speed": row["speed"]}}
        for row in table.to_pylist()
    ]
    held = np.array([sum(asked_holds(SPHERE, schema, one, row) is not None for one in circles) for row in rows])
    for number in range(6):
        loads, mine = rounds.loads(number), hour == number
        assert loads.rows.tolist() == np.bincount(cell[mine], minlength=64).tolist()
        assert loads.matches.tolist() == np.bincount(cell[mine], held[mine], minlength=64).tolist()
        assert (loads.candidates >= loads.matches).all()
    assert held.sum() > 0
    for one in done.results:
        assert one.rounds == 5
        assert one.work.sum(axis=1) == pytest.approx([rounds.loads(number).work.sum() for number in range(1, 6)])
    assert done.fits
    assert best_of(done.results, True).name == "replicated"
    best = best_of(done.results, False)
    assert best.name != "replicated"
    spread = [one for one in done.results if one.name != "replicated"]
    least = min(one.max_over_mean[one.settled].mean() for one in spread)
    assert best.max_over_mean[best.settled].mean() <= 1.05 * least + 1e-9


def test_rows_are_counted_by_the_words_that_are_asked_for(tmp_path):
    """By cell, as loops count them; strategies that split cells by words do, and each row is judged with its words."""
    rng = np.random.default_rng(3)
    count, spoken = 800, [f"w{one}" for one in range(12)]
    lon, lat = rng.uniform(8.0, 9.0, count), rng.uniform(50.0, 51.0, count)
    said = [" ".join(rng.choice(spoken, 3)) for _ in range(count)]
    said[5] = None
    t = np.sort(rng.integers(0, 4 * HOUR, count))
    pq.write_table(
        pa.table({"id": np.arange(count), "t": t, "lon": lon, "lat": lat, "said": said}), tmp_path / "m.parquet"
    )
    asked = []
    for one in range(90):
        west, south = rng.uniform(8.0, 8.9), rng.uniform(50.0, 50.9)
        box = [8.0, 50.0, 9.0, 51.0] if one % 2 else [west, south, west + 0.1, south + 0.1]
        words = f"w{rng.integers(9)} or w{rng.integers(8)}" if one % 3 else f"w{rng.integers(9)} and not w11"
        asked.append({"id": f"s{one}", "box": box} | ({"words": words} if one % 10 else {}))
    (tmp_path / "s.jsonl").write_text("".join(json.dumps(one) + "\n" for one in asked))
    done = rehearse_stream(
        str(tmp_path / "m.parquet"), Questions([str(tmp_path / "s.jsonl")]), workers=[3], round_seconds=HOUR, side=6,
        strategies=["words", "ps2stream", "ps2stream-work", "ours"], columns=StreamColumns(text="said"),
    )  # fmt: skip
    rounds = done.rounds
    cell, hour = cells_of(rounds.grid, SPHERE, np.stack([lon, lat], axis=1)), t // HOUR
    for number in range(4):
        terms, loads = rounds.loads(number).terms, rounds.loads(number)
        counted = Counter()
        for row in np.flatnonzero(hour == number).tolist():
            counted.update((int(cell[row]), word) for word in set((said[row] or "").split()))
        found = sorted(terms.rows.tolist())
        wanted = sorted(n for (_, word), n in counted.items() if word in {f"w{one}" for one in range(9)})
        assert found == wanted
        assert terms.under.tolist() == rounds.asked.under_words.over(terms.cell, terms.word).tolist()
        assert (loads.candidates >= np.bincount(terms.cell, terms.rows * terms.under, 36)).all()
        assert (loads.candidates >= loads.matches).all()
    split = {one.name: max(len(layout.words) for layout in one.layouts) for one in done.results}
    assert split["words"] > 0
    assert split["ps2stream"] > 0
    assert split["ours"] == 0
    for one in done.results:
        # rows that several workers get count for each of them
        assert (one.work.sum(axis=1) >= [rounds.loads(number).work.sum() - 1e-6 for number in range(1, 4)]).all()


def test_the_command_writes_a_page_json_and_csv_that_say_the_same(tmp_path, command):
    """Twice the same bytes; of all strategies, and two numbers of workers; CSV as an input."""
    path, asked = made(tmp_path, "csv")
    outs, told = [tmp_path / "one", tmp_path / "two"], ""
    for out in outs:
        ran = command("rehearse", path, "--subscriptions", asked, "--workers", "2,5", "--round", "1h", "--out", out)
        assert ran.code == 0
        told += ran.out
    for name in ("report.html", "rehearsal.json", "rounds.csv"):
        assert (outs[0] / name).read_bytes() == (outs[1] / name).read_bytes()
    facts = json.loads((outs[0] / "rehearsal.json").read_text())
    used = {(one["strategy"], one["workers"]) for one in facts["strategies"]}
    assert used == {(name, count) for name in names() if name != AUTO for count in (2, 5)}
    assert facts["rounds"] == 5
    lines = list(csv.DictReader((outs[0] / "rounds.csv").read_text().splitlines()))
    assert len(lines) == 5 * len(used)
    for one in facts["strategies"]:
        mine = [x for x in lines if (x["strategy"], int(x["workers"])) == (one["strategy"], one["workers"])]
        assert [float(x["max_over_mean"]) for x in mine] == one["maxOverMean"]
        assert [int(x["moved_bytes"]) for x in mine] == one["movedBytes"]
    page = (outs[0] / "report.html").read_text()
    for taken in facts["take"]:
        one = next(x for x in facts["strategies"] if (x["strategy"], x["workers"]) == tuple(taken.values()))
        lead = f"Take {one['strategy']} with {one['workers']} workers: the busiest has {one['mean']:.2f} times the mean"
        assert lead in page
        assert lead in told
    for one in facts["strategies"]:
        assert re.search(rf">{one['strategy']}</t[hd]>.{{0,80}}>{one['workers']}<.{{0,80}}>{one['mean']:.3f}<", page)
    assert "<script" not in page
    assert page.count("http") == page.count("http-equiv")


def test_the_page_of_two_rounds_folds_what_is_nothing(tmp_path, command):
    """No course of one round, no bar of nothing, no map where each worker has all; else what is too large for that."""
    path, asked = made(tmp_path)
    arguments = ["rehearse", path, "--subscriptions", asked, "--workers", "2,3", "--round", "3h", "--out", tmp_path]
    assert "Take replicated with 3 workers: the busiest has 1.00 times the mean work" in command(*arguments).out
    page = (tmp_path / "report.html").read_text()
    assert "Busiest worker over the mean of all, by round" not in page
    assert page.count("No strategy moves a subscription.") == 2
    assert "<h2>Where" not in page
    told = command(*arguments, "--memory", "1k").out
    assert "Take replicated" not in told
    page = (tmp_path / "report.html").read_text()
    assert page.count("<summary>Where") == 2


def test_subscriptions_of_a_watch_and_rows_in_a_folder(tmp_path):
    """With other names of columns; rows without a place or a time are counted and left out."""
    path, _ = made(tmp_path)
    table = pq.read_table(path).rename_columns(["who", "when", "east", "north", "speed"])
    lon = table["east"].to_numpy().copy()
    lon[:3] = np.nan
    when = pa.array([None, *table["when"].to_pylist()[1:]], pa.int64())
    table = table.set_column(2, "east", pa.array(lon)).set_column(1, "when", when)
    folder = tmp_path / "in"
    folder.mkdir()
    pq.write_table(table.slice(0, 300), folder / "a.parquet")
    pq.write_table(table.slice(300), folder / "b.parquet")
    home = Home(str(tmp_path / "store"), "w")
    change(home, [circle("a", 8.66, 50.11, 5000.0), circle("b", 8.7, 50.1, 300.0)])
    done = rehearse_stream(
        str(folder), Questions(store=str(tmp_path / "store"), watch="w"), strategies=["ours"], workers=[2],
        round_seconds=HOUR, columns=StreamColumns("who", "east", "north", "when"),
    )  # fmt: skip
    assert (done.rows, done.skipped) == (597, 3)
    assert facts_of(done)["subscriptions"] == 2


def test_what_is_strange_is_defined_or_said(tmp_path, command):
    """Nobody asks, all rows in one cell, more workers than cells; each error is a line, and names the way out."""
    path, asked = made(tmp_path, rows=100)
    nobody = Home(str(tmp_path / "store"), "w")
    change(nobody, [circle("a", 8.66, 50.11, 5000.0)])
    change(nobody, [], ["a"])
    done = rehearse_stream(str(path), Questions(store=nobody.store, watch="w"), workers=[3], round_seconds=HOUR, side=1)
    assert len(facts_of(done)["strategies"]) == len(names()) - 1
    everywhere = rehearse_stream(
        str(path), Questions([str(asked)]), strategies=["ours", "swarm"], workers=[9], round_seconds=HOUR, side=2
    )
    assert {one.workers for one in everywhere.results} == {9}
    for arguments, wanted in (
        (["--strategy", "our"], "there is no strategy 'our'; did you mean ours?"),
        (["--strategy", "auto"], "strategy 'auto' wants the memory of a worker (--memory 4g)"),
        (["--workers", "0"], "--workers has '0': whole numbers from 1 on"),
        (["--workers", "2,x"], "--workers has 'x': whole numbers from 1 on"),
        (["--round", "10d"], "has rows in 1 rounds of 864000 s: at least two are wanted"),
        (["--round", "0s"], "--round is 0 s: more than 0 is wanted"),
        (["--time", "when"], "there is no column 'when' (--time NAME); the columns are id, t, lon, lat, speed"),
        (
            ["--store", str(tmp_path)],
            "subscriptions come of files (--subscriptions FILE) or of a watch (--store STORE)",
        ),
    ):
        assert wanted in command.fails(
            "rehearse", path, "--subscriptions", asked, "--out", tmp_path / "out", *arguments
        )
    with pytest.raises(InputError, match="name one"):
        rehearse_stream(str(path), Questions())
    empty = tmp_path / "empty.parquet"
    pq.write_table(pq.read_table(path).slice(0, 0), empty)
    with pytest.raises(InputError, match="has rows in 0 rounds"):
        rehearse_stream(str(empty), Questions([str(asked)]))


def test_rows_are_read_by_time_whatever_order_files_have(tmp_path):
    """And JSON lines, too; a line that is none is left out."""
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps({"t": t, "lon": t / 10.0, "lat": 1.0}) + "\n" for t in (5, 3, 9)) + "{")
    stream = read_stream(str(path), SPHERE, StreamColumns())
    assert stream.rows.t.tolist() == [3_000_000, 5_000_000, 9_000_000]
    assert stream.rows.positions[:, 0].tolist() == [0.3, 0.5, 0.9]
    assert stream.skipped == 1


def test_text_is_read_as_any_job_reads_it(tmp_path):
    """Times as people write them, and texts of digits, which words are asked of."""
    path = tmp_path / "rows.csv"
    path.write_text("id,t,lon,lat,said\n1,2026-11-01T10:00:00+01:00,8,47,12\n2,soon,8,47,13\n3,2026-11-01,8,47,\n")
    stream = read_stream(str(path), SPHERE, StreamColumns(text="said"), ["said"])
    assert (stream.rows.ids.to_pylist(), stream.rows.text.to_pylist()) == ([3, 1], [None, "12"])
    assert (np.diff(stream.rows.t).tolist(), stream.skipped) == ([9 * 3_600_000_000], 1)
