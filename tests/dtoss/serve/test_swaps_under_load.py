"""Swaps while fifty connections ask: every answer is that of the snapshot it names, and none goes back to an older."""

from __future__ import annotations

import asyncio
import time
from types import SimpleNamespace

import numpy as np
import orjson
import pytest

from dtoss.serve.core.server_settings import Settings
from dtoss.serve.reload.prepare import adopt_snapshot, first_snapshot
from dtoss.serve.reload.snapshot_watcher import Watcher
from dtoss.snapshots.store import Store
from tests.dtoss.serve.served import running, target
from tests.dtoss.serve.watched import Told, commit, town

CONNECTIONS = 50
FEW, MANY = 12, 50
ALL_SWAPS = pytest.mark.deep("fifty swaps, twelve are in make test")
PLACES = [[10.0, 50.0], [10.2, 50.1], [9.7, 49.9], [10.05, 50.05]]
CONDITION = "speed < 40"


def expected(index):
    """What an index says to some questions, by their targets."""
    said = {}
    for lon, lat in PLACES:
        at = {"lon": lon, "lat": lat}
        hits = {
            target("/knn", **at, k=5): index.knn([lon, lat], 5),
            target("/knn", **at, k=2, where=CONDITION): index.knn([lon, lat], 2, where=CONDITION),
            target("/range", **at, radius=3000): index.range([lon, lat], 3000.0),
        }
        for asked, found in hits.items():
            said[asked] = {"hits": [{"id": i, "distance": d} for _, i, d in found]}
        said[target("/count", **at, radius=9000)] = {"count": int(index.count([lon, lat], 9000.0)[0])}
        said[target("/locate", **at)] = {"id": int(index.locate([[lon, lat]])[0])}
    for number in (0, 7):
        told = index[number]
        said[f"/objects/{number}"] = {
            "id": number, "lon": told["lon"], "lat": told["lat"], "attributes": {"speed": told["speed"]},
            "neighbours": index.neighbours(number).tolist(),
        }  # fmt: skip
    return said


class Load:
    """Connections that ask in turn until they are told to stop."""

    def __init__(self, at, known):
        self.at, self.known = at, known
        self.answers, self.wrong, self.stopped = 0, [], False
        self.seen = set()

    async def ask(self, number):
        reader, writer = await asyncio.open_connection(*self.at)
        targets, before = list(self.known[min(self.known)]), ""
        turn = number
        while not self.stopped and not self.wrong:
            asked = targets[turn % len(targets)]
            turn += 1
            writer.write(f"GET {asked} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode())
            head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
            length = int(head.split("content-length: ")[1].split("\r")[0])
            answer = orjson.loads(await reader.readexactly(length))
            name = answer.pop("snapshot", None)
            if " 200 " not in head.split("\r")[0] or self.known[name][asked] != answer:
                self.wrong.append((asked, name, head, answer))
            elif name < before or f"x-dtoss-snapshot: {name}".lower() not in head:
                self.wrong.append((asked, name, f"after {before}", head))
            before = name
            self.seen.add(name)
            self.answers += 1
        writer.close()

    async def all(self):
        await asyncio.wait_for(asyncio.gather(*map(self.ask, range(CONNECTIONS))), 120)


@pytest.mark.parametrize("swaps", [FEW, pytest.param(MANY, marks=ALL_SWAPS)])
@pytest.mark.parametrize("hot", [True, False])
def test_swaps_under_load(tmp_path, hot, swaps):
    store = commit(tmp_path, 0)
    towns = [expected(town(seed)) for seed in (0, 1)]
    assert towns[0] != towns[1]
    begun, told = first_snapshot(Settings(store)), Told()
    known = {begun.name: towns[0]}
    with running(begun.index, hot=hot) as server:
        server.serving.now = adopt_snapshot(begun, 2, server.state.pool.submit)
        worker = SimpleNamespace(
            settings=Settings(store), serving=server.serving, metrics=told, log=told, circle=None, fresh=None
        )
        watcher = Watcher(worker, server.loop, np.zeros(1, np.int64))
        load = Load(server.at, known)

        def swap():
            for seed in range(1, swaps + 1):
                commit(store, seed % 2)
                known[Store(store).current()] = towns[seed % 2]
                assert watcher.look()
                if seed % 10 == 0:
                    time.sleep(0.05)
                    assert CONDITION in server.serving.now.conditions.in_use()
                if load.wrong:
                    break
            while load.answers <= 20 * CONNECTIONS and not (load.wrong or load.stopped):
                time.sleep(0.01)
            load.stopped = True

        async def both():
            swapping = asyncio.get_running_loop().run_in_executor(None, swap)
            try:
                await load.all()
            finally:
                load.stopped = True
                await swapping

        asyncio.run(both())
        assert load.wrong == []
        assert len(told.swaps) == swaps
        assert told.refusals == 0
        assert load.answers > 20 * CONNECTIONS
        assert len(load.seen) > swaps / 2
        assert len({id(server.serving.now), id(server.serving.before)}) == 2
