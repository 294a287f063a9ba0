"""Subscriptions and events of a token that sees some objects: its own, under its condition, numbered by themselves."""

from __future__ import annotations

import json
from contextlib import ExitStack

import numpy as np
import pytest

from dtoss.serve.rights.sight import both
from dtoss.watch.events.event_log import events
from tests.dtoss.serve.events.listening import Watch, order, stream
from tests.dtoss.serve.rights.seen import bearer, doors_of
from tests.dtoss.serve.served import Asker, running, town, until
from tests.dtoss.watch.streams import BEGIN, SECOND, circle, run

FILE = """\
all     t-all
first   t-first   where="occupied = 0" subscribe
second  t-second  where="occupied = 1" columns=kind subscribe
reader  t-reader  where="occupied = 0"
lost    t-lost    where="operator = 1" subscribe
"""


class Traffic(Watch):
    """A watch with fences of others, whose rows change in place and in what they carry."""

    def rows(self, rng, count=40):
        """Commit a batch of rows of a few objects near the fences and far."""
        self.turn += 1
        made = [
            {
                "id": int(rng.integers(8)), "t": BEGIN + self.turn * 100 * SECOND + one * SECOND,
                "x": float(rng.choice([0.0, 0.001, 5.0])), "y": 0.0,
                "attributes": {"occupied": int(rng.integers(2)), "kind": str(rng.choice(["taxi", "bus"]))},
            }
            for one in range(count)
        ]  # fmt: skip
        run(self.home, self.settings, made, carry=("occupied",))
        return made


@pytest.fixture
def watch(tmp_path):
    """It has begun, and others have asked."""
    made = Traffic(tmp_path / "store").begin([circle("others", 0.0, 0.0, 3000.0)])
    made.rows(np.random.default_rng(0))
    return made


@pytest.fixture
def server(watch, tmp_path):
    """A server of it with tokens."""
    given = {"store": str(tmp_path / "store"), "allow_subscribe": True, "token_file": "tokens"}
    with running(town(objects=300), doors=doors_of(tmp_path, FILE), **given) as found:
        yield found


@pytest.fixture
def ask(server):
    """Returns status and JSON of an answer to a token."""
    with ExitStack() as stack:
        askers = {}

        def answer(name, path, method="GET", body=None):
            if name not in askers:
                askers[name] = stack.enter_context(Asker(server, **bearer(name)))
            status, _, said = askers[name].raw(path, method, None if body is None else json.dumps(body))
            return status, json.loads(said)

        yield answer


def prefix_of(server, name):
    """How the ids of a token's subscriptions begin."""
    return server.state.doors.admit(f"Bearer t-{name}".encode()).prefix


