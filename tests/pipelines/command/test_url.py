"""Questions to a server by the command line: the same output as from a store, and one line where it cannot be."""

from __future__ import annotations

import json
import time

import numpy as np
import pytest

import dtoss
from tests.dtoss.answering import answering
from tests.dtoss.snapshots.damaged_stores import stored

AT = ("--at", "10.0", "50.0")
BESIDE = ("--at", "10.1", "50.2")
BOX = ("--box", "9.9", "49.9", "10.1", "50.1")
QUESTIONS = [
    ("knn", *AT),
    ("knn", *AT, "-k", "9", "--columns", "speed", "--where", "speed > 20"),
    ("knn", *AT, "-k", "9", "--max-distance", "9000", "--having", "speed > 20", "--json"),
    ("range", *AT, "--radius", "9000", "--columns", "speed"),
    ("range", *AT, "--radius", "9000", "--count"),
    ("range", *AT, "--radius", "9000", "--count", "--json"),
    ("reverse-nearest", *BESIDE),
    ("within", *BOX),
    ("within", *BOX, "--columns", "speed", "--json"),
    ("within", *BOX, "--count", "--json"),
]


@pytest.fixture(scope="module")
def town(tmp_path_factory):
    """A store, and a server of it."""
    rng = np.random.default_rng(0)
    index = dtoss.build(
        np.arange(400), rng.normal([10.0, 50.0], 0.2, (400, 2)), partitions=3, columns={"speed": rng.permutation(400)}
    )
    path = str(tmp_path_factory.mktemp("url") / "store")
    stored(index, path, kinds={"speed": "bigint"})
    opened = dtoss.open(path)
    with answering(opened, opened.snapshot) as served:
        served.store, served.opened = path, opened
        yield served


@pytest.mark.parametrize("question", QUESTIONS, ids=" ".join)
def test_a_server_gives_the_same_output_as_its_store(town, command, question):
    """To the byte, in CSV and JSON; the server was asked."""
    name, *rest = question
    town.heard.accesses.clear()
    there = command(name, "--url", town.url, *rest)
    deadline = time.monotonic() + 120
    while not town.heard.accesses:  # noted once the answer is on its way
        assert time.monotonic() < deadline
        time.sleep(0.001)
    assert there == command(name, "--store", town.store, *rest)
    assert there[0] == 0
    assert there[1].count("\n") > 1 or "--json" in rest or "--count" in rest


def test_who_would_be_nearest_is_printed(town, command):
    """The command of a kind of question, which takes what the kind takes and no more."""
    said = json.loads(command.works("reverse-nearest", "--url", town.url, *BESIDE, "--json").out)["hits"]
    found = town.opened.reverse_nearest([float(one) for one in BESIDE[1:]])
    assert [(hit["id"], hit["distance"]) for hit in said] == [(one, far) for _, one, far in found] != []
    for option in (("--geojson",), ("--columns", "speed"), ("--where", "speed > 3"), ("-k", "3")):
        assert f"No such option: {option[0]}" in command.fails("reverse-nearest", "--url", town.url, *AT, *option)


def test_a_polygon_of_a_file(town, command, tmp_path):
    """A feature with properties."""
    file = tmp_path / "area.geojson"
    ring = [[9.8, 49.8], [10.2, 49.8], [10.0, 50.3], [9.8, 49.8]]
    shape = {"type": "Feature", "properties": {"a": 1}, "geometry": {"type": "Polygon", "coordinates": [ring]}}
    file.write_text(json.dumps({"type": "FeatureCollection", "features": [shape, shape]}))
    for more in ((), ("--count",)):
        there = command("within", "--url", town.url, "--polygon", file, *more)
        assert there == command("within", "--store", town.store, "--polygon", file, *more)
        assert there[0] == 0


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("knn", *AT), "one of --store STORE and --url URL is wanted"),
        (("knn", *AT, "--store", "s", "--url", "http://127.0.0.1:1"), "one of --store STORE and --url URL"),
        (("range", *AT, "--radius", "5"), "one of --store STORE and --url URL is wanted"),
        (("within", *BOX), "one of --store STORE and --url URL is wanted"),
        (("knn", *AT, "--store", "s", "--token-file", "f"), "--token-file is for a server"),
        (("knn", *AT, "--url", "http://127.0.0.1:1", "--verify", "all"), "--verify is for a store"),
        (("knn", *AT, "--url", "http://127.0.0.1:1"), "no server answers at http://127.0.0.1:1: start one by dtoss"),
        (("knn", *AT, "--url", "ftp://x"), "the server's URL is 'ftp://x'"),
        (("knn", *AT, "--url", "http://127.0.0.1:1", "--token-file", "/no"), "--token-file /no cannot be read"),
        (("knn", "--url", "u", "--queries", "f.csv", "--out", "o.csv"), "the server's URL is 'u'"),
        (("knn", "--store", "s", "--url", "u", "--all", "--out", "o.csv"), "--store STORE is wanted, and no --url"),
        (("range", "--radius", "1", "--url", "u", "--queries", "f.csv", "--out", "o.csv"), "the server's URL is"),
    ],
)
def test_what_does_not_go_together_is_one_line(command, arguments, why):
    """With exit code 2."""
    assert why in command.fails(*arguments)


def test_errors_are_those_of_a_store(town, command):
    """A wrong place, a column that is not carried, a condition that cannot be read, a snapshot that is gone."""
    for question in [
        ("knn", "--at", "200", "0"),
        ("knn", *AT, "--columns", "colour"),
        ("range", *AT, "--radius", "-1"),
        ("knn", *AT, "--where", "speed >"),
        ("within", "--box", "1", "9", "2", "0"),
    ]:
        there = command(question[0], "--url", town.url, *question[1:])
        assert there == command(question[0], "--store", town.store, *question[1:])
        assert there[0] == 2
    assert "snapshot 'old' is not open" in command.fails("knn", *AT, "--url", town.url, "--snapshot", "old")


def test_the_token_comes_from_a_file_or_the_environment(town, command, tmp_path, monkeypatch):
    """The file counts where both are given; neither is printed."""
    file = tmp_path / "token"
    file.write_text("of-the-server\n")
    with answering(town.opened, token="of-the-server") as served:
        ask = ("knn", *AT, "--url", served.url)
        assert "a token is wanted" in command.fails(*ask)
        monkeypatch.setenv("DTOSS_TOKEN", "of-nobody")
        for options, wanted in (((), 2), (("--token-file", file), 0)):
            code, out, err = command(*ask, *options)
            assert code == wanted
            assert "of-" not in out + err
        monkeypatch.setenv("DTOSS_TOKEN", "of-the-server")
        assert command(*ask)[0] == 0
        file.write_text("name token")
        assert "holds 2 words: the token alone is wanted" in command.fails(*ask, "--token-file", file)
