"""Rows of positions over HTTP: judged as rows of files are, and acknowledged by whoever writes the log."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pyarrow as pa
import pytest

import dtoss
from dtoss.errors import InputError
from dtoss.fresh.intake import Away, Busy
from dtoss.serve.auth.admission import Doors
from dtoss.serve.core.server_settings import Limits
from tests.dtoss.serve.served import Asker, Intake, running, town

ARROW = "application/vnd.apache.arrow.stream"
LINES = "application/x-ndjson"
NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
REST = {"speed": 3, "share": 0.5, "name": "é", "seen": "2026-01-01T11:00:00Z", "free": True}
ROW = {"id": 7, "lon": 10.5, "lat": 50, "t": "2026-01-01T12:00:00Z", **REST}
TAKEN = {"id": 7, "lon": 10.5, "lat": 50.0, "t": NOW, **REST, "seen": NOW.replace(hour=11), "deleted": False}


@pytest.fixture(scope="module")
def index():
    return town(objects=50)


@pytest.fixture
def server(index):
    with running(index, allow_positions=True, intake=Intake()) as found:
        yield found


def tell(server, body, kind="application/json", **headers):
    """The status and what is said; never that the server has failed."""
    body = body if isinstance(body, bytes) else json.dumps(body).encode()
    with Asker(server) as asker:
        status, _, said = asker.raw("/positions", "POST", body, content_type=kind, **headers)
    assert status != 500, said
    return status, json.loads(said)


def stream(table, **options):
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def table(**columns):
    return pa.table({name: pa.array([value]) for name, value in (TAKEN | columns).items()})


def test_rows_are_taken_in_each_form_of_a_body(server):
    """As the log has them: of the store's types, whatever a form knows of types."""
    pretty = json.dumps([ROW, ROW], indent=2).encode()
    bodies = [
        (ROW, "application/json", 1), ([ROW, ROW], "application/json", 2), (pretty, "application/json", 2),
        (json.dumps(ROW, indent=1).encode(), "application/json", 1),
        (b"\n".join([json.dumps(ROW).encode()] * 3) + b"\n", LINES, 3),
        (b"\xef\xbb\xbf" + json.dumps(ROW).encode() + b"\r\n\r\n" + json.dumps(ROW).encode(), "application/jsonl", 2),
        (b"\n".join([json.dumps(ROW).encode()] * 2), "", 2), (stream(table()), ARROW, 1),
        (stream(table(t=NOW.replace(tzinfo=None), speed=3.0, id="7", more=[1])), ARROW, 1),
    ]  # fmt: skip
    count = 0
    for body, kind, rows in bodies:
        count += rows
        wanted = {"taken": rows, "seq": count, "late": 0, "unchanged": 0, "bad": 0, "refused": []}
        assert tell(server, body, kind) == (200, wanted), (body, kind)
    assert server.state.intake.rows == [TAKEN] * count


def test_a_source_is_told_where_it_goes_on(server):
    """Offsets go to the log with their rows, or alone; what cannot be meant is 400, and so is an empty body without."""

    def ask(query, body):
        with Asker(server) as asker:
            status, _, said = asker.raw(f"/positions?{query}", "POST", body, content_type="application/json")
        return status, json.loads(said)

    row, bad = json.dumps(ROW).encode(), json.dumps(ROW | {"lat": 91}).encode()
    assert "offsets" not in ask("", row)[1]
    for query, body, taken, offsets in (
        ("source=a", b"", 0, ""), ("source=a&offsets=0:7,3:1", row, 1, "0:7,3:1"), ("source=b", row, 1, ""),
        ("source=a&offsets=0:9", b"", 0, "0:9,3:1"), ("source=a", b"", 0, "0:9,3:1"),
        ("source=a&offsets=0:10", bad, 0, "0:10,3:1"),
    ):  # fmt: skip
        status, said = ask(query, body)
        assert (status, said["taken"], said["offsets"]) == (200, taken, offsets)
    assert len(server.state.intake.rows) == 3
    remote, many = dtoss.connect("http://{}:{}".format(*server.at)), {part: 10**15 + part for part in range(999)}
    assert remote.put_offsets("b") == {}
    assert remote.put_offsets("b", many) == remote.put_offsets("b") == many
    with_rows = {part: offset + 1 for part, offset in many.items()}
    rows = pa.table({name: [value] * 5 for name, value in (ROW | {"t": NOW, "seen": NOW}).items()})
    assert remote.put(rows, source="b", offsets=with_rows).taken == 5
    assert remote.put_offsets("b") == with_rows
    with pytest.raises(InputError, match="parts below 10,000"):
        remote.put_offsets("b", {10_000: 1})
    for query, body in (("source=", row), ("offsets=0:1", row), ("source=a&offsets=x", row), ("", b""),
                        ("source=a", bad), ("source=a&offsets=0:1", b"[]")):  # fmt: skip
        assert ask(query, body)[0] == 400, query