def test_a_token_adds_under_its_condition_and_sees_its_own_alone(server, watch, ask):
    first, second = prefix_of(server, "first"), prefix_of(server, "second")
    assert first.startswith("first.")
    status, said = ask("first", "/subscriptions", "POST", [{"id": "mine", "circle": [0, 0, 9]}])
    assert (status, first in said["detail"]) == (422, True)
    around = {"id": f"{first}a", "around": {"object": 1, "metres": 5}}
    status, said = ask("first", "/subscriptions", "POST", [around])
    assert (status, "around" in said["detail"]) == (422, True)
    details = []
    for column in ("occupied", "occupeid"):
        status, said = ask("second", "/subscriptions", "POST", [{"id": f"{second}a", "where": f"{column} = 1"}])
        assert status == 422
        details.append(said["detail"].replace(column, "N"))
    assert details[0] == details[1]
    assert (
        ask("lost", "/subscriptions", "POST", [{"id": f"{prefix_of(server, 'lost')}a", "circle": [0, 0, 9]}])[0] == 403
    )
    rows = [
        {"id": f"{first}a", "circle": [0.0, 0.0, 3000.0], "events": ["enter", "leave"]},
        {"id": f"{first}b", "circle": [0.0, 0.0, 3e3], "where": "kind = 'bus' or kind = 'taxi'", "events": ["inside"]},
    ]  # fmt: skip
    for same in (0, 2):
        status, said = ask("first", "/subscriptions", "POST", rows)
        assert (status, said["same"]) == (200, same)
    assert ask("reader", "/subscriptions", "POST", rows)[0] == 403
    listed = ask("first", "/subscriptions")[1]
    assert ([one["id"] for one in listed["subscriptions"]], listed["count"]) == ([f"{first}a", f"{first}b"], 2)
    assert [one.get("where") for one in listed["subscriptions"]] == [None, rows[1]["where"]]
    assert ask("first", "/subscriptions?limit=1")[1]["next"] == f"{first}a"
    assert [one["id"] for one in ask("first", f"/subscriptions?after={first}a")[1]["subscriptions"]] == [f"{first}b"]
    assert ask("second", "/subscriptions")[1]["count"] == 0
    everything = ask("all", "/subscriptions")[1]["subscriptions"]
    assert {one["id"]: one.get("where") for one in everything} == {
        "others": None, f"{first}a": "occupied = 0", f"{first}b": both("occupied = 0", rows[1]["where"]),
    }  # fmt: skip
    gone = [ask("first", f"/subscriptions/{name}")[1]["detail"].replace(name, "N") for name in ("others", "nobody")]
    assert gone[0] == gone[1]
    assert [ask("first", f"/subscriptions/{name}", "DELETE")[0] for name in ("others", f"{second}a")] == [404, 404]
    assert ask("first", f"/subscriptions/{first}b")[1]["where"] == rows[1]["where"]
    assert ask("first", f"/map/subscription?id={first}b")[1]["where"] == rows[1]["where"]
    assert ask("first", "/map/subscription?id=others")[0] == 404
    seen = "/map/subscriptions?west=-1&south=-1&east=1&north=1&zoom=9"
    assert [(ask(name, seen)[1]["standing"], ask(name, seen)[1]["found"]) for name in ("first", "second", "all")] == [
        (2, 2), (0, 0), (3, 3),
    ]  # fmt: skip
    assert ask("first", f"/subscriptions/{first}b", "DELETE")[0] == 200


def test_pairs_of_a_token_are_of_objects_that_it_sees(server, watch, ask):
    """Both of them stand under its condition, which it is not shown; where the other one has left to is not told."""
    first = prefix_of(server, "first")
    pairs = [{"metres": 3000.0}, {"metres": 3000.0, "where": "kind = 'bus'"}]
    rows = [{"id": f"{first}{at}", "near": near, "events": ["enter", "leave"]} for at, near in enumerate(pairs)]
    for same in (0, 2):
        status, said = ask("first", "/subscriptions", "POST", rows)
        assert (status, said["same"]) == (200, same)
    shown = {
        name: [one.get("near") for one in ask(name, "/subscriptions")[1]["subscriptions"]] for name in ("first", "all")
    }
    assert shown["first"] == pairs
    under = ["occupied = 0", both("occupied = 0", pairs[1]["where"])]
    assert shown["all"] == [*({"metres": 3000.0, "where": where} for where in under), None]
    for turn, far in enumerate((0.0, 5.0)):
        places = [(1, 0, "bus", 0.0), (2, 1, "bus", 0.0), (3, 0, "taxi", far)]
        run(watch.home, watch.settings, [
            {"id": id, "t": BEGIN + (9_000 + 9 * turn) * SECOND, "x": x, "y": 0.0,
             "attributes": {"occupied": occupied, "kind": kind}} for id, occupied, kind, x in places
        ], carry=("occupied",))  # fmt: skip
    told = ask("first", "/events?after=beginning&limit=1000")[1]["events"]
    names = ("kind", "subscription", "object", "near", "near_lon")
    assert [tuple(one[name] for name in names) for one in told] == [
        ("enter", f"{first}0", 1, 3, 0.0), ("enter", f"{first}1", 3, 1, 0.0),
        ("leave", f"{first}0", 1, 3, None), ("leave", f"{first}1", 3, 1, None),
    ]  # fmt: skip


