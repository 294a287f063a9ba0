"""What a release leaves behind, small: run by the Python of that release, in an empty folder.

    PYTHON tests/samples/older_release.py OUT.tar.xz

A store with snapshots, a watch, windows and live patterns, a history, a plan, and what its servers say to each other.
`tests/samples/README.md` says which release made the file that is kept, and which tests read it.
"""

from __future__ import annotations

import base64
import json
import os
import socket
import subprocess
import sys
import tarfile
import time
import urllib.error
import urllib.request
from datetime import date, timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

DTOSS = [sys.executable, "-m", "dtoss"]
BEGIN = 1_780_000_000
ZONE = {"type": "Polygon", "coordinates": [[[8.1, 50.0], [8.4, 50.02], [8.3, 50.2], [8.1, 50.0]]]}
FENCES = [
    {"id": "circle", "circle": [8.2, 50.1, 9_000], "events": ["enter", "leave", "inside"]},
    {"id": "box", "box": [8.0, 50.0, 8.1, 50.2], "events": ["enter", "leave"], "where": "speed > 3"},
    {"id": "zone", "polygon": ZONE, "events": ["enter", "leave"]},
    {"id": "friend", "around": {"object": 3, "metres": 8_000}, "events": ["inside"]},
    {"id": "ends", "circle": [8.1, 50.1, 20_000], "expires": BEGIN + 1_500, "events": ["enter"]},
]  # fmt: skip
ZONES = {"type": "FeatureCollection", "features": [{"type": "Feature", "properties": {}, "geometry": ZONE}]}


def rows_of(number: int) -> str:
    """Return a file of updates: moves of 40 objects in ten minutes, some late, repeated, deleted and of no use."""
    rng = np.random.default_rng(number)
    lines = ["id,t,lon,lat,speed,gone"]
    for at in range(150):
        one, t = int(rng.integers(40)), BEGIN + 600 * number + 4 * at - int(rng.choice([0, 0, 0, 700]))
        lon, lat = rng.uniform([8.0, 50.0], [8.4, 50.2]).round(5)
        lines.append(f"{one},{t},{lon},{lat},{round(float(rng.uniform(0, 9)), 1)},{str(rng.random() < 0.03).lower()}")
    return "\n".join([*lines, lines[7], f"5,{BEGIN},nothing,50,1,false", ""])


def run(*words: str) -> None:
    """Run a command."""
    print("dtoss", *words, flush=True)
    subprocess.run([*DTOSS, *words], check=True)


LOOP = (
    "run", "--updates", "updates", "--store", "store", "--cycles", "1", "--time", "t", "--deleted", "gone",
    "--clock", "data", "--expire", "20min", "--max-ahead", "off", "--partitions", "4", "--history", "history",
    "--windows", "fleet.toml", "--windows", "zones.toml",
)  # fmt: skip
WATCH = (
    "watch", "updates", "--store", "store", "--once", "--max-ahead", "off", "--expire", "15min", "--carry", "speed",
)  # fmt: skip


def beat(*files: int) -> None:
    """Let files arrive and be read by the loop and the watch."""
    for number in files:
        path = Path("updates") / f"{number}.csv"
        path.write_text(rows_of(number))
        os.utime(path, (BEGIN, BEGIN + number))
        run(*LOOP)
        run(*WATCH)


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


