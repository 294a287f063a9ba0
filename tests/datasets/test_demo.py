"""The demo, small: what it leaves, what it says, and that the commands it ends with work when pasted."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from collections import Counter
from pathlib import Path
from urllib.request import urlopen

import numpy as np
import pyarrow.parquet as pq
import pytest

import dtoss
from datasets.demo import main
from dtoss.geometry.distance import distance
from dtoss.watch.events.watch_tables import verify_watch
from dtoss.watch.watch_folder import Home
from tests.dtoss.serve.processes.started import started

ROOT = Path(__file__).parents[2]


HEAVY = ("rebuild", "watch", "windows run", "serve")
"""What takes longer, or starts a server, of the commands that the demo ends with."""


def made_and_said(out, capsys, **sizes):
    """What the demo prints; what it has made is compared with it."""
    main(out=out, **sizes)
    said, objects = capsys.readouterr().out, sizes["objects"]
    table = pq.read_table(out / "fleet.parquet")
    index = dtoss.open(str(out / "store"))
    assert len(index) == len(table) == objects
    assert f"{objects:,} on" in said

    near = re.search(r"5 nearest in (\w+)\s+(.*)", said)
    lon, lat = re.search(r"--at (\S+) (\S+)", said).groups()
    vectors = index.space.vectors(np.stack([table["lon"].to_numpy(), table["lat"].to_numpy()], axis=1))
    far = distance(vectors, index.space.vectors(np.array([[float(lon), float(lat)]]))[0])
    # the commands round the place to some metres
    assert abs(float(re.search(r" at (\d+) m", near[2])[1]) - far.min()) < 15

    past = dtoss.history.open(str(out / "history"))
    kept, passed, track = (
        re.search(rf"  {words} +(.*)", said)[1] for words in ("kept", "within 100 m of one", "where")
    )
    assert kept.startswith(f"{len(past):,} rows of {len(past) // 61:,} taxis in 61 batches")
    assert "in that hour" in passed
    assert " 61 places, " in track

    asked, watched, rank = (re.search(rf"  {words} +(.*)", said)[1] for words in ("asked", "watched", "the rank above"))
    fences = [json.loads(line) for line in (out / "fences.jsonl").read_text().splitlines()]
    assert asked.startswith(f"{len(fences)} fences")
    told = list(dtoss.events(str(out / "store")))
    assert watched.startswith(f"{4 * len(past) // 61:,} rows in 4 batches, {len(told):,} events")
    own = [event["kind"] for event in told if event["subscription"] == "rank"]
    assert rank.strip() == f"{own.count('enter'):,} enter, {own.count('leave'):,} leave"
    assert len(told) > 10
    assert verify_watch(Home(str(out / "store"))).damaged == []

    matplotlib = pytest.importorskip("matplotlib.image")
    picture = matplotlib.imread(out / "partitions.png")
    assert picture.shape[0] > 1000
    assert len(np.unique(picture[::4, ::4].reshape(-1, picture.shape[2]), axis=0)) > 100
    return said, told


def to_try_next(said):
    """The commands that the demo ends with, as words, and the address of the map."""
    *lines, last = said[said.index("Try next:") :].splitlines()[1:]
    map_of = "The map of them all, of the fences and of the windows"
    page = re.fullmatch(rf"{map_of}, while dtoss serve runs: (http://\S+/)", last)[1]
    commands = [shlex.split(line) for line in lines if line.strip()]
    assert [words[0] for words in commands].count("dtoss") == 15
    return commands, page


def test_a_small_demo_and_what_it_says_to_try_next(tmp_path, command, capfd):
    """As the demo below; of its commands, those that are quick and no process."""
    out = tmp_path / "demo"
    said, _ = made_and_said(out, capfd, objects=800, cities=2, partitions=2)
    commands, _ = to_try_next(said)
    light = [words for words in commands if words[0] == "dtoss" and not " ".join(words[1:]).startswith(HEAVY)]
    assert len(light) == 10
    for words in light:
        if words[1:3] == ["windows", "show"]:
            assert "there are no windows" in command.fails(*words[1:])
        else:
            assert command(*words[1:]).code == 0, words
    assert pq.read_table(out / "taxi.parquet").num_rows >= 1
    assert (out / "answers.csv").read_text().count("\n") == 1 + 2 * 3


@pytest.mark.deep("runs all that the demo ends with, on more taxis; a small demo is in make test")
def test_the_demo_and_what_it_says_to_try_next(tmp_path, capsys):
    """An index of all taxis, answers that are true, a picture with something in it, commands that run."""
    from pipelines.command.main import main as command

    out = tmp_path / "demo"
    said, told = made_and_said(out, capsys, objects=3000, cities=4, partitions=6)
    past = dtoss.history.open(str(out / "history"))
    commands, page = to_try_next(said)
    for words in commands:
        if words[:2] == ["dtoss", "serve"]:
            assert words.pop() == "&"
            assert_serves(words[1:], commands[-1][-1], page)
        elif words[0] == "dtoss":
            with pytest.raises(SystemExit) as done:
                command(words[1:])
            assert done.value.code == 0, words
        elif words[0] == "python":
            subprocess.run([sys.executable, *words[1:]], check=True, timeout=600, cwd=ROOT)
    later = capsys.readouterr().out
    assert "3,000 on" in later
    assert len(dtoss.open(str(out / "store"))) == 3000
    again = dtoss.events(str(out / "store"), "what-if")
    names = ("kind", "subscription", "object", "t")
    assert Counter(tuple(map(event.get, names)) for event in again) == Counter(
        tuple(map(event.get, names)) for event in told
    )
    assert len(dtoss.open(str(out / "half-past"))) == len(past) // 61
    assert pq.read_table(out / "taxi.parquet").num_rows >= 1
    hour = dtoss.open_windows(str(out / "store"), "hour").at(window="1h")
    assert sum(hour["rows"].to_pylist()) == 60 * len(past) // 61
    assert sum(hour["here"].to_pylist()) == len(past) // 61
    assert (out / "answers.csv").read_text().count("\n") == 1 + 4 * 3


def assert_serves(arguments, url, page):
    """A server of these arguments, on a free port, answers the URL that is shown, and shows the map at the other."""
    program = "from pipelines.command.main import main; main()"
    ready = r"^serving .* on http://127.0.0.1:(\d+)$"
    with started("-c", program, *arguments, "--port", "0", ready=ready) as server:
        with urlopen(url.replace(":8080", f":{server.port}"), timeout=120) as answer:
            assert len(json.load(answer)["hits"]) == 3
        with urlopen(page.replace(":8080", f":{server.port}"), timeout=120) as answer:
            assert b"<title>dtoss map</title>" in answer.read()
        assert server.stop()[0] == 0