def own_lines(watch, prefix, columns, blank):
    """The lines of a token's events: numbered anew, what leaves without its place."""
    found, count = [], {}
    for table in events(watch.home):
        for row in table.to_pylist():
            if row["subscription"].startswith(prefix):
                count[row["batch"]] = count.get(row["batch"], 0) + 1
                left = blank and row["kind"] == "leave"
                place = [None if left else row[name] for name in ("x", "y", "distance")]
                carried = {name: None if left else row[name] for name in columns}
                found.append(
                    (f"{row['batch']}-{count[row['batch']]}", row["subscription"], row["object"], place, carried)
                )
    return found


def columns_of_log(lines, columns):
    """Events of an answer in the same form."""
    return [
        (one["id"], one["subscription"], one["object"], [one[name] for name in ("lon", "lat", "distance")],
         {name: one[name] for name in columns}) for one in lines
    ]  # fmt: skip


def test_a_token_hears_of_its_own_numbered_by_themselves(server, watch, ask):
    """By pages of any size, from each id on; rows of others, and what objects became that left, are never told."""
    rng, sent = np.random.default_rng(1), []
    prefixes = {name: prefix_of(server, name) for name in ("first", "second")}
    for name, prefix in prefixes.items():
        row = {"id": f"{prefix}a", "circle": [0.0, 0.0, 3000.0], "events": ["enter", "leave", "inside"]}
        assert ask(name, "/subscriptions", "POST", [row])[0] == 200
    for _ in range(3):
        sent += watch.rows(rng)
    for name, columns in (("first", ("occupied",)), ("second", ())):
        whole = ask(name, "/events?after=beginning&limit=10000")[1]["events"]
        assert columns_of_log(whole, columns) == own_lines(watch, prefixes[name], columns, True)
        assert len(whole) > 10
        assert all(("occupied" in one) == (name == "first") for one in whole)
        assert {one["occupied"] for one in whole if one["kind"] != "leave"} == {0} if name == "first" else True
        for size in (1, 7):
            found, after, more = [], "beginning", True
            while more:
                page = ask(name, f"/events?after={after}&limit={size}")[1]
                found, after, more = found + page["events"], page["next"], page["more"]
            assert found == whole
        for at in range(0, len(whole), 5):
            rest = ask(name, f"/events?after={whole[at]['id']}&limit=10000")[1]["events"]
            assert rest == whole[at + 1 :]
        assert ask(name, "/events?after=beginning&limit=100&subscription=others")[1]["events"] == []
        few = ask(name, "/events?after=beginning&limit=10000&kind=enter")[1]["events"]
        assert few == [one for one in whole if one["kind"] == "enter"]
    assert ask("reader", "/events?after=beginning&limit=9")[1]["events"] == []


def test_a_stream_has_its_own_events_and_ends_when_rights_change(server, watch, ask, tmp_path):
    """Of each kind of stream; those of tokens that stay as they are go on."""
    prefix = prefix_of(server, "first")
    assert ask("first", "/subscriptions", "POST", [{"id": f"{prefix}a", "circle": [0.0, 0.0, 3000.0]}])[0] == 200
    with (
        ExitStack() as stack,
        stream(server, **bearer("first")) as own,
        stream(server, **bearer("all")) as every,
    ):
        live = {name: Asker(server, **bearer(name)) for name in ("first", "all")}
        for one in live.values():
            stack.enter_context(one).connection.request("GET", "/live", headers=one.headers)
        heard = {name: one.connection.getresponse() for name, one in live.items()}
        watch.rows(np.random.default_rng(2))
        wanted = [one[0] for one in own_lines(watch, prefix, (), True)]
        found = [id for id, _ in own.events(len(wanted))]
        assert (found, order(found)) == (wanted, sorted(order(wanted)))
        assert every.events(1)
        text = heard["first"].readline() + heard["first"].readline()
        assert b'"objects"' not in text
        assert b'"snapshot"' in text
        other = FILE.replace('first   t-first   where="occupied = 0"', 'first t-first where="occupied = 1"')
        (tmp_path / "tokens").write_text(other)
        server.loop.call_soon_threadsafe(server.state.doors.reload)
        while own.block() is not None:
            pass
        assert heard["first"].read() is not None  # it ends
        until(lambda: len(server.state.showing.live) == 1)
        watch.rows(np.random.default_rng(3))
        assert every.events(1)
    assert ask("first", "/events?after=beginning&limit=100")[1]["events"] == []
