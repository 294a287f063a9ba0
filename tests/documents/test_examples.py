"""Each example of the README and of docs/ runs, and prints what stands below it.

A page's blocks run in their order in one namespace and one folder, so that a reader can copy them one after the other.
What a page takes for granted (files of the reader's, an index) is made by its function in ``GIVEN``.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import json
import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
import tarfile
import time
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shapely

import dtoss
from pipelines.command.main import main
from tests.dtoss.serve.processes.started import started
from tests.dtoss.snapshots.damaged_stores import stored
from tests.pipelines.stores import made

ROOT = Path(__file__).resolve().parents[2]
PAGES = ["README.md", *sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs").glob("*.md"))]
SHELLS = ("", "sh", "bash", "console", "shell")
SHOWN_URL = "http://127.0.0.1:8080"
"""Of a server, as pages have it."""
IN_PROCESS = ("dtoss ", "python -m datasets.")
COMMANDS = ("dtoss", "curl")
"""Who is told what to type with one of these is shown an example."""

WHOLE = "docs/tutorial.md"
"""A page of which all is run that is typed, but how dtoss is installed."""

DEMO = "serves what `make demo` makes, a million objects; tests/dtoss/serve serves small ones"
FOLDER = "Spark was started in another folder, where it looks for such files; tests/pipelines/sql runs the like"
CONSUMER = "a program of its own; tests/pipelines/command/watch/test_reader_examples.py runs it"
NOT_RUN = {
    ("README.md", "pip install '.[serve]'"): "the same on the way of the tutorial, which runs; the loop goes on",
    ("docs/tutorial.md", "pip install '.[serve]'"): "it is installed",
    ("docs/erasure.md", "dtoss serve --store taxis --log-places"): "tests/dtoss/serve/test_accesses.py rounds places",
    ("docs/renting.md", "dtoss patterns --live --store STORE --out usual.parquet --every"): "goes on and on",
    ("docs/renting.md", "dtoss patterns accesses/*.parquet --store STORE"): "calibrates a server for minutes",
    ("docs/map.md", "dtoss serve --store demo/store"): DEMO,
    ("docs/map.md", "dtoss serve --basemap city.pmtiles"): "a file and a host of yours; test_basemap.py has made ones",
    ("docs/operating.md", "mkdir -p arriving secrets"): "containers; test_operating.py runs what is in them",
    ("docs/sql.md", "frame = spark.read.format"): FOLDER,
    ("docs/sql.md", "$ cat near.sql"): FOLDER,
    ("docs/serve.md", 'index = dtoss.connect("http://127.0.0.1:8080", token="...")'): DEMO,
    ("docs/serve.md", 'for event in dtoss.connect("http://127.0.0.1:8080").events(after=last_id):'): "it does not end",
    ("docs/watch.md", "# consume.py"): CONSUMER,
    ("docs/watch.md", "# acknowledge.py"): CONSUMER,
    (
        "docs/deliver.md",
        "$ dtoss deliver --store taxis --as billing --to",
    ): "hosts of yours; test_deliver.py has some",
    ("docs/deliver.md", "$ dtoss deliver --store taxis --as billing --for"): "the same",
    ("docs/deliver.md", "# receive.py"): "a program of its own; tests/pipelines/command/watch/test_deliver.py runs it",
    ("docs/windows.md", "dtoss run --updates arriving"): "it goes on; tests/pipelines/jobs/test_run_windows.py ends",
}
"""What cannot run here, by the page and how it begins, and why."""

ELSEWHERE = {
    "docs/backup.md": "tests/pipelines/jobs/test_backup.py",
    "docs/clients.md": "tests/documents/test_clients.py",
    "docs/cycles.md": "tests/pipelines/cycles/test_document.py",
    "docs/features.md": "tests/dtoss/serve/ogc/test_gdal.py",
    "docs/fresh.md": "tests/dtoss/serve/test_document.py",
    "docs/ingest.md": "tests/pipelines/command/test_ingest.py",
    "docs/serve.md": "tests/dtoss/serve/test_document.py",
}
"""Pages whose examples a test of their own runs."""

OUTPUT = doctest.OutputChecker()
FREE = (
    (r"\d{8}T\d{6}\.\d{6}Z", "SNAPSHOT"),
    (r"\b\d+(\.\d+)? ?(s|ms|seconds)\b", "TIME"),
    (r"[ \t]+$", ""),
)
"""What differs from run to run, and what all of it is called when two outputs are compared."""


@dataclass(frozen=True)
class Example:
    """A block of code of a page, and what is shown below it: None where nothing is."""

    page: str
    line: int
    kind: str
    code: str
    shown: str | None

    @property
    def first(self):
        return self.code.splitlines()[0]


def blocks_of(page, text):
    """All examples of a page: Python, and what is typed into a shell."""
    found = list(re.finditer(r"^```(\w*)[^\n]*\n(.*?)^```$", text, re.MULTILINE | re.DOTALL))
    for number, block in enumerate(found):
        language, code = block.groups()
        following = found[number + 1] if number + 1 < len(found) else None
        shown = None
        if following and following[1] == "text" and not text[block.end() : following.start()].strip():
            shown = following[2]
        typed = [line.removeprefix("$ ") for line in code.splitlines()]
        if language == "python":
            yield Example(page, text.count("\n", 0, block.start()) + 2, "python", code, shown)
        elif language in SHELLS and (page == WHOLE or any(line.split(" ")[0] in COMMANDS for line in typed)):
            yield Example(page, text.count("\n", 0, block.start()) + 2, "shell", code, shown)


def examples(page):
    return list(blocks_of(page, (ROOT / page).read_text(encoding="utf-8")))


def is_listed(example):
    return any(page == example.page and example.code.startswith(begin) for page, begin in NOT_RUN)


def runs(page):
    """The examples of a page that run here."""
    return [] if page in ELSEWHERE else [example for example in examples(page) if not is_listed(example)]


def needs_spark(page):
    commands = r"spark|pipelines\.(?!rebuild|cycle)|dtoss sql"
    return any(re.search(commands, one.code) for one in runs(page))


def same(said, shown):
    """Whether an output is what a page shows: ``...`` stands for anything, as in a doctest."""
    for pattern, name in FREE:
        said, shown = (re.sub(pattern, name, text, flags=re.MULTILINE) for text in (said, shown))
    return OUTPUT.check_output(shown.rstrip() + "\n", said.rstrip() + "\n", doctest.ELLIPSIS)


def typed_and_shown(code):
    """Yield each command of a shell's block and the lines below it; all lines are commands where none begins with $."""
    lines = re.sub(r"\\\n\s*", "", code).splitlines()
    if not any(line.startswith("$ ") for line in lines):
        lines = [f"$ {line}" for line in lines if line.strip()]
    starts = [at for at, line in enumerate(lines) if line.startswith("$ ")]
    for at, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        yield lines[at][2:], "\n".join(lines[at + 1 : end])


