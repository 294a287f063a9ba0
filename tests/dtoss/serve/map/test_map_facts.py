"""``/map``: all that the page needs first, held against the index and the files that it is made from."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

import ceps
import dtoss
from ceps.model.patterns_file import write_patterns
from dtoss.serve.core.server_settings import Settings
from dtoss.serve.reload.prepare import first_snapshot
from dtoss.serve.routes.map import MAP
from dtoss.serve.tiles.tiling import WHOLE_MAP, view_of
from dtoss.snapshots.store import Store
from dtoss.tiles.map_frame import mercator
from dtoss.tiles.sample import keys_of
from tests.ceps.instances import servers, waves
from tests.dtoss.serve import served
from tests.dtoss.serve.served import Asker, running, town
from tests.dtoss.serve.watched import OBJECTS, commit
from tests.examples import examples


@pytest.mark.parametrize("kind", ["sphere", "plane", "text ids"])
def test_what_the_page_is_told_of_a_snapshot(kind):
    index = town("plane" if kind == "plane" else "sphere", strings=kind == "text ids")
    with running(index) as server, Asker(server) as asker:
        told = asker.get("/map")
        frame = server.serving.now.tiles.frame
    assert not list(Draft202012Validator(MAP).iter_errors(told))
    wanted = {
        "snapshot": served.NAME, "commit": 1, "objects": len(index), "sites": index.sites, "partitions": 3,
        "crs": index.crs, "metric": index.space.metric, "unit": "units" if kind == "plane" else "m",
        "id_type": "string" if kind == "text ids" else "int64", "sample": 1, "nowhere": 0, "refused": None,
        "plan": None, "patterns": None, "report": None, "problems": [], "history": [], "token": False,
    }  # fmt: skip
    assert {name: told[name] for name in wanted} == wanted
    assert 0 <= told["age_seconds"] < 60
    columns = {one["name"]: one for one in told["columns"]}
    assert {name: one["kind"] for name, one in columns.items()} == {
        "speed": "number", "share": "number", "name": "text", "seen": "time", "free": "bool",
    }  # fmt: skip
    assert len(columns["speed"]["classes"]) == 8
    assert columns["name"]["classes"][-1] == "other"
    assert columns["free"]["classes"] == ["false", "true"]
    assert told["regions"]["objects"] == [facts.objects for facts in index.parts.facts]
    assert told["regions"]["sites"] == [facts.sites for facts in index.parts.facts]
    positions = np.concatenate([part.positions[: part.owned_objects] for part in index.parts.all()])
    west, south, east, north = told["view"]
    on_map = frame.lonlat_of(positions)
    assert on_map.min(axis=0) == pytest.approx([west, south], abs=1e-5)
    assert on_map.max(axis=0) == pytest.approx([east, north], abs=1e-5)
    places = frame.positions_of(np.array(told["regions"]["place"]))
    assert index.partitioning.nearest(index.space.vectors(places)).tolist() == [0, 1, 2]
    if kind == "plane":
        assert set(told["plane"]) == {"x0", "y1", "side"}
        assert told["plane"]["x0"] < positions[:, 0].min()
    else:
        assert told["plane"] is None
    assert told["layers"][0] == {
        "name": "objects", "path": f"/tiles/{served.NAME}/objects/{{z}}/{{x}}/{{y}}.mvt", "minzoom": 0, "maxzoom": 16,
    }  # fmt: skip
    assert {one["name"] for one in told["layers"]} == {"objects", "regions", "cells", "uncertified"}
    with running(index) as server, Asker(server) as asker:
        for layer in told["layers"]:
            z = layer["minzoom"]
            assert asker.raw(layer["path"].format(z=z, x=0, y=0))[0] == 200
        assert asker.raw("/map?snapshot=another")[0] == 410


def test_an_index_of_nothing_shows_the_whole_map():
    index = dtoss.build(np.zeros(0, np.int64), np.zeros((0, 2)))
    with running(index) as server, Asker(server) as asker:
        told = asker.get("/map")
    assert told["view"] == [*WHOLE_MAP]
    assert (told["objects"], told["columns"]) == (0, [])


LONLAT = st.tuples(st.floats(-180, 180), st.floats(-85, 85))


@settings(max_examples=examples(200), deadline=None)
@given(st.lists(LONLAT, min_size=1, max_size=8))
def test_a_view_holds_all_objects_and_is_as_narrow_as_can_be(places):
    """Across the antimeridian as well: no turn of the globe makes it narrower."""
    places = np.array(places)
    keys = np.sort(keys_of(mercator(places)))
    west, south, east, north = view_of(keys, round_world=True)
    assert -181 < west <= east < 541
    assert east - west < 360.001
    tolerance = 1e-5
    beyond = (places[:, 0] - west + tolerance) % 360.0
    assert (beyond <= east - west + 2 * tolerance).all()
    assert south - tolerance <= places[:, 1].min()
    assert places[:, 1].max() <= north + tolerance
    lon = np.sort(places[:, 0] % 360.0)
    narrowest = 360.0 - np.diff(lon, append=lon[0] + 360.0).max()
    assert east - west <= max(narrowest, 1e-3) + tolerance


def test_a_view_of_a_plane_does_not_go_round():
    """Also where the objects stand far apart."""
    places = np.array([[-149.0, 0.0], [-148.0, 1.0], [149.0, 2.0]])
    keys = np.sort(keys_of(mercator(places)))
    assert view_of(keys, round_world=False) == pytest.approx([-149.0, 0.0, 149.0, 2.0], abs=1e-5)
    assert view_of(keys, round_world=True) == pytest.approx([149.0, 0.0, 212.0, 2.0], abs=1e-5)


@pytest.fixture
def planned(tmp_path):
    """Files of a plan for the town, whose partitions and pivots it has."""
    patterns = replace(waves(3, 900.0), pivots_hash=town().partitioning.digest)
    write_patterns(tmp_path / "p.parquet", patterns)
    ceps.plan(patterns, None, servers()).save(tmp_path / "plan.json")
    (tmp_path / "report.html").write_text("<p>")
    return patterns, {
        "plan": str(tmp_path / "plan.json"), "patterns": str(tmp_path / "p.parquet"), "report": str(tmp_path),
    }  # fmt: skip


def test_plan_patterns_and_report_are_told(planned):
    patterns, options = planned
    with running(town(), **options) as server, Asker(server) as asker:
        told = asker.get("/map")
        assert told["report"] == "/report/"
        assert told["plan"]["file"] == "plan.json"
        assert told["plan"]["stale"] is None
        assert len(told["plan"]["server_of"]) == 3
        assert told["patterns"]["slots"] == 24
        assert told["patterns"]["peak"] == patterns.loads.max()
        for slot in (0, 23):
            found = asker.get("/map/load", slot=slot)
            assert found["slot"] == slot
            assert found["load"] == pytest.approx(patterns.loads[:, slot].tolist(), abs=1e-3)
        for slot in ("24", "-1", "x", None):
            status, _, body = asker.raw("/map/load" if slot is None else f"/map/load?slot={slot}")
            assert (status, json.loads(body)["limit"]) == (400, "slot")
        # another file takes its place
        path = Path(options["plan"])
        said = json.loads(path.read_text()) | {"pivots_hash": "ff" * 8, "cost_per_day": 1_234.5}
        path.write_text(json.dumps(said))
        told = asker.get("/map")
        assert told["plan"]["cost"] == 1_234.5
        assert "other regions" in told["plan"]["stale"]
        path.write_text("{")
        for _ in range(2):
            told = asker.get("/map")
        assert told["plan"]["cost"] == 1_234.5
        assert len(told["problems"]) == 1
        assert told["problems"][0].startswith("--plan is kept as it was")
        assert [facts["detail"] for what, facts in server.heard.events if what == "file not read"] == told["problems"]
    with running(town()) as server, Asker(server) as asker:
        assert asker.raw("/map/load?slot=0")[0] == 404


def test_history_and_bytes_are_those_of_the_store(tmp_path):
    """The last commits, newest first, also when others have come; what was known while the store is away."""
    for seed in range(3):
        commit(tmp_path / "store", seed)
    store = str(tmp_path / "store")
    fresh = first_snapshot(Settings(store))
    with running(town()) as server, Asker(server) as asker:
        assert asker.get("/map")["history"] == []
    with running(town(), store=store) as server, Asker(server) as asker:
        server.loop.call_soon_threadsafe(server.serving.replace, fresh)
        told = asker.get("/map")
        assert (told["snapshot"], told["objects"]) == (fresh.name, OBJECTS)
        commits = list(Store(store).chain.newest_first())
        assert [one["number"] for one in told["history"]] == [3, 2, 1]
        assert [one["snapshot"] for one in told["history"]] == [one.document["snapshot"] for one in commits]
        assert {one["kind"] for one in told["history"]} == {"rebuild"}
        assert set(told["history"][0]) == {"number", "time", "kind", "snapshot", "objects", "updated", "seconds"}
        entries = Store(store).manifest(fresh.name)["partitions"]
        assert told["regions"]["bytes"] == [entry["bytes"] for entry in entries]
        (tmp_path / "store").rename(tmp_path / "away")
        server.loop.call_soon_threadsafe(server.serving.replace, replace(fresh, commit=4))
        assert len(asker.get("/map")["history"]) == 3
