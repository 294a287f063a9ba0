"""Made streams against a plain account of what each subscription is to be told, judged without the library.

Between batches subscriptions come, change, go, come again and expire, events are folded, and a reader reads on.
"""

from __future__ import annotations

import json
import math
from collections import Counter

import numpy as np
import pyarrow as pa

from dtoss.commits.offsets import Source
from dtoss.geometry.space import space_of
from dtoss.watch.events.event_compaction import HOUR_US, fold_watch
from dtoss.watch.events.event_counts import event_counts
from dtoss.watch.events.event_log import events
from dtoss.watch.events.readers import Cursor
from dtoss.watch.events.watch_tables import verify_watch
from dtoss.watch.processing.watch_plan import Options, plan_batch
from dtoss.watch.subscriptions.changes import subscribe, unsubscribe
from dtoss.watch.subscriptions.current import change_number
from dtoss.watch.subscriptions.validation import check_subscriptions
from dtoss.watch.watch_folder import Home
from dtoss.watch.watch_settings import Rows, Settings
from tests.dtoss.watch.judged_sphere import SPOTS, Everywhere, random_place
from tests.dtoss.watch.oracle import Witnessed
from tests.dtoss.watch.watch_batch import run_batch

SECOND = 1_000_000
NAMES = ["7", "a", "\0", "a\0b", "😀", "É", "É", "ß", " ", "-1", "x" * 900, "日本"]
NUMBERS = [-(2**63), 2**63 - 1, 0, -1, 1, 255, 256, 7, 2**31, -(2**31) - 1, 3, 4]
KINDS = {"a:b": pa.float64(), "select": pa.string(), "id ": pa.bool_()}
WHERES = {
    None: lambda row: True,
    '"a:b" >= 0.5': lambda row: row["a:b"] is not None and row["a:b"] >= 0.5,
    "\"select\" = 'x'": lambda row: row["select"] == "x",
    '"id " is null': lambda row: row["id "] is None,
    '"a:b" is not null and ("select" is null or "id ")': lambda row: (
        row["a:b"] is not None and (row["select"] is None or row["id "] is True)
    ),
}
EXPIRIES = [None, None, None, 0, 1, 5, 30, 60]