def words_of(command):
    """The words of a command as a shell has them, without its comment; files that it names from the root.

    Spark's Java works in another folder than a test does.
    """
    words = []
    for word in shlex.split(command, comments=True):
        there = [str(path) for path in sorted(Path.cwd().glob(word))] if "*" in word else []
        is_path = bool(words) and words[-1] in ("--store", "--out", "--updates") and "://" not in word
        words += there or [str(Path(word).absolute()) if is_path or Path(word).exists() else word]
    return words


def run_here(words):
    """Run ``dtoss``, or ``python -m`` a module, until it exits."""
    if words[0] == "dtoss":
        main(words[1:])
    argv, sys.argv = sys.argv, words[2:]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # what has been imported here is run once more
            runpy.run_module(words[2], run_name="__main__")
    finally:
        sys.argv = argv


def typed(command, servers):
    """What a command prints to stdout; ours run in this process, what stands behind a pipe in a shell.

    A server stays, on a port that is free, until the page ends.
    """
    if command.startswith("dtoss serve "):
        return servers.start(words_of(command)[1:])
    command = command.replace(SHOWN_URL, servers.url)
    if not command.startswith(IN_PROCESS):
        python = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        ours = os.environ | {"PATH": python, "PYTHONPATH": str(ROOT)}
        return subprocess.run(
            command, shell=True, capture_output=True, text=True, check=True, timeout=60, env=ours
        ).stdout
    command, pipe, behind = command.partition(" | ")
    command, _, file = command.partition(" > ")
    words = words_of(command)
    out = io.StringIO()
    with contextlib.redirect_stdout(out), pytest.raises(SystemExit) as done:
        run_here(words)
    assert done.value.code in (0, None), command
    said = out.getvalue().replace(f"{Path.cwd()}/", "")
    if file:
        Path(file).write_text(said, encoding="utf-8")
        return ""
    if pipe:
        said = subprocess.run(behind, shell=True, input=said, capture_output=True, text=True, check=True).stdout
    return said


