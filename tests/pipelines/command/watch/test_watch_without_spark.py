"""Where neither pyspark nor pandas is installed: subscribing, watching, reading events, and asking in Python."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from dtoss.watch.watch_folder import Home
from tests.dtoss.watch.events.made import batch_of, event

ROOT = Path(__file__).parents[4]
BLOCKED = """
import sys

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("pyspark", "py4j", "pandas", "geopandas", "polars", "orjson"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Blocker())
import dtoss
from pipelines.command.main import main

asked, store = sys.argv[1:]
for line in sys.stdin.read().splitlines():
    try:
        main(line.replace("ASKED", asked).replace("STORE", store).split(" "))
    except SystemExit as end:
        print("->", end.code or 0, flush=True)
watch = dtoss.subscriptions([{"id": "box", "box": [7.0, 49.0, 9.0, 51.0], "where": "speed > 1", "events": ["enter"]}])
rows = {"id": [1], "lon": [8.0], "lat": [50.0], "speed": [2.0], "t": [0]}
print(watch.match(rows).row.tolist(), watch.events(None, rows)["kind"].to_pylist())
print(next(dtoss.events(store))["subscription"])
"""
COMMANDS = """\
subscribe ASKED --store STORE
subscriptions --store STORE --json
events --store STORE --kind enter
events --store STORE --as me
unsubscribe 7 --store STORE
verify --store STORE --watch
watch ASKED.csv --store STORE --watch files --once
windows run ASKED.csv --store STORE --name w --by sites:ASKED.csv --lengths 1min --once
watch ASKED.csv --store STORE --once --engine spark"""


def test_watching_needs_no_spark(tmp_path):
    """In one process; who asks for Spark is told what is missing, in one line."""
    (tmp_path / "a").mkdir()
    asked = tmp_path / "a" / "a.jsonl"
    asked.write_text('{"id": 7, "circle": [8, 50, 100], "meta": [1]}\n{"id": 8, "where": "speed > 3"}\n')
    (tmp_path / "a" / "a.jsonl.csv").write_text("id,lon,lat,t\n1,2,3,60\n")
    store = tmp_path / "store"
    home = Home(str(store))
    home.folder.make()
    batch_of(home, [[], [event("8", "enter", 3)]])
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", BLOCKED, str(asked), str(store)],
        cwd=ROOT, capture_output=True, text=True, timeout=300, check=False, input=COMMANDS,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    out = done.stdout.splitlines()
    assert [line for line in out if line.startswith("-> ")] == ["-> 0"] * 8 + ["-> 2"], done.stderr
    assert out[-2:] == ["[0] ['enter']", "8"]
    assert json.loads(next(line for line in out if line.startswith('{"id":"')))["object"] == 3
    assert "error: this needs Spark: pip install 'dtoss[spark]'" in done.stderr.splitlines()
