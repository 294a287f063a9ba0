"""The audit: a line for each request, of who asked what, on every way, and through the servers of a plan."""

from __future__ import annotations

import json

import numpy as np

from dtoss.serve.observability.log_lines import MOST_ASKERS, Audit, askers
from tests.dtoss.serve.cluster.several import dealt, several
from tests.dtoss.serve.rights.seen import OWN, bearer, doors_of
from tests.dtoss.serve.served import Asker, object_path, running, target, town, until


def lines_of(file, count):
    """The lines of an audit, once so many are there."""
    until(lambda: file.exists() and file.read_bytes().count(b"\n") >= count)
    return [json.loads(line) for line in file.read_bytes().splitlines()]


def test_each_request_leaves_a_line(tmp_path):
    """The hot way and the long one, refusals, bodies in pieces, with how many hits each has sent."""
    index, file = town(objects=500), tmp_path / "audit"
    with (
        running(index, doors=doors_of(tmp_path), audit=str(file)) as server,
        Asker(server, **bearer("some")) as some,
        Asker(server) as nobody,
    ):
        near = {"lon": 10, "lat": 50}
        found = [len(some.get("/knn", **near, k=3, where=where)["hits"]) for where in (None, "speed > 5")]
        found.append(len(some.get("/range", **near, radius=9e6, columns="speed")["hits"]))
        places = json.dumps({"positions": [[10, 50], [10.1, 49.9]]})
        found.append(len(json.loads(some.raw("/knn?k=4", "POST", places)[2])["hits"]))
        found.append(some.get("/count", **near, radius=9e6)["count"])
        box = some.get("/box", west=9, south=49, east=11, north=51)["hits"]
        found.append(len(box))
        some.get(object_path(box[0]["id"]))
        some.raw("/objects/999999999")
        some.raw("/knn?lon=999&lat=1")
        nobody.raw("/knn?lon=1&lat=1")
        lines = lines_of(file, 10)
    assert [one["hits"] for one in lines[:7]] == [*found, 1]
    assert [one["status"] for one in lines] == [200] * 7 + [404, 400, 401]
    assert [one["token"] for one in lines] == ["some"] * 9 + [""]
    assert {one["client"] for one in lines} == {"127.0.0.1"}
    routes = [
        "/knn",
        "/knn",
        "/range",
        "/knn",
        "/count",
        "/box",
        "/objects/{object_id}",
        "/objects/{object_id}",
        "/knn",
    ]
    assert [one["route"] for one in lines[:9]] == routes
    assert lines[1]["target"] == target("/knn", **near, k=3, where="speed > 5")
    assert (lines[3]["places"], lines[3]["around"]) == (2, [10.0, 49.9, 10.1, 50.0])
    assert all(one["time"].endswith("Z") and one["id"] for one in lines)
    assert not any("t-some" in json.dumps(one) for one in lines)
    assert server.heard.lines_dropped == 0


def test_who_asks_is_told_to_the_other_servers(tmp_path):
    """By name, for questions of a turn and those by themselves; what a client claims for others counts for nothing."""
    index, rng = town(objects=800, partitions=8), np.random.default_rng(0)
    doors, file = doors_of(tmp_path), tmp_path / "audit"
    given = {"token": "t-peers", "doors": doors, "audit": str(file)}
    with several(index, dealt(index, 2, "contiguous", rng), 2, **given) as servers:
        until(lambda: all(len(one.state.circle.said) == 1 for one in servers))
        with Asker(servers[0], **bearer("some")) as some:
            for x, y in rng.normal([10.0, 50.0], 0.05, (30, 2)).tolist():
                some.raw(target("/knn", lon=x, lat=y, k=2, where=OWN), x_dtoss_asker="boss=1")
                some.get("/knn", lon=x, lat=y, k=2, columns="speed")
        lines = lines_of(file, 60)
        until(lambda: {one["route"] for one in lines_of(file, 60)} >= {"/knn", "/partial"})
        lines = lines_of(file, 60)
    passed = [one for one in lines if one["route"] in ("/partial", "/forward")]
    assert {one["for"].partition("=")[0] for one in passed} == {"some"}
    assert {one["token"] for one in passed} == {"peers"}
    assert not any("for" in one for one in lines if one["route"] == "/knn")


def test_many_askers_are_named_up_to_a_bound():
    names = [f"n{i}" for i in range(MOST_ASKERS + 5) for _ in range(2)]
    said = askers(names)
    assert said.count(b",") == MOST_ASKERS
    assert said.endswith(b",*=10")
    assert askers(["", ""]) == b""


def test_an_audit_goes_on_in_a_new_file_and_counts_what_it_drops(tmp_path):
    """Once the first was renamed, as by logrotate; a line that cannot be written is counted, none is left out."""
    file, dropped = tmp_path / "audit", []
    audit = Audit(str(file), 3, dropped.append)
    facts = {"token": "a", "client": ("1.2.3.4", 5), "method": "GET", "route": "/knn", "status": 200}
    for number in range(500):  # more than a log has in a second
        audit.request(id=str(number), target=b"/knn?lon=1", hits=number, **facts)
    assert [one["hits"] for one in lines_of(file, 500)] == list(range(500))
    file.rename(tmp_path / "old")
    audit.request(id="new", target=b"/knn", **facts)
    assert [one["id"] for one in lines_of(file, 1)] == ["new"]
    file.unlink()
    file.mkdir()
    audit.request(id="lost", target=b"/knn", **facts)
    until(lambda: dropped == [1])
    audit.close()