class Servers:
    """The server that a page has started, if it has; it goes with the page."""

    def __init__(self):
        self.url, self.stack = SHOWN_URL, contextlib.ExitStack()

    def start(self, words):
        """Start one on a port that is free; return what it says, as if that were the port of the pages."""
        self.stack.close()
        command = ("-c", "from pipelines.command.main import main; main()", *words, "--port", "0")
        process = self.stack.enter_context(started(*command, ready=r"^serving .* on http://127.0.0.1:(\d+)$"))
        (said,) = process.until("^serving ")
        self.url = f"http://127.0.0.1:{process.port}"
        return said.replace(self.url, SHOWN_URL).replace(f"{Path.cwd()}/", "") + "\n"


def run(example, names, servers):
    """Run an example in a namespace and compare what it prints."""
    where = f"{example.page}, line {example.line}"
    if example.kind == "python":
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(
                compile(
                    "\n" * (example.line - 1) + example.code.replace(SHOWN_URL, servers.url),
                    ROOT / example.page,
                    "exec",
                ),
                names,
            )
        said = out.getvalue()
        assert same(said, example.shown or ""), f"{where} prints\n{said}"
        return
    said = ""
    for command, shown in typed_and_shown(example.code):
        printed = typed(command, servers)
        said += printed
        assert not shown or same(printed, shown), f"{where}: {command} prints\n{printed}"
    assert example.shown is None or same(said, example.shown), f"{where} prints\n{said}"


FENCES = (
    {"id": "station", "circle": [-122.41, 37.78, 400], "where": "occupied = 0", "events": ["enter", "leave"]},
    {"id": "old town", "box": [-122.43, 37.77, -122.42, 37.78], "meta": {"tell": "anna"}},
)


def fleet(names, folder):
    """The objects of the README's first example, as files that arrive; how they move; fences."""
    (folder / "positions").mkdir()
    rng = np.random.default_rng(0)
    positions = rng.normal([-122.42, 37.77], 0.05, (10_000, 2))
    columns = {"id": np.arange(10_000), "lon": positions[:, 0], "lat": positions[:, 1]}
    columns["occupied"] = rng.integers(0, 2, 10_000)
    pq.write_table(pa.table(columns), folder / "positions" / "a.parquet")
    (folder / "moves").mkdir()
    first = np.datetime64("2026-05-01T08:00", "us") + np.arange(10_000) * np.timedelta64(1, "s")
    for number, shift in enumerate((0.0, 0.002)):
        t = pa.array(first + number * np.timedelta64(1, "m")).cast(pa.timestamp("us", "UTC"))
        moved = columns | {"lon": columns["lon"] + shift, "t": t}
        pq.write_table(pa.table(moved), folder / "moves" / f"{number}.parquet")
    fences(folder)


def fences(folder):
    (folder / "fences.jsonl").write_text("".join(json.dumps(fence) + "\n" for fence in FENCES))