def test_a_deletion_needs_an_id_and_a_time(server):
    gone = {"id": 7, "t": ROW["t"], "deleted": True}
    assert tell(server, gone)[1]["taken"] == 1
    assert tell(server, [ROW | {"deleted": False}, gone])[1]["taken"] == 2
    assert server.state.intake.rows[1] == TAKEN
    assert [row["deleted"] for row in server.state.intake.rows] == [True, False, True]
    assert {row["lon"] for row in server.state.intake.rows if row["deleted"]} == {None}


BAD = [
    (ROW | {"id": None}, "no id"), (ROW | {"id": "x"}, "id is not an integer as the others are"),
    (ROW | {"t": None}, "no time"), (ROW | {"t": "soon"}, "time cannot be read"),
    (ROW | {"t": "9000-01-01"}, "time is ahead of now"), (ROW | {"lat": None}, "no position"),
    (ROW | {"lon": "east"}, "position is not a number"), (ROW | {"lon": 181}, "longitude out of range"),
    (ROW | {"lat": -90.5}, "latitude out of range"), (ROW | {"deleted": "perhaps"},
     "mark of a deletion is neither true nor false"),
    (ROW | {"speed": 1.5}, "value is of another type than the column"),
    (ROW | {"free": "maybe"}, "value is of another type than the column"),
    (ROW | {"seen": "then"}, "value is of another type than the column"),
    ([1], "unreadable line"),
]  # fmt: skip


def test_bad_rows_are_named_and_the_others_are_taken(server):
    rows = [ROW, *(row for row, _ in BAD), ROW]
    status, said = tell(server, b"\n".join(json.dumps(row).encode() for row in rows), LINES)
    assert (status, said["taken"], said["bad"]) == (200, 2, len(BAD))
    assert said["refused"] == [{"row": i, "reason": reason} for i, (_, reason) in enumerate(BAD, 2)]
    assert server.state.intake.rows == [TAKEN, TAKEN]
    for row, reason in BAD:
        status, said = tell(server, json.dumps(row).encode(), LINES)
        assert (status, said["rows"]) == (400, [{"row": 1, "reason": reason}])
    status, said = tell(server, [ROW, *[{"id": 1}] * 150])
    assert (said["bad"], len(said["refused"])) == (150, 100)


HOSTILE = [
    b"", b" \n", b"[]", b"{}", b"[{}]", b"[", b"{", b"nan", b'{"id":1e400}', b'{"id":1,"id":2}', b"[" * 100_000,
    b'{"id":' + b"[" * 5_000 + b"]" * 5_000 + b"}", b'{"id":' + b"9" * 5_000 + b"}", b'{"id":"\\ud800"}', b"\xff\xfe{",
    b'{"id":"\xff"}', b"\x00", b'{"lon":NaN,"lat":-Infinity}', b'{"id":{"a":{}},"t":[]}', b'{"":1,"a.b":2,"`":3}',
    b'"x"', b"1\n2", b'{"id":1}{"id":2}', b'[{"id":1},]', b"PAR1",
]  # fmt: skip


@pytest.mark.parametrize("kind", ["application/json", LINES, ARROW])
def test_hostile_bodies_are_refused_in_a_line(server, kind):
    for body in HOSTILE:
        status, said = tell(server, body, kind)
        assert status in (400, 422), (body[:40], said)
        assert "\n" not in said["detail"]
    assert server.state.intake.rows == []


def test_odd_values_are_one_row_s(server):
    odd = [b'{"id":1e400}', b'{"id":"\\ud800"}', b"\xff", b"[[[[", b'{"id":' + b"9" * 5_000 + b"}"]
    status, said = tell(server, b"\n".join([*odd, json.dumps(ROW).encode()]), LINES)
    assert (status, said.get("taken"), said.get("bad")) == (200, 1, len(odd)), said


