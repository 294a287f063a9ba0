"""Each format on a small dirty file of our own; `test_raw_samples.py` does the same on real ones."""

import gzip
import json
from datetime import UTC, datetime

import pytest

from datasets import aircraft, ais, cabspotting, capri, earthquakes, geolife, snap, tdrive, uber
from datasets.tables.command import BadInput
from datasets.tables.standard_rows import collect


def at(*moment):
    return datetime(*moment, tzinfo=UTC)


def read(module, files, *more):
    function = getattr(module, module.__name__.rsplit(".", 1)[1])
    table, counts = collect(function(files, *more), module.SCHEMA)
    assert table.schema == module.SCHEMA
    return table.to_pylist(), counts


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_cabspotting(tmp_path, newline):
    lines = ["37.75153 -122.39447 1 1211033530", "37.75149 -122.39447 0 1211033614", "37.7 0"]
    lines.append("37.8 -122.4 x 5")
    (tmp_path / "new_abboip.txt").write_text(newline.join(lines) + newline, newline="")
    (tmp_path / "new_zzz.txt").write_text("50.30546 -122.00204 0 1211602071", newline="")
    rows, counts = read(cabspotting, [tmp_path])
    assert rows[0] == {
        "id": 0,
        "uid": "abboip",
        "t": at(2008, 5, 17, 14, 12, 10),
        "lon": -122.39447,
        "lat": 37.75153,
        "occupied": 1,
    }
    assert [row["uid"] for row in rows] == ["abboip", "abboip", "abboip", "zzz"]
    assert [row["occupied"] for row in rows] == [1, 0, None, 0]
    assert (counts.read, counts.kept) == (5, 4)
    assert counts.dropped == {"wrong number of fields": 1}
    assert counts.flawed == {"occupied null: not a number of its type": 1}


HEAD = "Geolife trajectory\r\nWGS 84\r\nAltitude is in Feet\r\nReserved 3\r\n0,2,255,My Track\r\n0\r\n"


def test_geolife(tmp_path):
    folder = tmp_path / "Data" / "020" / "Trajectory"
    folder.mkdir(parents=True)
    points = [
        "39.984702,116.318417,0,492,39744.1201851852,2008-10-23,02:53:04",
        "400.166666666667,116.21539,0,0,40797.1415972222,2011-09-11,03:23:54",
        "39.897409,116.38381,0,-777,39861.0145486111,2009-02-17,00:20:57",
        "39.988992,116.327023,0,128.9,36526.9668865741,2000-01-01,23:12:19",
    ]
    (folder / "20081023025304.plt").write_text(HEAD + "\r\n".join(points) + "\r\n", newline="")
    rows, counts = read(geolife, [tmp_path])
    assert rows[0] == {
        "id": 0,
        "uid": 20,
        "t": at(2008, 10, 23, 2, 53, 4),
        "lon": 116.318417,
        "lat": 39.984702,
        "altitude_ft": 492.0,
    }
    assert [row["altitude_ft"] for row in rows] == [492, None, 128.9]
    assert counts.dropped == {"latitude out of range": 1}
    assert "lat=400.166666666667" in counts.examples["latitude out of range"]
    assert counts.flawed == {"time before 2007-04-01, a clock that was not set (time kept)": 1}
    alone = tmp_path / "trip.plt"
    alone.write_text(HEAD, newline="")
    assert read(geolife, [alone])[0] == []


def test_tdrive(tmp_path):
    lines = "1,2008-02-02 15:36:08,116.51172,39.92123\n1,2008-02-02 15:46:08,0.0,0.0\n\n"
    (tmp_path / "1.txt").write_text(lines)
    rows, counts = read(tdrive, [tmp_path])
    assert rows[0] == {"id": 0, "uid": 1, "t": at(2008, 2, 2, 7, 36, 8), "lon": 116.51172, "lat": 39.92123}
    assert counts.flawed == {"position (0, 0): legal, often a default": 1}
    assert counts.dropped == {"empty line": 1}