def watched(names, folder):
    """What the page of watches takes for granted: fences, moves of taxis, messages, a snapshot with a tram in it."""
    fleet(names, folder)
    table = pa.table({"id": np.arange(20), "lon": np.linspace(-122.5, -122.3, 20), "lat": np.full(20, 37.78)})
    made(table, folder / "taxis", partitions=1)
    (folder / "posts").mkdir()
    said = ["Fire at the station!", "a fire drill", "coffee in New York"]
    pq.write_table(pa.table({"lon": [-122.41] * 3, "lat": [37.78] * 3, "body": said}), folder / "posts" / "0.parquet")
    (folder / "ids.txt").write_text("old town\n")
    asked = [{"id": "alarm", "words": "fire and not drill"}, {"id": 2, "words": '"new york"'}]
    (folder / "alarms.jsonl").write_text("".join(json.dumps(one) + "\n" for one in asked))
    gate = {"id": "gate", "circle": [-122.41, 37.78, 60], "events": ["enter", "leave", "cross"]}
    (folder / "gate.jsonl").write_text(json.dumps(gate) + "\n")
    near = {"metres": 50, "where": "occupied = 1"}
    pair = {"id": "met", "where": "occupied = 0", "near": near, "events": ["enter", "leave"]}
    (folder / "near.jsonl").write_text(json.dumps(pair) + "\n")
    names["folder"] = str(folder / "moves")


def counted(names, folder):
    """What the page of windows takes for granted: moves of a fleet, and a store that holds it."""
    fleet(names, folder)
    made(pq.read_table(folder / "positions" / "a.parquet"), folder / "taxis", partitions=8)


def recorded(names, folder):
    """What the page of erasure takes for granted: a store of a fleet, and a history of its moves."""
    fleet(names, folder)
    index = dtoss.build(pq.read_table(folder / "positions" / "a.parquet"), id="id")
    stored(index, str(folder / "taxis"), kinds={"occupied": "bigint"})
    for file in sorted((folder / "moves").iterdir()):
        dtoss.history.append(pq.read_table(file), str(folder / "past"), batch=file.name, id="id")


def patterns(names, folder):
    """Patterns of a fleet, a catalogue, and a store whose two servers have kept a log of two days."""
    import ceps

    a_log(folder / "fleet")
    rng = np.random.default_rng(0)
    hours = np.cos(2 * np.pi * (np.arange(24) - rng.uniform(0, 24, (40, 1))) / 24)
    ceps.write_patterns(folder / "patterns.parquet", ceps.Patterns(loads=100 * (1.1 + hours), sizes=np.full(40, 1e9)))
    (folder / "servers.toml").write_text(
        '[[server]]\nname = "small"\nrequests_per_second = 1000.0\nbytes = 64e9\ndollars_per_hour = 0.1\n'
    )


def a_log(store):
    """A store of two partitions with a log: twelve files, of 30 requests each that stand for more."""
    rng = np.random.default_rng(0)
    places = rng.uniform((2.2, 48.8), (2.4, 48.9), (500, 2))
    stored(dtoss.build(np.arange(500), places, partitions=2), store)
    for number in range(12):
        at, k = places[rng.integers(0, 500, 30)], np.full(30, 8, np.int32)
        begin = np.datetime64(f"2026-03-0{number // 6 + 1}T{8 + number % 6:02d}:15:00", "us")
        table = {
            "t": pa.array(begin + rng.integers(0, 60_000_000, 30), pa.timestamp("us", "UTC")),
            "lon": at[:, 0], "lat": at[:, 1], "k": k, "radius": pa.nulls(30, pa.float64()),
            "weight": np.full(30, 7 + number),
        }  # fmt: skip
        folder = store / "accesses" / str(begin)[:10]
        folder.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table(table), folder / f"{(8 + number % 6) * 12 + 3:03d}-s{number % 2}-0-{number}.parquet")


def queries(names, folder):
    """Places and a store for Spark."""
    fleet(names, folder)
    objects = pq.read_table(folder / "positions" / "a.parquet")
    objects = objects.append_column("kind", pa.array(["taxi"] * len(objects)))
    names["store"] = made(objects, folder / "taxis", partitions=2)
    places = names["spark"].createDataFrame(objects.slice(0, 20))
    names["queries"] = places.selectExpr("id as query_id", "lon", "lat", "100.0 as radius")


def sql(names, folder):
    """A store, places and zones as views of Spark."""
    queries(names, folder)
    names["queries"].createOrReplaceTempView("places")
    square = "POLYGON ((-122.5 37.7, -122.4 37.7, -122.4 37.8, -122.5 37.8, -122.5 37.7))"
    names["spark"].sql(f"SELECT 1 AS query_id, '{square}' AS wkt").createOrReplaceTempView("zones")


