"""Sources that are killed, replayed, reordered and doubled: a store, a watch and windows are as if each row came once.

``python -m tests.pipelines.command.source_kills 100`` kills so often for each source. A stream of Redis or a topic of
MQTT gives rows in another order, some again and again. ``dtoss ingest``, the broker, or who writes the log is killed at
any moment, and groups are set back or forgotten. What was sealed is then read as any files, beside one file that holds
each row once.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import closing, suppress
from pathlib import Path

import dtoss
from dtoss.log.log_reader import log_schema
from dtoss.log.log_writer import LogWriter
from tests.dtoss.serve.processes.fresh_server import fresh_server
from tests.pipelines.command.watch.deliver_kills import broker_of

WAYS = ("redis", "mqtt")
OBJECTS, EACH = 12, 40
"""Objects, and rows that are sent between two kills."""
AGAIN = 0.3
"""The share of rows that are sent once more, of all that were sent before."""
LONGEST_SECONDS = 2.0
"""From the start of a reader to its end, where it is not seen at work."""
FENCES = [
    {"id": "round", "circle": [8.5, 50.5, 30_000], "events": ["enter", "leave", "cross"]},
    {"id": "long", "box": [8.2, 50.2, 8.8, 50.8], "events": ["dwell", "inside"], "dwell": {"seconds": 60}},
    {"id": "two", "near": {"metres": 20_000}, "events": ["enter", "leave"]},
]


def rows_of(rng: random.Random, count: int) -> list[dict]:
    """Rows of objects that wander, in the order of time; each object has a row a moment at most."""
    begin, at = int(time.time()) - 10 * count, dict.fromkeys(range(OBJECTS), (8.5, 50.5))
    made = []
    for turn in range(count):
        id = rng.randrange(OBJECTS)
        at[id] = tuple(round(value + rng.uniform(-0.1, 0.1), 6) for value in at[id])
        made.append({"id": id, "lon": at[id][0], "lat": at[id][1], "t": begin + 10 * turn})
    return made


class Redis:
    """A stream."""

    def __init__(self, broker):
        from redis import Redis as Client

        self.client, self.url = (
            Client("127.0.0.1", broker.port),
            f"redis://127.0.0.1:{broker.port}/0?stream=rows&field=row",
        )

    def send(self, rows):
        with self.client.pipeline() as pipe:
            for row in rows:
                pipe.xadd("rows", {"row": json.dumps(row)})
            pipe.execute()

    def forget(self, rng):
        with suppress(Exception):
            if rng.random() < 0.5:
                self.client.xgroup_destroy("rows", "dtoss")
            else:
                self.client.xgroup_setid("rows", "dtoss", "0")


class Mqtt:
    """A topic."""

    def __init__(self, broker):
        import paho.mqtt.client as paho

        self.client, self.url = paho.Client(paho.CallbackAPIVersion.VERSION2), f"mqtt://127.0.0.1:{broker.port}/rows"
        self.client.connect("127.0.0.1", broker.port)
        self.client.loop_start()

    def send(self, rows):
        while not self.client.is_connected():
            time.sleep(0.01)
        for one in [self.client.publish("rows", json.dumps(row), qos=1) for row in rows]:
            one.wait_for_publish(60)

    def forget(self, rng):
        """A session is all that a broker has."""


def reader_of(source, server, *words):
    """A process that takes rows."""
    to = f"http://127.0.0.1:{server.server.port}"
    line = [sys.executable, "-m", "dtoss", "ingest", "--from", source.url, "--to", to, *words]
    return subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def once(source, server):
    """What a reader says that takes all there is."""
    with reader_of(source, server, "--once", "--patience", "60s") as process:
        out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    return out


def killed(source, broker, server, rows, rng, kills):
    """Send all rows, and kill so many times; who was killed how often."""
    count, sent, log = Counter(), [], server.path / "in"

    def size():
        return sum(one.stat().st_size for one in log.rglob("*") if one.is_file())

    who = ["reader", "reader", "log", "broker"] + (["group"] if isinstance(source, Redis) else [])
    for turn in range(kills):
        fresh = rows[turn * EACH : (turn + 1) * EACH]
        again = rng.choices(sent or fresh, k=int(EACH * AGAIN))
        sent += fresh
        some = [*fresh, *again]
        rng.shuffle(some)
        source.send(some[: EACH // 2])
        process, before = reader_of(source, server), size()
        source.send(some[EACH // 2 :])
        ends = time.monotonic() + 20
        if turn % 2:
            while size() == before and time.monotonic() < ends:
                time.sleep(0.002)
            time.sleep(rng.uniform(0, 0.02))
        else:
            time.sleep(rng.uniform(0, LONGEST_SECONDS))
        one = rng.choice(who)
        if one == "log":
            server.kill_writer()
            time.sleep(rng.uniform(0, 0.5))
        elif one == "broker":
            broker.restart()
        process.kill()
        process.communicate(timeout=60)
        if one == "group":
            source.forget(rng)
        count[one] += 1
    return count


def answers(folder, store, name, since):
    """What a watch and windows say of the rows of a folder."""

    def run(*words):
        line = [sys.executable, "-m", "dtoss", *map(str, words), "--store", str(store)]
        subprocess.run(line, check=True, capture_output=True)

    fences = folder.parent / "fences.jsonl"
    fences.write_text("".join(json.dumps(one) + "\n" for one in FENCES))
    run("subscribe", fences, "--watch", name)
    run("watch", folder, "--watch", name, "--once", "--time", "t", "--expire", "2h")
    events = [{key: value for key, value in one.items() if key not in ("id", "batch")}
              for one in dtoss.events(str(store), watch=name)]  # fmt: skip
    run("windows", "run", folder, "--name", name, "--lengths", "5min,1h", "--measures", "rows,objects,here,flow,speed",
        "--once", "--time", "t")  # fmt: skip
    windows = dtoss.open_windows(str(store), name)
    return events, windows.wide_between(since).to_pylist(), windows.flow(window="1h").to_pylist()


def round_of(folder: Path, way: str, kills: int, seed: int):
    """Kill a source of its own, and hold what the log has to each row once; who was killed, and rows told and sent."""
    rng = random.Random(seed)
    rows = rows_of(rng, kills * EACH)
    first = {"id": [], "lon": [], "lat": [], "t": []}
    for id in range(100, 140):  # by whose partitions windows count
        for name, value in zip(first, (id, rng.uniform(8, 9), rng.uniform(50, 51), rows[0]["t"] - 1), strict=True):
            first[name].append(value)
    broker = broker_of(way, folder)
    with fresh_server(folder, first, partitions=4) as server, closing(broker):
        source = {"redis": Redis, "mqtt": Mqtt}[way](broker)
        once(source, server)  # from now on a broker keeps rows
        count = killed(source, broker, server, rows, rng, kills)
        while once(source, server) != "no rows\n":
            pass
        last = {row["id"]: [row["lon"], row["lat"]] for row in rows}
        found = server.until(
            lambda: server.ask("/box?west=-180&south=-90&east=180&north=90&columns=lon,lat"),
            lambda said: {one["id"]: [one["lon"], one["lat"]] for one in said["hits"] if one["id"] < 100} == last,
        )
        assert len(found["hits"]) == len(last) + len(first["id"])
        assert server.server.stop()[0] == 0
    log = LogWriter.open(folder / "in", log_schema(server.store.manifest()), warn=lambda _: None)
    log.seal()
    told = log.next - 1
    log.close()
    (folder / "clean").mkdir()
    (folder / "clean" / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    clean, mine = (answers(folder / name, folder / "store", name, rows[0]["t"]) for name in ("clean", "in"))
    assert clean[0] == mine[0], "other events"
    assert clean[1:] == mine[1:], "other windows"
    return count, told, len(rows), len(clean[0])


if __name__ == "__main__":
    wanted = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    for number, way in enumerate(sys.argv[2:] or WAYS):
        with tempfile.TemporaryDirectory() as place:
            count, told, rows, events = round_of(Path(place), way, wanted, number)
            print(f"{way}: {dict(count)} killed, {rows:,} rows told {told:,} times, {events:,} events as of each once")