def asked(url: str, body: bytes | None = None) -> tuple[int, bytes]:
    """Return the status and body of an answer."""
    try:
        with urllib.request.urlopen(urllib.request.Request(url, body), timeout=60) as reply:
            return reply.status, reply.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def heard() -> dict[str, object]:
    """Return messages of one server of a plan to another one, and its answers, in the words of this release."""
    import dtoss
    from dtoss.kinds.kind import Search, Shapes
    from dtoss.kinds.shapes import question_of_shapes
    from dtoss.serve.cluster.wire_messages import ObjectQuestion, pack_question
    from dtoss.serve.requests.bundles import packed_bundle, packed_group
    from dtoss.shards.merge_answers import AT_HOMES, BY_SHARES, COUNTED_BY_SHARES, PART_STEPS, ShareQuestion

    ports = [free_port(), free_port()]
    Path("peers.toml").write_text("".join(f'{n} = "http://127.0.0.1:{port}"\n' for n, port in enumerate(ports)))
    url = f"http://127.0.0.1:{ports[0]}"
    words = ("serve", "--store", "store", "--plan", "plan.json", "--server", "0", "--peers", "peers.toml")
    server = subprocess.Popen([*DTOSS, *words, "--port", str(ports[0])], stderr=subprocess.DEVNULL)
    try:
        for _ in range(600):
            try:
                ready = json.loads(asked(url + "/readyz")[1])
                break
            except (OSError, ValueError):
                time.sleep(0.2)
        snapshot, mine, index = ready["snapshot"], tuple(ready["held"]), dtoss.open("store")
        for at in range(40):
            lon, lat = index.parts[mine[at % 2]].positions[at % 5]
            assert asked(f"{url}/knn?lon={lon}&lat={lat}&k=1")[0] == 200
        places = np.array([[8.1, 50.1], [8.3, 50.05], [8.2, 50.19], [179.9, -60.0]])
        far = np.array([9_000.0, np.inf, 4_000.0, 1e7])
        nearest, within = (
            Search(places, far, 5, None, ("speed", "lon"), "speed < 7"),
            Search(places, far, 0, "speed > 2"),
        )
        homes = [row for row in range(len(places)) if asked_home(url, places[row])]
        zone = json.dumps(ZONE).encode()

        def in_shapes(form: str, text: bytes, count: bool, *said: Any) -> ShareQuestion:
            asked = question_of_shapes(Shapes(form, text), 1000, count, *said)
            return ShareQuestion(PART_STEPS["shapes"], asked, mine)

        questions = {
            "homes": ShareQuestion(AT_HOMES, nearest.take(np.array(homes, np.int64)), mine),
            "hits": ShareQuestion(BY_SHARES, within, mine),
            "numbers": ShareQuestion(COUNTED_BY_SHARES, within, mine),
            "nearest to": ShareQuestion(PART_STEPS["reverse_nearest"], Search(places, np.zeros(0), 0), mine),
            "box": in_shapes("box", b"[8.0,50.0,8.3,50.1]", False, None, None, ("speed",)),
            "within": in_shapes("within", zone, False, "speed > 1", "speed < 8", ()),
            "within, counted": in_shapes("within", zone, True, None, None, ()),
            "object": ObjectQuestion(str(index.parts[mine[0]].ids[0]), False, True, True, False),
            "no object": ObjectQuestion("999", False, False, False, False),
            "not held": ShareQuestion(BY_SHARES, within, (0, 1, 2, 3)),
        }
        said = {name: ("/partial", pack_question(one, snapshot, 20.0)) for name, one in questions.items()}
        said["gone"] = ("/partial", pack_question(questions["hits"], "20200101T000000.000000Z", 20.0))
        first = packed_group(True, 8, None, places, far, [1, 8, 3, 2])
        some = packed_group(False, 32, "speed > 2", places, far, [0] * 4)
        said["turn"] = ("/forward", packed_bundle(snapshot, [first, some]))
        found = {name: (route, body, *asked(url + route, body)) for name, (route, body) in said.items()}
    finally:
        server.terminate()
        server.wait(60)
    return {
        "snapshot": snapshot, "ready": ready,
        "said": {
            name: {"route": route, "asked": base64.b64encode(body).decode(), "status": status,
                   "answer": base64.b64encode(answer).decode()}
            for name, (route, body, status, answer) in found.items()
        },
    }  # fmt: skip


def asked_home(url: str, place: np.ndarray) -> bool:
    """Return whether a server holds the home of a place, by what it answers alone."""
    from dtoss.kinds.kind import Search
    from dtoss.serve.cluster.wire_messages import pack_question
    from dtoss.shards.merge_answers import AT_HOMES, ShareQuestion

    snapshot = json.loads(asked(url + "/readyz")[1])["snapshot"]
    question = ShareQuestion(AT_HOMES, Search(place[None], np.array([1.0]), 1), ())
    return asked(url + "/partial", pack_question(question, snapshot, 20.0))[0] == 200


def write_plan() -> None:
    """Write a plan of two servers."""
    from dtoss.snapshots.store import Store

    said = {
        "kind": "ceps plan", "format": 1, "pivots_hash": Store("store").manifest()["pivots_hash"], "cost_per_day": 1.0,
        "server_types": [{"name": "one", "requests_per_second": 1000.0}],
        "servers": [{"server": n, "type": "one", "dollars_per_hour": 0.1, "spare": False} for n in range(2)],
        "partitions": [0, 1, 2, 3], "replicas": [[0], [0], [1], [1]],
    }  # fmt: skip
    Path("plan.json").write_text(json.dumps(said))


def main(out: str) -> None:
    """Write all of it, and pack it."""
    Path("updates").mkdir()
    Path("zones.geojson").write_text(json.dumps(ZONES))
    text = 'name = "{}"\nlengths = ["2min", "10min"]\nslide = "2min"\nlate = "15min"\nby = "{}"\nmeasures = "{}"\n'
    Path("fleet.toml").write_text(text.format("fleet", "partition", "rows,objects,here,flow,speed"))
    Path("zones.toml").write_text(text.format("zones", "polygons:zones.geojson", "rows,objects,arrivals,departures"))
    Path("fences.jsonl").write_text("".join(json.dumps(one) + "\n" for one in FENCES))
    run("subscribe", "fences.jsonl", "--store", "store")
    beat(0, 1)
    write_plan()
    if find_spec("dtoss.kinds"):  # servers of before that spoke in other words
        Path("wire.json").write_text(json.dumps(heard()))
        until = str(date.today() + timedelta(1))
        run("patterns", "--live", "--store", "store", "--out", "live.parquet", "--until", until)
    run("verify", "--store", "store", "--watch")
    with tarfile.open(out, "w:xz") as packed:
        for path in sorted(Path().iterdir()):
            packed.add(path)


if __name__ == "__main__":
    main(sys.argv[1])