def zones(names, folder):
    """A store of four taxis, and zones as a file: those that the page makes first."""
    index = dtoss.build(
        np.arange(1, 5), [[8.2, 50.1], [8.6, 50.1], [8.6, 50.4], [8.9, 50.5]], columns={"speed": np.arange(4)}
    )
    stored(index, str(folder / "taxis"), kinds={"speed": "bigint"})
    shapes = {
        "west": shapely.box(8.0, 50.0, 8.5, 51.0),
        "middle": shapely.box(8.5, 50.0, 8.8, 51.0).difference(shapely.box(8.55, 50.3, 8.65, 50.5)),
        "both": shapely.MultiPolygon([shapely.box(8.0, 50.0, 8.5, 51.0), shapely.box(8.4, 50.0, 8.7, 50.2)]),
        "nowhere": None,
    }
    features = [
        {"type": "Feature", "properties": {"name": name}, "geometry": shape and json.loads(shapely.to_geojson(shape))}
        for name, shape in shapes.items()
    ]
    (folder / "zones.geojson").write_text(json.dumps({"type": "FeatureCollection", "features": features}))


def a_file(names, folder):
    """The file of a partition."""
    with tarfile.open(ROOT / "tests" / "samples" / "format-2.tar.gz") as kept:
        kept.extractall(folder, filter="data")
    names["path"] = str(next(folder.glob("**/partitions/*.arrow")))


def past(names, folder):
    """The page of histories has one, H, and tables of accidents and shifts."""
    from dtoss.history.row_blocks import rows_of
    from tests.dtoss.history.worlds import SPHERE, new_home, put_batch, schema_of

    rng, n, spark = np.random.default_rng(0), 3000, names["spark"]
    times = np.datetime64("2008-05-20T07:00", "us") + rng.integers(0, 6 * 86_400_000_000, n)
    rows = {"id": rng.integers(0, 40, n), "t": pa.array(times).cast(pa.timestamp("us", "UTC"))}
    rows |= {"x": rng.normal(-122.41, 0.01, n), "y": rng.normal(37.78, 0.01, n), "occupied": rng.integers(0, 2, n)}
    schema = schema_of(SPHERE, occupied=pa.int64())
    put_batch(new_home(folder / "H"), rows_of(pa.table(rows), schema), schema, "given")
    more = {
        "id": [1, 2],
        "t": rows["t"].slice(0, 2),
        "lon": [-122.4, -122.41],
        "lat": [37.77, 37.78],
        "occupied": [0, 1],
    }
    pq.write_table(pa.table(more), folder / "fleet.parquet")
    ring = [[-122.42, 37.77], [-122.40, 37.77], [-122.41, 37.79], [-122.42, 37.77]]
    (folder / "corner.geojson").write_text(json.dumps({"type": "Polygon", "coordinates": [ring]}))
    at = [np.datetime64("2008-05-22T12:00", "us").item()] * 2
    places = {"query_id": [1, 2], "lon": [-122.41, -122.4], "lat": [37.78, 37.77]}
    names |= {
        "H": "H",
        "accidents": spark.createDataFrame(pa.table(places | {"at": at})),
        "shifts": spark.createDataFrame(pa.table(places | {"begin": at, "end": at, "radius": [100.0, 500.0]})),
    }


def fleet_of_two(names, folder):
    """A file of positions."""
    (folder / "fleet.csv").write_text("id,lon,lat,t\n1,8.5,47.4,2026-11-01 10:00:00\n2,8.6,47.4,2026-11-01 10:00:00\n")


def cities(names, folder):
    """Lines as GeoNames writes them."""
    shutil.copy(ROOT / "tests" / "samples" / "geonames.txt", folder / "cities15000.txt")


GIVEN = {
    "README.md": fleet,
    "docs/engines.md": fleet_of_two,
    "docs/erasure.md": recorded,
    "docs/format.md": a_file,
    "docs/history.md": past,
    "docs/inputs.md": cities,
    "docs/queries.md": queries,
    "docs/renting.md": patterns,
    "docs/sql.md": sql,
    "docs/watch.md": watched,
    "docs/windows.md": counted,
    "docs/zones.md": zones,
}
"""What makes the files that a page takes for granted."""


