"""Files that are read whole as tables: Arrow IPC, GeoJSON of points, GPX; and text that is packed by Zstandard."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.feather
import pytest

from dtoss.errors import InputError
from dtoss.rows.input_columns import Columns
from pipelines.rows.inputs import look
from pipelines.rows.read_files import read_positions
from tests.pipelines.rows.reading import read_rows, rows_of

ROWS = pa.table(
    {
        "id": pa.array([1, 2, 3], pa.uint16()),
        "lon": [8.5, None, 200.0],
        "lat": [47.0, 1.0, 2.0],
        "t": pa.array([1_700_000_000_000_000_999] * 3, pa.timestamp("ns", "Europe/Berlin")),
        "kind": pa.array(["taxi", "bus", "taxi"]).dictionary_encode(),
    }
)
GPX = """<?xml version="1.0"?><gpx version="1.1" xmlns="http://www.topografix.com/GPX/1/1">
<wpt lat="1.5" lon="2.5"><name>a tree</name></wpt>
<trk><name>run</name><trkseg><trkpt lat="47" lon="8"><ele>440.5</ele><time>2026-11-01T10:00:00Z</time></trkpt>
<trkpt lat="47.1" lon="8"><time>2026-11-01T10:00:01.5+01:00</time></trkpt></trkseg></trk>
<trk><trkseg><trkpt lat="91" lon="8"><time>2026-11-01T10:00:00Z</time></trkpt>
<trkpt lat="x" lon="8"/><trkpt lat="47" lon="8"><time>noon</time></trkpt></trkseg></trk></gpx>"""


def feature(place, **others):
    geometry = None if place is None else {"type": "Point", "coordinates": place}
    return {"type": "Feature", "geometry": geometry, "properties": {"name": "é", "n": 1}, **others}


FEATURES = [feature([8.5, 47.0, 400], id="a"), feature(None, id="b"), feature([1, 2], properties={"n": 2.5, "id": "c"})]
FEATURES += [feature(None, id="e", geometry=[1]), feature(["1", 2], id="f"), feature([True, 2], id="g")]
FEATURES.append(feature([10**400, 2], id="h", properties=[]))
FEATURES.append(feature(None, id="i", geometry={"type": "Circle", "coordinates": [1, 2]}))
FEATURES.append(feature([0, 0], id="d", geometry={"type": "LineString", "coordinates": [[0, 0], [1, 1]]}))


def write_arrow(path):
    with pa.ipc.new_file(path, ROWS.schema) as file:
        file.write_table(ROWS)


def write_stream(path):
    with pa.ipc.new_stream(path, ROWS.schema) as file:
        file.write_table(ROWS)


WRITTEN = {
    "a.arrow": write_arrow,
    "a.arrows": write_stream,
    "a.feather": lambda path: pa.feather.write_feather(ROWS, path),
    "a.geojson": lambda path: path.write_text(json.dumps({"type": "FeatureCollection", "features": FEATURES})),
    "a.geojsonl": lambda path: path.write_text("\n".join(map(json.dumps, FEATURES))),
    "a.gpx": lambda path: path.write_text(GPX),
}
READ = {
    "arrow": ({1: (8.5, 47.0)}, {"no position": 1, "longitude out of range": 1}),
    "geojson": ({"a": (8.5, 47.0), "c": (1.0, 2.0)}, {"no position": 7}),
    "gpx": ({"run": (8.0, 47.0)}, {"no time": 2, "time cannot be read": 1, "latitude out of range": 1}),
}


def seen(rows):
    return {row["id"]: (row["lon"], row["lat"]) for row in rows.good.to_pylist()}


@pytest.mark.parametrize("name", WRITTEN)
def test_points_of_a_table(tmp_path, name):
    """What each row is, and why it is set aside."""
    WRITTEN[name](tmp_path / name)
    inputs = look([str(tmp_path / name)])
    good, bad = rows_of(screened(inputs))
    wanted, reasons = READ[inputs.kind]
    found = {row["id"]: (row["x"], row["y"]) for row in good.to_pylist()}
    assert found.keys() == wanted.keys()
    assert inputs.kind == "gpx" or found == wanted
    assert {reason: sum(why == reason for why, _ in bad) for reason in reasons} == reasons
    assert len(bad) == sum(reasons.values())
    if inputs.kind == "gpx":
        assert sorted(good["t"].to_pylist()) == [
            datetime(2026, 11, 1, 9, 0, 1, 500_000, UTC), datetime(2026, 11, 1, 10, 0, 0, 0, UTC),
        ]  # fmt: skip
        assert good["a:ele"].to_pylist() == [440.5, None]
        assert good["a:t"].equals(good["t"])


def screened(inputs):
    from dtoss.geometry.space import space_of
    from pipelines.rows.position_frame import screen_positions

    return screen_positions(read_positions(None, inputs, Columns()), space_of())


def test_text_packed_as_zst(session, tmp_path):
    for ending, text in (("csv", "id,lon,lat\n1,2,3\n"), ("jsonl", '{"id": 1, "lon": 2.0, "lat": 3}\n')):
        packed = tmp_path / f"a.{ending}.zst"
        with pa.output_stream(str(packed), compression="zstd") as stream:
            stream.write(text.encode())
        assert seen(read_rows(session, packed)) == {1: (2.0, 3.0)}


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        ("a.arrow", b"no table", "a.arrow cannot be read as arrow"),
        ("a.geojson", b"{", "a.geojson: it is not JSON: .* at column 2"),
        ("a.geojsonl", b'{"type": "Feature"}\n{', "a.geojsonl, line 2: it is not JSON: .* at column 2"),
        ("a.geojson", b'{"type": "Feature"}\n{"type": "Point"}', "a.geojson, line 2 is no feature"),
        (
            "a.geojson",
            b'{"type": "FeatureCollection", "features": [], "crs": {"properties": {"name": "EPSG:3857"}}}',
            "a.geojson states the CRS EPSG:3857, and lon and lat",
        ),
        ("a.geojson", b'{"type": "FeatureCollection"}', "without a list of features"),
        ("a.gpx", b"<gpx><trk>", "a.gpx is no GPX"),
    ],
)
def test_what_is_none_of_them_is_said(tmp_path, name, data, words):
    (tmp_path / name).write_bytes(data)
    with pytest.raises(InputError, match=words):
        look([str(tmp_path / name)])
