"""Requests of each call of the table: good ones, and ones that ask for more than each of its limits."""

from __future__ import annotations

import http.client
import json
import threading
from contextlib import contextmanager

import numpy as np

from dtoss.kinds.kind import Search, Shapes
from dtoss.kinds.shapes import question_of_shapes
from dtoss.serve.answers.json_out import ObjectQuestion
from dtoss.serve.auth.route_table import ADMINS, CALLS, OPEN, READER, SERVER, TELLER, WRITER
from dtoss.serve.cluster.wire_messages import pack_question
from dtoss.serve.core.server_settings import Limits
from dtoss.serve.requests.bundles import packed_bundle, packed_group
from dtoss.shards.merge_answers import PART_STEPS, SHARE_STEPS, ShareQuestion
from tests.dtoss.serve.cluster.several import dealt, several
from tests.dtoss.serve.map.made_ground import archive, vector_tile
from tests.dtoss.serve.served import WAIT, Intake, running, until

ARROW = "application/vnd.apache.arrow.stream"
LIMITS = Limits(
    k=40, bulk_queries=30, rows=25, body_bytes=200_000, hits=50, corners=20, condition_length=100, pool_queue=2,
    idle_seconds=1.5, live=3, event_streams=2, subscribe_bytes=100_000, connections=200, pool_seconds=WAIT,
)  # fmt: skip
TOKENS = {READER: "t-9f1c-r", WRITER: "t-9f1c-w", TELLER: "t-9f1c-p", SERVER: "t-9f1c-s", ADMINS: "t-9f1c-a"}
ROUTES = {(call.method, call.path): call for call in CALLS}
SMALL = {
    "/": "/", "/docs": "/docs", "/static/{path}": "/static/map.js", "/map/load": "/map/load?slot=0",
    "/knn": "/knn?lon=10&lat=50", "/range": "/range?lon=10&lat=50&radius=10", "/count": "/count?lon=10&lat=50&radius=9",
    "/locate": "/locate?lon=10&lat=50", "/reverse_nearest": "/reverse_nearest?lon=10&lat=50",
    "/box": "/box?west=10&south=50&east=10.001&north=50.001", "/objects/{object_id}": "/objects/1",
    "/windows/{name}": "/windows/fleet", "/windows/{name}/flow": "/windows/fleet/flow",
    "/windows/{name}/series": "/windows/fleet/series?key=0&since=0",
    "/windows/{name}/regions": "/windows/fleet/regions",
    "/map/object": "/map/object?id=1", "/map/object/{object_id}": "/map/object/1",
    "/map/subscriptions": "/map/subscriptions?west=0&south=0&east=1&north=1&zoom=9",
    "/map/subscription": "/map/subscription?id=a", "/subscriptions/{subscription_id}": "/subscriptions/no",
    "/report/{name}": "/report/report.html", "/map/nearest": "/map/nearest?lon=10&lat=50",
    "/tiles/{snapshot}/{layer}/{z}/{x}/{row}": "/tiles/{snapshot}/objects/3/4/2.mvt",
    "/basemap/{z}/{x}/{y}": "/basemap/0/0/0", "/ogc/collections/{collection}": "/ogc/collections/objects",
    "/ogc/collections/{collection}/items": "/ogc/collections/objects/items?bbox=10,50,10.001,50.001",
    "/ogc/collections/{collection}/items/{item}": "/ogc/collections/objects/items/1",
}  # fmt: skip
"""A good request of each route; others are their paths."""
ROW = {"id": 1, "lon": 10, "lat": 50, "t": "2026-01-01", **dict.fromkeys(("speed", "share", "name", "seen", "free"))}
BODIES = {
    "/range": {"positions": [[10, 50]], "radius": 9}, "/count": {"positions": [[10, 50]], "radius": 9},
    "/box": {"boxes": [[10, 50, 10.001, 50.001]]}, "/map/within": {"circle": [10, 50, 10, 50.0001]},
    "/within": {"type": "Polygon", "coordinates": [[[10, 50], [10.001, 50], [10, 50.001], [10, 50]]]},
    "/subscriptions": [{"id": "new", "circle": [0, 0, 9]}], "/positions": [ROW],
}  # fmt: skip
LONG = "speed > 1 " + " " * LIMITS.condition_length
WIDE, RING = [9.0, 49.0, 11.0, 51.0], [[9, 49], [11, 49], [11, 51], [9, 51], [9, 49]]


def ground_in(folder):
    """The path of a ground of one tile in a folder."""
    path = folder / "ground.pmtiles"
    path.write_bytes(archive({(0, 0, 0): vector_tile([("water", [("POINT (1 1)", {})])])}))
    return str(path)


@contextmanager
def all_calls(index, folder, doors, **more):
    """A worker of a whole snapshot and one of a plan, which both may be asked all that they have."""
    given = {"store": str(folder / "store"), "report": str(folder / "report"), "allow_subscribe": True}
    given |= {"allow_positions": True, "intake": Intake()}
    given["basemap"] = ground_in(folder)
    given |= {"limits": LIMITS, "threads": 1, "doors": doors} | more
    with (
        running(index, **given) as alone,
        several(
            index, dealt(index, 2, "contiguous", np.random.default_rng(0)), 2, token=TOKENS[SERVER], **given
        ) as others,
    ):
        yield lambda call: others[0] if call.who == SERVER else alone


def request_of(server, call, **more):
    """The target and the body of a good request."""
    name = server.serving.now.name
    path = SMALL.get(call.path, call.path).replace("{snapshot}", name)
    if call.method == "POST":
        path = call.path
        body = json.dumps(BODIES.get(call.path, {"positions": [[10, 50]]})).encode()
        if call.path == "/forward":
            body = packed_bundle(name, [group_of(np.array([[10.0, 50.0]]))])
        elif call.message is not None:
            body = pack_question(question_of(server, call.message), name, WAIT)
        return path, body
    return path, None