def run_page(page, folder, monkeypatch, **names):
    monkeypatch.chdir(folder)
    monkeypatch.setenv("MPLBACKEND", "agg")
    GIVEN.get(page, lambda *_: None)(names, folder)
    servers = Servers()
    with servers.stack:
        for example in runs(page):
            run(example, names, servers)
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


@pytest.mark.parametrize("page", [page for page in PAGES if page != WHOLE and runs(page) and not needs_spark(page)])
def test_examples_run_and_print_what_is_shown(page, tmp_path, monkeypatch):
    run_page(page, tmp_path, monkeypatch)


@pytest.mark.parametrize("page", [page for page in PAGES if page != WHOLE and runs(page) and needs_spark(page)])
def test_examples_in_spark_run_and_print_what_is_shown(spark, page, tmp_path, monkeypatch):
    run_page(page, tmp_path, monkeypatch, spark=spark)


def test_what_is_typed_in_the_tutorial_runs(tmp_path, monkeypatch):
    """All of it, in its order."""
    assert len([None for one in runs(WHOLE) for _ in typed_and_shown(one.code)]) > 20
    run_page(WHOLE, tmp_path, monkeypatch)


ANSWERS = "until curl -s http://127.0.0.1:8080/healthz > health.txt; do sleep 0.2; done"


@pytest.mark.deep("a clone whose kernels are compiled anew; in this process it is always run")
@pytest.mark.timeout(1200)
def test_the_tutorial_runs_in_a_clone(tmp_path):
    """As a user types it, in a shell, with nothing compiled; how long it took is printed."""
    subprocess.run(["git", "clone", "-q", str(ROOT), str(tmp_path / "clone")], check=True, timeout=120)
    lines = [line for one in runs(WHOLE) for line, _ in typed_and_shown(one.code)]
    (serve,) = (at for at, line in enumerate(lines) if line.startswith("dtoss serve "))
    lines[serve] = f"{lines[serve]} > served.txt & server=$!; trap 'kill $server' EXIT; {ANSWERS}"
    python = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    kept = {"NUMBA_CACHE_DIR": str(tmp_path / "compiled"), "PYTHONPATH": str(tmp_path / "clone"), "PATH": python}
    began = time.monotonic()
    done = subprocess.run(
        ["bash", "-euc", "\n".join(lines)], cwd=tmp_path / "clone", env=os.environ | kept,
        capture_output=True, text=True, timeout=1150, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    assert "recommended" in done.stdout
    print(f"the tutorial took {time.monotonic() - began:.0f} s")


def test_the_list_holds_what_is_there():
    """Nothing that does not exist, nothing without a reason; a test of a page's own reads that page."""
    there = [example for page in PAGES for example in examples(page)]
    for (page, begin), reason in NOT_RUN.items():
        matching = [one for one in there if one.page == page and one.code.startswith(begin)]
        assert len(matching) == 1, (page, begin)
        assert reason
    for page, test in ELSEWHERE.items():
        assert examples(page)
        assert Path(page).name in (ROOT / test).read_text(encoding="utf-8"), test


def test_an_example_that_is_wrong_is_found(tmp_path, monkeypatch):
    """One that fails, one that prints something else, one that prints and shows nothing."""
    monkeypatch.chdir(tmp_path)
    page = """
```python
x = [1.0, 2.0]
print(x, "20261122T195221.746038Z")
```

```text
[1.0, ...] 20991122T195221.746038Z
```

```
$ dtoss --version | cut -c 1-5          # a comment
dtoss
```
"""
    good = list(blocks_of("README.md", page))
    assert [(one.kind, one.line) for one in good] == [("python", 3), ("shell", 12)]
    names: dict[str, object] = {}
    for one in good:
        run(one, names, Servers())
    for old, new in (
        ("[1.0, ...]", "[1.5, ...]"),
        ("x = [1.0", "x = [y"),
        ("```text", "more\n```text"),
        ("\ndtoss\n", "\ndt\n"),
    ):
        assert old in page
        with pytest.raises((AssertionError, NameError)):
            [run(one, {}, Servers()) for one in blocks_of("README.md", page.replace(old, new))]
