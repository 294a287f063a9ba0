"""Several workers of one plan in threads of the test's process, each with its share, and questions of every kind."""

from __future__ import annotations

import json
import socket
from contextlib import ExitStack, contextmanager

import numpy as np

from dtoss.client.endpoint import Peers, address_of
from dtoss.serve.cluster.cluster import PeerGroup
from dtoss.serve.cluster.served_plans import Placement
from tests.dtoss.serve.served import looking, running, target

EARTH = 2.0e7


def free_ports(count):
    """Ports that nobody listens on."""
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def dealt(index, servers, kind, rng):
    """A placement: at random, contiguous, with copies, or with one server that holds nothing."""
    count = len(index.parts)
    owner = np.arange(count) * servers // count if kind == "contiguous" else rng.integers(0, servers, count)
    if kind == "one has none":
        owner = np.minimum(owner, servers - 2)
    holders = [(int(one),) for one in owner]
    if kind == "copies":
        holders = [(one, (one + 1 + int(rng.integers(servers - 1))) % servers) for (one,) in holders]
    return Placement(index.partitioning.digest, tuple(holders))


@contextmanager
def several(index, placement, servers, *, token=None, cold=(), **given):
    """Workers of all servers of a plan, which say a token to each other; some without the short way."""
    ports = free_ports(servers)
    peers = Peers({number: address_of(f"http://127.0.0.1:{port}") for number, port in enumerate(ports)}, token)

    def circle(number):
        return lambda heard: PeerGroup(number, peers, placement, heard, heard.event)

    with ExitStack() as stack:
        made = [
            stack.enter_context(
                running(index, port=ports[number], hot=number not in cold, circle=circle(number), **given)
            )
            for number in range(servers)
        ]
        for server in made:  # once all listen: whoever is not there is asked again a second later
            looking(server)
        yield made


def place_of(index, rng):
    """A place near objects, far from all, at a pole or on the antimeridian."""
    if not index.space.geographic:
        return [round(float(x), 3) for x in rng.normal(0, 1_500, 2)]
    draw = rng.random()
    if draw < 0.15:
        return [[180.0, 1.0], [-180.0, 1.0], [0.0, 90.0], [10.0, -90.0], [179.999, 10.0]][int(rng.integers(5))]
    near = index.parts[int(rng.integers(len(index.parts)))].positions
    if draw < 0.75 and len(near):
        x, y = near[int(rng.integers(len(near)))] + rng.normal(0, 0.01, 2)
        return [round(float((x + 180) % 360 - 180), 5), round(float(np.clip(y, -90, 90)), 5)]
    return [round(float(rng.uniform(-180, 180)), 4), round(float(rng.uniform(-90, 90)), 4)]


def question(index, rng, column):
    """Method, target and body of a question of any kind."""
    x, y = place_of(index, rng)
    names = ("lon", "lat") if index.space.geographic else ("x", "y")
    at = dict(zip(names, (x, y), strict=True))
    scale = EARTH if index.space.geographic else 4_000.0
    radius = round(scale * float(rng.choice([0.0, 1e-4, 1e-3, 1e-2, 0.3, 1.1])) * float(rng.uniform(0.5, 1)), 3)
    where = rng.choice([None, None, None, f"{column} > 6", f"{column} > 100"])
    more = {
        "where": where,
        "columns": rng.choice([None, column, f"{column},{names[0]}"]),
        "having": rng.choice([None, None, f"{column} < 4"]),
        "ids": rng.choice([None, "string"]),
    }
    more = {name: None if value is None else str(value) for name, value in more.items()}
    plain = {"where": more["where"]}
    k = int(rng.choice([1, 2, 3, 5, 8, 20, 32, 100]))
    kind = int(rng.integers(16))
    if kind < 4:
        return "GET", target("/knn", **at, k=k, **(plain if kind < 3 else more)), None
    if kind == 4:
        return "GET", target("/knn", **at, k=k, max_distance=radius, **more), None
    if kind < 7:
        return "GET", target("/range", **at, radius=radius, **(plain if kind == 5 else more)), None
    if kind == 7:
        return "GET", target("/range", **at, radius=radius, limit=k, **plain), None
    if kind == 8:
        return "GET", target("/count", **at, radius=radius, **plain), None
    if kind == 9:
        return "GET", target(str(rng.choice(["/locate", "/reverse_nearest"])), **at), None
    if kind == 10:
        size = len(index)
        return "GET", target(f"/objects/{int(rng.integers(size))}", neighbours="true", cell="true"), None
    if kind == 11:
        sides = box_of(index, x, y, rng)
        named = ("west", "south", "east", "north") if index.space.geographic else ("xmin", "ymin", "xmax", "ymax")
        return "GET", target("/box", **dict(zip(named, sides, strict=True)), **more), None
    if kind == 12:
        west, south, east, north = box_of(index, x, y, rng, small=True)
        ring = [[west, south], [east, south], [east, north], [west, north], [west, south]]
        body = {"type": "Polygon", "coordinates": [ring]}
        count = "true" if rng.random() < 0.3 and more["having"] is None else None
        return "POST", target("/within", **more, count=count), json.dumps(body)
    places = [place_of(index, rng) for _ in range(int(rng.integers(1, 30)))]
    if kind == 13:
        return "POST", target("/knn", k=k, **more), json.dumps({"positions": places})
    if kind == 14:
        path = str(rng.choice(["/range", "/count"]))
        return (
            "POST",
            target(path, radius=radius / 50, **(plain if path == "/count" else more)),
            json.dumps({"positions": places}),
        )
    return "POST", str(rng.choice(["/locate", "/reverse_nearest"])), json.dumps({"positions": places[:8]})


def box_of(index, x, y, rng, small=False):
    """The sides of a box round a place."""
    if not index.space.geographic:
        return [x - 200, y - 100, x + 300, y + 50]
    half = float(rng.choice([0.01, 1.0, 8.0]))
    west, east = x - half, x + half
    if small:
        west, east = max(west, -180.0), min(east, 180.0)
    else:
        west, east = (west + 180) % 360 - 180, (east + 180) % 360 - 180
    return [round(one, 6) for one in (west, max(y - half, -90.0), east, min(y + half, 90.0))]


def answers_of(askers, asked):
    """Status and body that each asker gets for a question."""
    method, path, body = asked
    kind = {} if body is None else {"Content_Type": "application/json"}
    found = []
    for asker in askers:
        status, headers, answer = asker.raw(path, method, body, **kind)
        if status >= 400:
            answer = json.loads(answer)["detail"]
        found.append((status, headers.get("Content-Type") or headers.get("content-type"), answer))
    return found


def write_plan(path, placement):
    """Write a plan that says what a placement does."""
    servers = sorted(placement.servers)
    said = {
        "kind": "ceps plan", "format": 1, "pivots_hash": placement.pivots_hash, "cost_per_day": 1.0,
        "server_types": [{"name": "one", "requests_per_second": 1000.0}],
        "servers": [{"server": one, "type": "one", "dollars_per_hour": 0.1, "spare": False} for one in servers],
        "partitions": list(range(len(placement.holders))), "replicas": [list(of) for of in placement.holders],
    }  # fmt: skip
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps(said))
    fresh.rename(path)


def write_peers(path, urls, token=None):
    """Write where the servers of a plan are, and what they say to each other."""
    said = [] if token is None else [f'token = "{token}"']
    path.write_text("\n".join([*said, *(f'{number} = "{url}"' for number, url in enumerate(urls)), ""]))