def test_snap(tmp_path):
    lines = (
        "0\t2010-10-19T23:55:27Z\t30.2359091167\t-97.7951395833\t22847\n"
        "1\t2008-10-18T22:17:43Z\t0.0\t0.0\t00000000000000000000000000000000\n"
        "2\t\t\t\t\n"
        "3\t2010-10-18T22:17:43Z\t-176.3\t40.5\tee8b88dea22411\n"
    )
    file = tmp_path / "loc-gowalla_totalCheckins.txt.gz"
    file.write_bytes(gzip.compress(lines.encode()))
    rows, counts = read(snap, [file])
    assert rows[0] == {
        "id": 0,
        "uid": 0,
        "t": at(2010, 10, 19, 23, 55, 27),
        "lon": -97.7951395833,
        "lat": 30.2359091167,
        "poi": "22847",
    }
    assert len(rows) == 2
    assert counts.dropped == {"no position": 1, "axes look swapped (|lat| > 90 and |lon| <= 90)": 1}


def test_capri(tmp_path):
    (tmp_path / "poiCoos.txt").write_text("0\t30.25\t-97.75\n1\t30.5\t-97.5\n2\t400.17\t0\n")
    checkins = "0\t1\t1236972291.0\n5\t0\t1236982803.0\n5\t2\t1\n5\t9\t1\nx\t0\t1\n"
    (tmp_path / "checkins.txt").write_text(checkins)
    rows, counts = read(capri, [tmp_path / "checkins.txt"], tmp_path)
    assert rows == [
        {"id": 0, "uid": 0, "t": at(2009, 3, 13, 19, 24, 51), "lon": -97.5, "lat": 30.5, "poi": "1"},
        {"id": 1, "uid": 5, "t": at(2009, 3, 13, 22, 20, 3), "lon": -97.75, "lat": 30.25, "poi": "0"},
    ]
    assert counts.dropped == {"place is not in the file of places": 2, "uid is not a whole number": 1}
    assert counts.notes == ("poiCoos.txt: 3 places, 1 of them without a legal position",)
    (tmp_path / "poiCoos.txt").write_text("")
    assert read(capri, [tmp_path / "checkins.txt"], tmp_path / "poiCoos.txt")[0] == []


def test_uber(tmp_path):
    file = tmp_path / "uber-raw-data-nov14.csv"
    file.write_text(
        '"Date/Time","Lat","Lon","Base"\n"4/1/2014 0:11:00",40.769,-73.9549,"B02512"\n'
        '"11/2/2014 1:30:00",40.769,-73.9549,"B02512"\n"2/30/2014 1:30:00",40.769,-73.9549,"B02512"\n'
    )
    rows, counts = read(uber, [tmp_path])
    assert rows[0] == {"id": 0, "t": at(2014, 4, 1, 4, 11), "lon": -73.9549, "lat": 40.769, "base": "B02512"}
    assert rows[1]["t"] == at(2014, 11, 2, 5, 30)
    assert counts.flawed == {
        "local time happened twice (clock put back), the first taken": 1,
        "time null: cannot be read": 1,
    }
    file.write_text("Dispatching_base_num,Pickup_date,Affiliated_base_num,locationID\n")
    with pytest.raises(BadInput, match="'Lon' is missing; the columns are Dispatching_base_num"):
        read(uber, [file])


QUAKES = (
    "time,latitude,longitude,depth,mag,net,id,updated,place,type",
    '2015-08-01T00:13:14.660Z,37.8196667,-112.9735,3.52,0.75,uu,uu1,x,"6km NE of Enoch, Utah",earthquake',
    '2015-08-01T00:23:01.590Z,-17.5,179.9747,39.32,,us,us2,x,"Fiji, ""near""",earthquake',
)


def test_earthquakes(tmp_path):
    file = tmp_path / "all_month.csv"
    file.write_text("\ufeff" + "\n".join(QUAKES), encoding="utf-8")
    rows, counts = read(earthquakes, [file])
    assert rows[0] == {
        "id": "uu1",
        "t": at(2015, 8, 1, 0, 13, 14, 660_000),
        "lon": -112.9735,
        "lat": 37.8196667,
        "depth_km": 3.52,
        "mag": 0.75,
        "text": "6km NE of Enoch, Utah",
    }
    assert (rows[1]["mag"], rows[1]["text"], counts.kept) == (None, 'Fiji, "near"', 2)