def test_odd_arrow_is_refused_in_a_line(server):
    good = table()
    many = pa.table({"id": pa.nulls(1 << 20)})
    bodies = [
        stream(good.set_column(0, "id", good["id"].cast(pa.string()).dictionary_encode())),
        stream(good, compression="zstd"), stream(good)[:-100], stream(good)[:200], stream(many),
        stream(table(id=1.5)), stream(table(t=5)), stream(table(free=[True])), stream(table(speed=NOW.time())),
        stream(table(name=b"x")), stream(good.drop_columns(["speed"])),
        stream(good.append_column("id", good["id"])), stream(good.slice(0, 0)), stream(pa.table({"a": [1]})),
        stream(table(lon=float("nan"))), stream(table(lon=float("inf"))),
    ]  # fmt: skip
    for number, body in enumerate(bodies):
        status, said = tell(server, body, ARROW)
        assert status in (400, 413, 422), (number, said)
        assert "\n" not in said["detail"]
    blob = bytearray(stream(pa.table({**{n: good[n] for n in good.column_names}})))
    for at in range(0, len(blob), 7):  # whatever byte is another one
        broken = bytes(blob[:at]) + bytes([blob[at] ^ 0xFF]) + bytes(blob[at + 1 :])
        assert tell(server, broken, ARROW)[0] in (200, 400, 413, 422), at


def test_columns_that_are_missing_spoil_the_request(server):
    status, said = tell(server, {name: value for name, value in ROW.items() if name != "name"})
    assert status == 422
    assert "no column 'name'" in said["detail"]
    assert tell(server, ROW | {"t": 5})[0] == 422
    assert tell(server, [ROW | {"id": 1.5}])[0] == 422


def test_rows_and_bytes_are_bounded(index):
    with running(index, allow_positions=True, intake=Intake(), limits=Limits(rows=2, body_bytes=2_000)) as server:
        for body, kind in (
            ([{}] * 3, "application/json"), (b"{}\n" * 3, LINES), (stream(pa.table({"id": [1, 2, 3]})), ARROW),
        ):  # fmt: skip
            status, said = tell(server, body, kind)
            assert (status, said["limit"]) == (413, "rows"), said
        line = json.dumps(ROW).encode()
        assert tell(server, b"\n".join([line, b"", line, b" "]), LINES)[0] == 200
        status, said = tell(server, b"[" + b"[%b]" % b",".join([line] * 3) + b"]")
        assert (status, said["limit"]) == (413, "rows")


def test_who_writes_the_log_may_be_busy_or_away(index):
    intake = Intake(Busy("100 rows wait", 1.2), Away("it is being started"))
    with running(index, allow_positions=True, intake=intake) as server, Asker(server) as asker:
        for status, after in ((429, "2"), (503, "1")):
            found, headers, said = asker.raw("/positions", "POST", json.dumps(ROW).encode())
            assert (found, headers["retry-after"], json.loads(said)["limit"]) == (status, after, "positions")
        assert tell(server, ROW)[0] == 200


def test_who_may_tell(index, tmp_path):
    """Not without the option, without tokens not a page of another site, with tokens one that has the word."""
    with running(index, intake=Intake()) as server:
        status, said = tell(server, ROW)
        assert (status, said["limit"]) == (403, "positions")
        assert "--allow-positions" in said["detail"]
    (tmp_path / "tokens").write_text("reader r1\ngate g1 positions\n")
    with running(index, allow_positions=True, intake=Intake(), doors=Doors(str(tmp_path / "tokens"))) as server:
        assert tell(server, ROW)[0] == 401
        assert tell(server, ROW, authorization="Bearer r1")[0] == 403
        assert tell(server, ROW, authorization="Bearer g1")[0] == 200
    doors = Doors(origins=["https://map.example.org"])
    with running(index, allow_positions=True, intake=Intake(), doors=doors) as server:
        here = "http://{}:{}".format(*server.at)
        for origin in ("https://evil.example", "null"):
            assert tell(server, ROW, origin=origin)[0] == 403
        for origin in (here, "https://map.example.org"):
            assert tell(server, ROW, origin=origin)[0] == 200
        assert tell(server, ROW, "text/plain")[0] == 415
