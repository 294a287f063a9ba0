"""Clocks that are wrong, fleets of two, files of one object each: no good row is lost, and windows close."""

from __future__ import annotations

import numpy as np

from dtoss.windows.query.window_query import open_windows
from tests.dtoss.windows.plain import Plain, accepted
from tests.dtoss.windows.storage.kept import SECOND, SITES, begin, check, commit, counts_add_up, made, spec

HOUR = 3_600 * SECOND


def nearest(places):
    """The site of each place."""
    return ((places[:, None, :] - SITES[None]) ** 2).sum(axis=2).argmin(axis=1)


def test_three_of_526_clocks_six_hours_ahead_lose_no_good_row(tmp_path):
    """One in a hundred is six objects, and three do not move the watermark; what they say of later is counted, too."""
    rng = np.random.default_rng(4)
    wanted = spec("5min,1h", "1min", "rows,objects,here,speed,max_speed", late="2min", max_gap="10min")
    home, fixed = begin(tmp_path, wanted)
    batches = []
    for number in range(6):
        t = (rng.uniform(number * 300, number * 300 + 300, 526) * SECOND).astype(np.int64)
        t[:3] += 6 * HOUR
        places = rng.uniform(0.0, 10.0, (526, 2))
        batches.append([(who, int(t[who]), *places[who].tolist()) for who in rng.permutation(526).tolist()])
        done = commit(home, fixed, batches[-1], tasks=1 + number % 2)
        counts_add_up(done.document)
    found = open_windows(home.store, home.name)
    totals = found.head.commit.document["totals"]
    assert (totals["counted"], totals["quarantined"]) == (6 * 526, 0)
    assert 1_680 * SECOND <= found.watermark <= 1_800 * SECOND
    rows = np.array([row for batch in batches for row in batch])
    who, t, places = rows[:, 0].astype(np.int64), rows[:, 1].astype(np.int64), rows[:, 2:]
    cuts = [slice(i * 526, (i + 1) * 526) for i in range(6)]
    good, marks = accepted(wanted, who, t, cuts)
    assert good.all()
    assert marks[-1] == found.watermark
    plain = Plain(wanted, who, t, places, nearest, lambda a, b: np.hypot(*(a - b).T))
    for end in (900 * SECOND, found.watermark):
        for name, length in (("5min", 300 * SECOND), ("1h", HOUR)):
            known = plain.window(end, length)
            answer = found.at(end / SECOND, name).to_pylist()
            assert [row["key"] for row in answer] == sorted(known)
            for row in answer:
                for measure in ("rows", "objects", "here", "speed", "max_speed"):
                    assert row[measure] == known[row["key"]].get(measure), measure


def test_two_objects_alone_still_close_windows(tmp_path):
    """Three witnesses are wanted, and all of them are where there are fewer: the slower one of two says what is due."""
    home, fixed = begin(tmp_path, spec(late="1min"))
    rows = []
    for batch in made(8, batches=4, rows=12, ids=2):
        commit(home, fixed, batch)
        mark = open_windows(home.store, home.name).watermark
        rows += batch
        latest = [max(row[1] for row in rows if row[0] == who) for who in (0, 1)]
        assert mark == min(latest) // (2 * SECOND) * 2 * SECOND
    assert check(home, rows) > 20


def test_a_file_of_each_object_and_all_in_one_batch(tmp_path):
    """The first file ends where the others begin, and none of them is late: all are read before any is judged."""
    home, fixed = begin(tmp_path, spec(late="0s"))
    rows = sorted(row for batch in made(9, batches=5) for row in batch)
    done = commit(home, fixed, rows, tasks=3)
    counts_add_up(done.document)
    assert done.document["reasons"] == {}
    assert check(home, rows) > 20