def test_ais(tmp_path):
    decoded = (
        ",id,mmsi,sog,x,y,cog,year,month,day,hour,minute,second\n"
        "0,1,258183000,0.0,16.5,68.8,182.3,,,,,,\n"
        "1,1,273367260,102.30000305175781,181.0,91.0,360.0,,,,,,\n"
        "2,4,2300078,,25.0,60.0,,2018.0,7.0,5.0,23.0,50.0,2.0\n"
        "3,4,2300079,102.30000305175781,25.0,60.0,360.0,0.0,0.0,0.0,24.0,60.0,60.0\n"
        "4,20,2300080,,,,,,,,,,\n"
    )
    (tmp_path / "a.csv").write_text(decoded)
    (tmp_path / "b.csv").write_text("t,oid,lon,lat,speed,course\n1494341250000,7,23.6,37.9,1.5,\n")
    rows, counts = read(ais, [tmp_path])
    assert [row["uid"] for row in rows] == [258183000, 2300078, 2300079, 7]
    assert [row["t"] for row in rows] == [None, at(2018, 7, 5, 23, 50, 2), None, at(2017, 5, 9, 14, 47, 30)]
    assert [row["speed_kn"] for row in rows] == [0, None, None, 1.5]
    assert [row["message"] for row in rows] == [1, 4, 4, None]
    assert [row["id"] for row in rows] == [0, 1, 2, 3]
    assert counts.dropped == {"AIS 'position not available' (lon 181 or lat 91)": 1, "no position": 1}
    (tmp_path / "c.csv").write_text("MMSI,LAT,LON\n")
    with pytest.raises(BadInput, match="neither mmsi, x, y nor oid, lon, lat"):
        read(ais, [tmp_path])


RECORDS = [
    {"timestamp": 1657712422000, "icao24": "4b1815", "latitude": 41.2385326321, "longitude": -8.6787622625},
    {"timestamp": 1657712423000, "icao24": "4b1815", "latitude": None, "longitude": None, "altitude": 350.0},
    {"timestamp": 1657712424000, "icao24": "4b1815", "latitude": 91.5, "longitude": "west"},
    {"timestamp": None, "icao24": "4b1815", "latitude": 41.5, "longitude": -8.5, "callsign": "SWR4"},
    {"timestamp": 1657712424000, "icao24": None, "latitude": 41.5, "longitude": -8.5},
]


@pytest.mark.parametrize("form", ["records", "columns", "packed"])
def test_aircraft(tmp_path, form):
    content = RECORDS
    if form != "records":
        names = dict.fromkeys(name for record in RECORDS for name in record)
        content = {name: {str(i): r.get(name) for i, r in enumerate(RECORDS)} for name in names}
    text = json.dumps(content)
    file = tmp_path / ("a.json.gz" if form == "packed" else "a.json")
    file.write_bytes(gzip.compress(text.encode()) if form == "packed" else text.encode())
    rows, counts = read(aircraft, [tmp_path])
    assert rows == [
        {
            "id": 0,
            "uid": "4b1815",
            "t": at(2022, 7, 13, 11, 40, 22),
            "lon": -8.6787622625,
            "lat": 41.2385326321,
            "altitude_ft": None,
            "groundspeed_kn": None,
            "text": None,
        },
        {
            "id": 1,
            "uid": "4b1815",
            "t": None,
            "lon": -8.5,
            "lat": 41.5,
            "altitude_ft": None,
            "groundspeed_kn": None,
            "text": "SWR4",
        },
    ]
    assert counts.dropped == {"no position": 1, "position is not a number": 1, "no uid": 1}
    assert counts.flawed == {"time null: none given": 1}


@pytest.mark.parametrize("text", ["", "{", "5", '{"a": 1}', '[{"icao24": "x"}]', "[]"])
def test_json_of_another_form_is_refused_in_one_line(tmp_path, text):
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(BadInput, match=r"a\.json") as error:
        read(aircraft, [tmp_path / "a.json"])
    assert "\n" not in str(error.value)
