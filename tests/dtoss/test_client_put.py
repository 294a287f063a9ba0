"""Frames that are put: sent as plain columns in pieces, again where a server is busy, with what became of each row."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime

import geopandas
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import dtoss
from dtoss.client.endpoint import address_of
from dtoss.client.http_connections import Answer, Connections
from dtoss.client.put_rows import Put, put_table, table_of_rows
from dtoss.client.remote_server import Server
from dtoss.fresh.intake import Away, Busy
from dtoss.geometry.space import space_of
from dtoss.serve.core.server_settings import Limits
from tests.dtoss.serve.served import Intake, running, town

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
COLUMNS = {"speed": [3, None], "share": [0.5, 1.0], "name": ["a", "b"], "seen": [NOW, NOW], "free": [True, False]}
ROWS = {"id": [7, 8], "lon": [10.5, 10.6], "lat": [50.0, 50.1], "t": [NOW, NOW], **COLUMNS}
NOBODY = Put(2, 2, 0, 0, 0, ())


@pytest.fixture(scope="module")
def index():
    return town(objects=50)


def url_of(server):
    return "http://{}:{}".format(*server.at)


def server_of(remote):
    return Server(Connections(address_of(remote.url), None, 60.0), None)


@pytest.fixture
def there(index):
    """A server that takes rows, and an index of it."""
    with running(index, allow_positions=True, intake=Intake()) as server:
        yield server, dtoss.connect(url_of(server))


def frames():
    plain = pa.table(ROWS)
    frame = pd.DataFrame(ROWS).astype({"speed": "Int64", "name": "category"})
    points = geopandas.GeoDataFrame(
        frame.drop(columns=["lon", "lat"]), geometry=geopandas.points_from_xy(ROWS["lon"], ROWS["lat"]), crs="EPSG:4326"
    )
    return {
        "mapping": ROWS, "arrow": plain, "pandas": frame, "index": frame.set_index("id"), "polars": pl.DataFrame(plain),
        "points": points, "categories": plain.set_column(6, "name", plain["name"].dictionary_encode()),
    }  # fmt: skip


@pytest.mark.parametrize("kind", frames())
def test_any_frame_is_put(there, kind):
    server, remote = there
    assert remote.put(frames()[kind]) == NOBODY
    assert server.state.intake.rows == [row | {"deleted": False} for row in pa.table(ROWS).to_pylist()]


def test_bad_rows_are_told_by_their_place_in_the_frame(there):
    """Also where a whole piece is bad; the others are taken."""
    server, remote = there
    many = {name: values * 3 for name, values in ROWS.items()}
    many["lon"] = [10.5, 190.0, 190.0, None, 10.5, 10.6]
    done = put_table(server_of(remote), table_of_rows(many, remote.space, ("lon", "lat")), 0.0, most=2)
    assert (done.taken, done.seq, done.bad) == (3, 3, 3)
    assert done.refused == ((1, "longitude out of range"), (2, "longitude out of range"), (3, "no position"))
    assert [row["id"] for row in server.state.intake.rows] == [7, 7, 8]


class Offsets(Intake):
    """Notes which offsets came with how many rows."""

    def __init__(self):
        super().__init__()
        self.came = []

    async def put(self, rows, upto=None):
        self.came.append((len(rows), upto and upto.offsets))
        return await super().put(rows, upto)


def test_offsets_go_with_the_last_piece(index):
    """Not before it, whatever of it is bad; those of more parts than a URL holds follow."""
    many, parts = {name: values * 3 for name, values in ROWS.items()}, dict.fromkeys(range(201), 7)
    with running(index, allow_positions=True, intake=Offsets(), limits=Limits(rows=2)) as server:
        remote = dtoss.connect(url_of(server))
        assert remote.put(many, source="s", offsets=parts).taken == 6
        assert remote.put(ROWS | {"lon": [200.0, 200.0]}, source="s", offsets={0: 8}).bad == 2
        first, last = ({part: parts[part] for part in some} for some in (range(200), (200,)))
        assert server.state.intake.came == [(2, None), (2, None), (2, first), (0, last), (0, {0: 8})]
        assert remote.put_offsets("s") == parts | {0: 8}


def test_pieces_are_smaller_where_a_server_takes_fewer(index):
    with running(index, allow_positions=True, intake=Intake(), limits=Limits(rows=3)) as server:
        many = {name: values * 10 for name, values in ROWS.items()}
        assert dtoss.connect(url_of(server)).put(many).taken == 20
    with running(index, allow_positions=True, intake=Intake(), limits=Limits(rows=3, body_bytes=2_500)) as server:
        assert dtoss.connect(url_of(server)).put(many).taken == 20


def test_rows_are_sent_again_while_a_server_is_busy_or_away(index):
    waited = []
    intake = Intake(Busy("many wait", 2.5), Away("it is begun"), Busy("many wait", 60.0))
    with running(index, allow_positions=True, intake=intake) as server:
        remote = dtoss.connect(url_of(server))
        table = table_of_rows(ROWS, remote.space, ("lon", "lat"))
        with pytest.raises(dtoss.DtossError, match="many wait"):
            put_table(server_of(remote), table, 30.0, wait=waited.append)
        assert waited == [3.0, 1.0]
        assert put_table(server_of(remote), table, 30.0, wait=waited.append) == NOBODY


def test_what_cannot_be_put_says_why(index, there):
    _, remote = there
    with pytest.raises(ValueError, match="no rows"):
        remote.put({name: values[:0] for name, values in ROWS.items()})
    with pytest.raises(ValueError, match="is no frame"):
        remote.put(7)
    with pytest.raises(dtoss.DtossError, match="no column 'speed'"):
        remote.put({name: ROWS[name] for name in ROWS if name != "speed"})
    shapes = geopandas.GeoDataFrame({"id": [1]}, geometry=geopandas.points_from_xy([1.0], [2.0]), crs="EPSG:3857")
    with pytest.raises(ValueError, match="EPSG:3857"):
        remote.put(shapes)
    with running(index, intake=Intake()) as server, pytest.raises(dtoss.DtossError, match="--allow-positions"):
        dtoss.connect(url_of(server)).put(ROWS)


def test_points_without_a_place_are_null():
    frame = geopandas.GeoDataFrame({"id": [1, 2]}, geometry=geopandas.points_from_xy([1.0, np.nan], [2.0, np.nan]))
    table = table_of_rows(frame.set_crs("EPSG:4326"), space_of(None, None), ("x", "y"))
    assert table.select(["x", "y"]).to_pylist() == [{"x": 1.0, "y": 2.0}, {"x": None, "y": None}]


def test_questions_name_the_row_that_they_want(there):
    """Unless they name a snapshot, which holds what it holds."""
    _, remote = there
    targets = []

    class Heard:
        def ask(self, method, target, *others):
            targets.append(target)
            return Answer("", "a", None, b"")

    Server(Heard(), None, 7).ask("GET", "/knn", {"k": 1})
    Server(Heard(), None, 7).ask("GET", "/knn", {"k": 1}, "b")
    Server(Heard(), None).ask("GET", "/knn", {"k": 1})
    assert targets == ["/knn?k=1&min_seq=7", "/knn?k=1&snapshot=b", "/knn?k=1"]
    later = pickle.loads(pickle.dumps(remote.at_least(7)))
    with pytest.raises(ValueError, match="min_seq needs a server of --updates"):
        later.knn([[10.0, 50.0]])
    assert len(later.at_least(None)) == len(remote)
    with pytest.raises(ValueError, match="seq is -1"):
        remote.at_least(-1)
    with pytest.raises(ValueError, match="name one"):
        dtoss.connect(remote.url, snapshot=remote.snapshot).at_least(7)
