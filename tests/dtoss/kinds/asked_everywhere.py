"""A process in which the list of kinds has a line more: the new kind is asked everywhere, beside an oracle."""

from __future__ import annotations

import contextlib
import io
import json
import sys
from functools import cache
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import numpy as np
import pytest

FOLDER = Path(sys.argv[1])


def load(name, path):
    """Let a module be what a file says."""
    found = spec_from_file_location(name, path)
    sys.modules[name] = module_from_spec(found)
    found.loader.exec_module(sys.modules[name])


load("dtoss.kinds.spread_out", Path(__file__).with_name("spread_out.py"))
load("dtoss.kinds.all_kinds", FOLDER / "all_kinds.py")

import dtoss  # noqa: E402
from dtoss.geometry.distance import distance  # noqa: E402
from pipelines.command.app import run  # noqa: E402
from tests import oracles  # noqa: E402
from tests.dtoss.serve.cluster.several import dealt, several  # noqa: E402
from tests.dtoss.serve.served import Asker, running, target, town  # noqa: E402
from tests.dtoss.snapshots.damaged_stores import stored  # noqa: E402

OBJECTS = 400


class World:
    """An index, and what the oracle knows of its objects."""

    def __init__(self, kind):
        self.index = town(kind, objects=OBJECTS, partitions=9)
        parts = [part for part in self.index.parts.all() if part.owned_objects]
        self.ids = [one for part in parts for one in part.ids[: part.owned_objects].tolist()]
        self.positions = np.concatenate([part.positions[: part.owned_objects] for part in parts])
        self.speeds = [one for part in parts for one in part.attributes["speed"].to_pylist()[: part.owned_objects]]
        centre, scale, self.apart = ([10.0, 50.0], 0.1, 2_500.0) if kind == "sphere" else ([500.0, -300.0], 60.0, 25.0)
        self.places = np.random.default_rng(0).normal(centre, scale, (6, 2)).round(4)

    @cache  # noqa: B019 two worlds live as long as the process
    def chosen(self, number, k, least=-1):
        """The ids and distances of the k nearest objects that lie so far from each other, one by one of all."""
        vectors, found = self.index.space.vectors(self.positions), []
        some = sorted((row for row, one in enumerate(self.speeds) if one > least), key=self.ids.__getitem__)
        order = oracles.knn(self.index.space, range(len(some)), self.positions[some], self.places[number], len(some))
        for _, at, far in order:
            gaps = distance(vectors[[one for one, _ in found]], vectors[[some[at]] * len(found)])
            if len(found) < k and (gaps >= self.apart).all():
                found.append((some[at], far))
        return [(self.ids[row], far) for row, far in found]

    def check(self, hits, k, least=-1):
        """Compare hits of all places."""
        rows = list(zip(hits.query.tolist(), hits.id.tolist(), hits.distance.tolist(), strict=True))
        assert rows == [(q, *one) for q in range(len(self.places)) for one in self.chosen(q, k, least)]

    def check_index(self, index):
        """Ask an index, in this process or not."""
        for k in (1, 5, 40):
            self.check(index.ask("spread_out", self.places, k=k, apart=self.apart), k)
        asked = {"k": 3, "apart": self.apart}
        hits = index.ask("spread_out", self.places, **asked, where="speed > 20", columns=["name", "speed"])
        self.check(hits, 3, 20)
        assert list(hits.columns) == ["name", "speed"]
        assert min(hits.columns["speed"].to_pylist()) > 20
        few = index.ask("spread_out", self.places, **asked, having="speed > 20")
        rows = {(q, one) for q in range(len(self.places)) for one, _ in self.chosen(q, 3)}
        assert set(zip(few.query.tolist(), few.id.tolist(), strict=True)) < rows
        for wrong in ({"k": 0, "apart": 1.0}, {"apart": -1.0}, {"k": 9, "apart": self.apart, "among": 12}):
            with pytest.raises(ValueError, match=r"k is 0|apart is -1|among is 12"):
                index.ask("spread_out", self.places, **wrong)
        for wrong in ({"near": 2}, {"k": 2}):
            with pytest.raises(TypeError, match=r"takes no 'near': k, apart, among|wants apart: how far"):
                index.ask("spread_out", self.places, **wrong)

    def check_server(self, server):
        """Ask a server for one place, and look at what it says of itself."""
        names = ("lon", "lat") if self.index.space.geographic else ("x", "y")
        with Asker(server) as asker:
            for number, place in enumerate(self.places.tolist()):
                at = dict(zip(names, place, strict=True))
                told = asker.get("/spread_out", **at, k=4, apart=self.apart)["hits"]
                assert [(hit["id"], hit["distance"]) for hit in told] == self.chosen(number, 4)
            text = asker.get("/openapi.json")["paths"]["/spread_out"]
            assert {one: text[one]["operationId"] for one in text} == {"get": "spreadOut", "post": "spreadOutOfMany"}
            body = json.dumps({"positions": self.places.tolist()})
            status, _, told = asker.raw(target("/spread_out", k=5_000_000, apart=1), "POST", body)
            assert (status, json.loads(told)["limit"]) == (400, "k")
            assert asker.raw(target("/spread_out", **at, k=4, far=1))[0] == 400
        remote = dtoss.connect("http://{}:{}".format(*server.at))
        self.check_index(remote)
        many = remote.ask("spread_out", np.tile(self.places, (12, 1)), k=2, apart=self.apart)
        for at in range(0, many.query[-1], len(self.places)):
            rows = (many.query >= at) & (many.query < at + len(self.places))
            self.check(dtoss.Hits(many.query[rows] - at, many.id[rows], many.distance[rows], {}), 2)


for kind, how in (("sphere", "random"), ("plane", "copies")):
    world = World(kind)
    world.check_index(world.index)
    with running(world.index) as server:
        world.check_server(server)
    with several(world.index, dealt(world.index, 3, how, np.random.default_rng(1)), 3) as servers:
        world.check_server(servers[0])
store = str(stored(world.index, FOLDER / "store"))
line = ["spread-out", "--store", store, "--at", *map(str, world.places[0].tolist()), "-k", "4"]
with contextlib.redirect_stdout(io.StringIO()) as printed:
    assert run([*line, "--apart", str(world.apart), "--json"]) == 0
told = json.loads(printed.getvalue())["hits"]
assert [(hit["id"], hit["distance"]) for hit in told] == world.chosen(0, 4)
print("everywhere")