def group_of(places):
    """Questions for the nearest of places."""
    return packed_group(True, 8, None, places, np.full(len(places), 1e6), [8] * len(places))


def question_of(server, message, places=1, k=4, where=None, most=9, text=None, ring=RING):
    """What one server asks another."""
    held = tuple(server.serving.now.share.held)
    positions = np.full((places, 2), [10.0, 50.0])
    some = Search(positions, np.full(places, 1e5), k, where)
    if message == "shapes":
        shape = json.dumps({"type": "Polygon", "coordinates": [ring]}).encode()
        shapes = Shapes("within", shape) if text is None else Shapes("boxes", text)
        return ShareQuestion(PART_STEPS["shapes"], question_of_shapes(shapes, most, True, where, None, ()), held)
    if message == "object":
        return ObjectQuestion(text or "1", False, True, False, False)
    step = next(step for step in SHARE_STEPS.values() if step.name == message)
    return ShareQuestion(step, some if step.radii else Search(positions, np.zeros(0), 0), held)


def ask(server, method, path, body=None, token=None, **headers):
    """Status of an answer and what it says; of a stream, which has no end, only its status."""
    link = http.client.HTTPConnection(*server.at, timeout=WAIT)
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    if token is not None:
        given["Authorization"] = f"Bearer {token}"
    try:
        link.request(method, path, body, given)
        answer = link.getresponse()
        if answer.getheader("content-type", "").startswith("text/event-stream"):
            return answer.status, {}
        said = answer.read()
        return answer.status, json.loads(said) if answer.status >= 400 else said
    finally:
        link.close()


def token_for(call):
    """Of one who may make a call."""
    return None if call.who == OPEN else TOKENS[call.who]


def beyond(server, call, limit):
    """A request that asks for more than a limit."""
    path, body = request_of(server, call)
    name, and_ = server.serving.now.name, "&" if "?" in path else "?"
    if call.message is not None:
        return path, pack_question(question_beyond(server, call.message, limit), name, WAIT)
    if limit == "condition_length":
        if call.path in ("/map/within", "/subscriptions"):
            asks = json.loads(body)
            (asks if isinstance(asks, dict) else asks[0])["where"] = LONG
            return path, json.dumps(asks).encode()
        return f"{path}{and_}where={LONG.replace(' ', '%20').replace('>', '%3E')}", body
    if limit == "k":
        return f"{path}{and_}k={LIMITS.k + 1}", body
    if limit == "connections":
        return path, packed_bundle(name, [group_of(np.full((LIMITS.connections + 1, 2), [10.0, 50.0]))])
    if limit == "corners":
        ring = [[10 + 0.001 * np.cos(t), 50 + 0.001 * np.sin(t)] for t in np.linspace(0, 6, LIMITS.corners + 2)]
        ring = [[round(x, 6), round(y, 6)] for x, y in ring]
        shape = {"polygon": ring} if call.path == "/map/within" else {"type": "Polygon", "coordinates": [ring]}
        return path, json.dumps(shape).encode()
    if limit == "rows":
        return path, json.dumps(json.loads(body) * (LIMITS.rows + 1)).encode()
    if limit == "bulk_queries":
        if call.path == "/subscriptions":
            return path, json.dumps([{"id": i} for i in range(LIMITS.bulk_queries + 1)]).encode()
        (member, values), *more = json.loads(body).items()
        return path, json.dumps({member: values * (LIMITS.bulk_queries + 1), **dict(more)}).encode()
    assert limit == "hits"
    if call.path.startswith("/windows"):
        return path, None
    if call.method == "GET":
        return path.replace("radius=10", "radius=9e5").replace("east=10.001&north=50.001", "east=11&north=51"), None
    asks = {
        "/knn": {"positions": [[10, 50]] * 9}, "/range": {"positions": [[10, 50]], "radius": 9e5},
        "/box": {"boxes": [WIDE]}, "/within": {"type": "Polygon", "coordinates": [RING]},
        "/map/within": {"polygon": RING[:4]},
    }  # fmt: skip
    return path, json.dumps(asks[call.path]).encode()


def question_beyond(server, message, limit):
    """What no server asks another."""
    if limit == "bulk_queries":
        if message == "shapes":
            boxes = json.dumps({"boxes": [WIDE] * (LIMITS.bulk_queries + 1)}).encode()
            return question_of(server, message, text=boxes)
        return question_of(server, message, places=6 * LIMITS.bulk_queries + 1, k=1)
    if limit == "condition_length":
        return question_of(server, message, where=LONG * 4)
    if limit == "corners":
        return question_of(server, message, ring=RING[:4] * 6)
    if limit == "line_bytes":
        return question_of(server, message, text="1" * (LIMITS.line_bytes + 1))
    assert limit == "hits"
    return question_of(server, message, k=0 if message != "shapes" else 4, most=LIMITS.hits + 1)


def long_way(server, call):
    """A good request that no way below the framework takes."""
    path, body = request_of(server, call)
    return (path, body), {"accept": ARROW, "if_none_match": '"x"'}


@contextmanager
def busy(server, pool, waiting):
    """All threads of a pool work, and so many requests wait."""
    go = threading.Event()
    try:
        for _ in range(1 + waiting):
            pool.submit(lambda: go.wait(WAIT))
        yield
    finally:
        go.set()
        until(lambda: pool.inside == 0)


def pool_of(server, call):
    """The threads that answer a call."""
    return server.state.for_others if call.who == SERVER else server.state.pool