class Told:
    """What is to be told, from rows one after another and subscriptions one by one."""

    def __init__(self, expire):
        self.expire = expire
        self.time = Witnessed("1%", 3600 * SECOND if expire is None else expire, lambda t: t // 2**20 * 2**20)
        self.before, self.stood, self.change, self.begun = {}, {}, 0, False

    def lives(self, one):
        """Whether a subscription has not expired."""
        return self.time.now is None or one["ends"] is None or one["ends"] > self.time.now

    def over(self, t):
        """Whether an object is over by its last time."""
        return self.expire is not None and self.time.now is not None and t <= self.time.now - self.expire

    def batch(self, rows, stands, change):
        """What a batch is to tell, as a list of events."""
        out, came, counted = [], {}, {}
        for row in rows:
            came.setdefault(row["id"], []).append(row)
        before = {name: row["t"] for name, row in self.before.items()}
        self.time.set_back(before, {name: [row["t"] for row in some] for name, some in came.items()}, self.over)
        for name, old in self.stood.items() if self.begun else ():
            new = stands.get(name)
            if self.lives(old) and (new is None or new["version"] != old["version"]):
                out.append(("reset", name, old["version"], None, None, "changed" if new else "removed"))
        alive = [one for one in stands.values() if self.lives(one)]
        for name in came:
            last = self.before.get(name)
            for t in sorted({row["t"] for row in came[name]}):
                if (last and t <= last["t"]) or self.over(t):
                    continue
                row = max((row for row in came[name] if row["t"] == t), key=_key) | {"change": change}
                counted.setdefault(name, []).append(t)
                for one in alive:
                    was = bool(last) and one["version"] <= last["change"] and one["holds"](last)
                    held = one["holds"](row)
                    happened = {"leave": was and not held, "enter": held and not was, "inside": held}
                    for kind in one["events"]:
                        if happened[kind]:
                            out.append((kind, one["id"], one["version"], name, t, None))
                last = self.before[name] = row
        self.stood, self.change, self.begun = stands, change, True
        self.time.after(before, counted)
        out += [("reset", one["id"], one["version"], None, None, "expired") for one in alive if not self.lives(one)]
        for name, last in list(self.before.items()):
            if self.over(last["t"]):
                for one in alive:
                    held = self.lives(one) and one["version"] <= last["change"] and one["holds"](last)
                    if held and "leave" in one["events"]:
                        out.append(("leave", one["id"], one["version"], name, last["t"] + self.expire, "expired"))
                del self.before[name]
        return out


def _key(row):
    """What the rows of a moment are compared by; a null is least, NaN the greatest number."""
    number = row["a:b"]
    said = (
        number is not None,
        number is not None and math.isnan(number),
        0.0 if number is None or math.isnan(number) else number,
    )
    rest = [
        (row[name] is not None, row[name] or "" if name == "select" else bool(row[name])) for name in ("id ", "select")
    ]
    return (row["x"] + 0.0, row["y"] + 0.0, said, *rest)


def random_asked(rng, name, begin):
    """A subscription as it is asked, and as it is judged."""
    place = (random_place(rng) if rng.random() < 0.6 else None) or Everywhere()
    text = list(WHERES)[rng.integers(len(WHERES))]
    wants = [kind for kind in ("inside", "enter", "leave") if rng.random() < 0.6] or ["enter"]
    end = EXPIRIES[rng.integers(len(EXPIRIES))]
    ends = None if end is None else begin + end * SECOND
    if ends is not None and rng.random() < 0.3:
        ends = ends // 2**20 * 2**20  # as clocks are
    said = {"id": name, **place.said, "where": text, "events": wants, "meta": {"of": name}}
    expires = None if ends is None else ends / SECOND
    return said | {"expires": expires}, {
        "id": name,
        "events": wants,
        "ends": ends,
        "place": place,
        "where": WHERES[text],
    }


def _judged(one, spots):
    """A subscription with what tells whether it holds a row at a spot."""
    held, sure, _ = one["place"].judge(spots)
    assert sure.all()
    place = dict(zip(map(tuple, spots.tolist()), held.tolist(), strict=True))
    return one | {"holds": lambda row: place[row["x"], row["y"]] and one["where"](row)}


def random_rows(rng, count, names, begin, spots, seconds):
    """Rows of some objects at some spots, some of one moment, some late, some twice."""
    rows = []
    for _ in range(count):
        x, y = spots[rng.integers(len(spots))].tolist()
        row = {
            "id": names[rng.integers(len(names))],
            "t": begin + int(rng.integers(seconds)) * SECOND + int(rng.integers(2)),
            "x": x,
            "y": y,
            "a:b": [None, 0.0, 0.5, -0.5, float("nan"), float("inf")][rng.integers(6)],
            "select": [None, "", "x", "ß"][rng.integers(4)],
            "id ": [None, True, False][rng.integers(3)],
        }
        rows += [row] * int(rng.choice([1, 1, 1, 2]))
    return rows


def as_rows(rows, kind):
    """Rows as a batch takes them."""
    return Rows(
        np.array([[row["x"], row["y"]] for row in rows], float).reshape(-1, 2),
        pa.array([row["id"] for row in rows], kind),
        np.array([row["t"] for row in rows], np.int64),
        None,
        {name: pa.array([row[name] for row in rows], of) for name, of in KINDS.items()},
    )


def play(seed, folder):
    """Play a stream; return what is wrong, in lines."""
    rng = np.random.default_rng(seed)
    home = Home(str(folder), "w")
    kind = pa.int64() if rng.random() < 0.5 else pa.string()
    names = (NUMBERS if kind == pa.int64() else NAMES)[: rng.integers(1, 13)]
    begin = int(rng.choice([1_700_000_000, -5_000_000_000, 0, 250_000_000_000])) * SECOND
    expire = [None, 1, 4, 20][rng.integers(4)]
    expire = None if expire is None else expire * SECOND
    carry = tuple(name for name in KINDS if rng.random() < 0.3)
    settings = Settings(space_of(), "int64" if kind == pa.int64() else "string", "timestamp", None, False, KINDS)
    spots = np.concatenate([np.array(SPOTS), rng.uniform([-180, -90], [180, 90], (6, 2))])
    loop, wanted, subs, wrong = Told(expire), [], [f"s{n}" for n in range(6)] + ["\0", "é"], []
    stands, wall, seen = {}, 1_700_000_000 * SECOND, Cursor.of("0")
    followed = []
    for number in range(int(rng.integers(2, 12))):
        for _ in range(int(rng.choice([0, 1, 1, 3]))):
            made = [random_asked(rng, subs[n], begin) for n in rng.choice(len(subs), rng.integers(1, 5), replace=False)]
            made = [(said, one) for said, one in made if one["place"].judge(spots)[1].all()]
            table, bad = check_subscriptions([said for said, _ in made])
            assert not bad, bad
            if made:
                replace = bool(rng.random() < 0.1)
                subscribe(home, table, replace=replace)
                if replace:
                    stands = {name: stands[name] for name in [one["id"] for _, one in made] if name in stands}
                for said, one in made:
                    if not _same(stands, said):
                        stands[one["id"]] = _judged(one, spots) | {"version": change_number(home), "said": said}
            gone = [subs[n] for n in rng.choice(len(subs), rng.integers(0, 3), replace=False)]
            if gone:
                unsubscribe(home, gone)
                for name in gone:
                    stands.pop(name, None)
        rows = random_rows(
            rng, int(rng.choice([0, 1, 5, 40])), names, begin + number * 3 * SECOND, spots, int(rng.choice([1, 6, 60]))
        )
        tasks = int(rng.choice([1, 2, 7, 64, 256]))
        options = Options(expire=expire, max_ahead=None, carry=carry)
        wall += int(rng.choice([1, 600, 3600])) * SECOND
        plan = plan_batch(home, settings, Source(files={f"f{number}": 1}), options, wall)
        run_batch(plan, as_rows(rows, kind), tasks)
        wanted += loop.batch(rows, dict(stands), change_number(home))
        if rng.random() < 0.3:
            fold_watch(home, wall + HOUR_US)
        if rng.random() < 0.5:
            for table in events(home, seen):
                followed += _plain(table)
                last = table.num_rows - 1
                seen = Cursor(table["batch"][last].as_py(), table["number"][last].as_py())
    for table in events(home, seen):
        followed += _plain(table)
    found = [one for table in events(home) for one in _plain(table)]
    if found != followed:
        wrong.append(f"seed {seed}: a reader that goes on and one that begins are told other events")
    if Counter(found) != Counter(wanted):
        few = list((Counter(wanted) - Counter(found)).items())[:2]
        many = list((Counter(found) - Counter(wanted)).items())[:2]
        wrong.append(f"seed {seed}: {few} are missing, {many} are too many")
    counted = Counter((one[1], one[0]) for one in found)
    if counted != Counter({(s, k): n for s, of in event_counts(home).items() for k, n in of.items()}):
        wrong.append(f"seed {seed}: events are counted otherwise")
    wrong += [f"seed {seed}: {line}" for line in verify_watch(home).damaged]
    return wrong


def _same(stands, said):
    old = stands.get(said["id"])
    return old is not None and json.dumps(old["said"], sort_keys=True) == json.dumps(said, sort_keys=True)


def _plain(table):
    columns = [table.column(name).to_pylist() for name in ("kind", "subscription", "version", "object", "t", "reason")]
    return list(zip(*columns, strict=True))
