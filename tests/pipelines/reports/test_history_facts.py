"""What the page tells is what is so: ours as questions are answered, the others by the model, shapes where they are."""

from __future__ import annotations

import json

import numpy as np
import pytest

from dtoss.errors import InputError
from dtoss.geometry.distance import distance
from dtoss.history.adaptive.layout_reads import layout_reads
from dtoss.history.adaptive.rivals import StorePrices, rival_layouts, sample_of
from dtoss.history.query.history import History
from dtoss.history.query.read_plan import read_over
from dtoss.history.questions import no_questions
from pipelines.history_report import history_report, prices_in
from pipelines.reports.history_facts import (
    adapting_of,
    asked_view,
    compared,
    drawn_versions,
    facts_of,
    frames_of,
    known_versions,
    own_reads,
    shapes_of,
    view_of,
)
from tests.dtoss.history.placed import discs_asked
from tests.dtoss.history.worlds import PLANE, SPHERE
from tests.pipelines.reports.histories import asked_history

SPACES = pytest.mark.parametrize("space", [PLANE, SPHERE], ids=["plane", "sphere"])


@pytest.fixture(scope="module", params=[PLANE, SPHERE], ids=["plane", "sphere"])
def asked(request, tmp_path_factory):
    """A home and its questions."""
    return asked_history(tmp_path_factory.mktemp("h"), request.param)


@pytest.fixture(scope="module")
def told(asked):
    """The facts of it."""
    home, questions = asked
    version = home.version()
    sample = sample_of(home, version)
    versions = known_versions(home, version)
    frames = frames_of(drawn_versions(versions, questions), questions, sample)
    return facts_of(
        version, questions, sample, frames, adapting_of(versions), shown="H", a_day=200.0, prices=StorePrices()
    )


def test_ours_is_what_answering_reads(asked):
    """Ranges and bytes that a question really reads, counted by the reader."""
    home, questions = asked
    version = home.version()
    reads, _ = own_reads(version, questions)
    history = History(home, version)
    ranges = np.flatnonzero(questions.kind == 0)
    assert len(ranges) == 40
    for row in ranges.tolist():
        place = version.schema.space.positions(questions.low[row : row + 1])
        between = [
            np.datetime64(int(moment), "us").item() for moment in (questions.first[row], np.floor(questions.last[row]))
        ]
        said = history.explain("range", place, 400.0, between=between)["read"]
        assert (said["ranges"], said["bytes"]) == tuple(reads[row].tolist())
    assert reads[ranges].sum() > 0


def test_a_day_costs_what_its_questions_cost(asked, told):
    """Means of the questions that are compared, times so many a day, at the prices; ours first, rivals as modelled."""
    home, questions = asked
    some = compared(questions)
    assert (told["questions"]["remembered"], told["questions"]["compared"]) == (100, 96)
    sample, gap = sample_of(home, home.version()), read_over(home.version())
    reads = {name: layout_reads(layout, some, gap)[:, 0] for name, layout in rival_layouts(sample).items()}
    reads = {"ours": own_reads(home.version(), some)[0], **reads}
    assert [one["name"] for one in told["contestants"]] == list(reads)
    prices, g = StorePrices(), told["requestBytes"]
    for one in told["contestants"]:
        requests, size = reads[one["name"]].mean(axis=0)
        assert one["requestsADay"] == pytest.approx(200 * requests)
        assert one["bytesADay"] == pytest.approx(200 * size)
        assert one["costAQuestion"] == pytest.approx(g * requests + size)
        assert one["readingDollarsADay"] == pytest.approx(200 * prices.for_reading(requests, size))
        assert one["dollarsADay"] == one["readingDollarsADay"] + one["keepingDollarsADay"]
        assert one["modelled"] is (one["name"] != "ours")
        total = sum(kind["questions"] * kind["costAQuestion"][one["name"]] for kind in told["kinds"])
        assert total / 96 == pytest.approx(one["costAQuestion"])
    kept = {one["name"]: one["bytesKept"] for one in told["contestants"]}
    assert kept["ours"] == sum((home.folder.sizes("time") | home.folder.sizes("place")).values()) - debris(home)
    assert kept["ours"] > kept["hours"] == kept["days"] == kept["z_order"]


def debris(home):
    """Bytes of files that the newest version does not have."""
    names = {name.partition("/")[2] for name in home.version().files.name}
    sizes = home.folder.sizes("time") | home.folder.sizes("place")
    return sum(size for name, size in sizes.items() if name not in names)


def test_orders_and_files_add_up(asked, told):
    """Every live byte stands in one order, every file in one class."""
    version = asked[0].version()
    assert {one["order"]: one["rows"] for one in told["orders"]} == {"time": version.rows, "place": version.rows}
    assert sum(one["bytes"] for one in told["orders"]) == version.leaves.bytes.sum()
    assert sum(one["files"] for one in told["files"]) == len(version.files.name)
    assert sum(one["bytes"] for one in told["files"]) == version.files.bytes.sum()
    assert all(one["liveBytes"] <= one["bytes"] for one in told["files"])


def test_frames_show_leaves_and_what_is_asked(asked, told):
    """2, 8 and 32 leaves, whose cells cover the map and do not overlap; more is read where more is asked."""
    frames = told["frames"]
    assert [(frame["version"], frame["what"], len(frame["leaves"])) for frame in frames] == [
        (2, "settle", 2), (3, "adapt", 8), (4, "adapt", 32),
    ]  # fmt: skip
    west, south, east, north = view_of(sample_of(asked[0], asked[0].version()))
    for frame in frames:
        cells = np.array([leaf["cell"] for leaf in frame["leaves"]])
        area = ((cells[:, 2] - cells[:, 0]) * (cells[:, 3] - cells[:, 1])).sum()
        assert area == pytest.approx((east - west) * (north - south) * 1.04**2)
        assert sum(leaf["rows"] for leaf in frame["leaves"]) == told["rows"]
        read = [leaf["rowsAQuestion"] for leaf in frame["leaves"]]
        assert (max(read) > 0) is (len(frame["shapes"]) > 0)  # all places at a time are read from the order by time
    # nobody asked version 1; what read version 2 led to the second frame
    assert [(frame["questions"], frame["wide"], len(frame["shapes"])) for frame in frames] == [
        (0, 0, 0), (90, 0, 90), (6, 6, 0),
    ]  # fmt: skip
    spot = np.array([(0.05, 0.05)]) * (1.0 if told["onEarth"] else 111_195.0)
    hot = [leaf for leaf in frames[1]["leaves"] if holds(leaf["cell"], spot[0])]
    assert hot[0]["rowsAQuestion"] > np.median([leaf["rowsAQuestion"] for leaf in frames[1]["leaves"]])


def holds(cell, place):
    return cell[0] < place[0] <= cell[2] and cell[1] < place[1] <= cell[3]


def test_a_version_that_moves_no_leaf_is_no_frame(tmp_path):
    """It takes the place of the one before it; of many versions some are drawn, the first and the last among them."""
    from tests.dtoss.history.placed import put_places
    from tests.dtoss.history.worlds import put_batch, schema_of, table_of

    home, questions = asked_history(tmp_path, PLANE, n=200)
    none = no_questions(2)
    put_batch(home, table_of(schema_of(PLANE), [1], [5], [(0, 0)]), schema_of(PLANE), "b")
    assert [version.number for version in drawn_versions(known_versions(home, home.version()), none)] == [2, 3, 5]
    for turn in range(9):
        put_places(home, 1 + turn % 2)
    drawn = [version.number for version in drawn_versions(known_versions(home, home.version()), none)]
    assert len(drawn) == 8
    assert (drawn[0], drawn[-1]) == (2, 14)
    # versions 2 and 3 were asked: of those after them the last one stands for all
    some = drawn_versions(known_versions(home, home.version()), questions)
    assert [version.number for version in some] == [2, 3, 14]


@SPACES
def test_shapes_lie_where_they_are_asked(space):
    """Circles by their radius, boxes by their corners, one box around several pieces, none at the antimeridian."""
    places = np.array([(10.0, 20.0), (-70.0, 60.0)])
    rings = shapes_of(discs_asked(space, places, [1000.0, 20.0], [(0, 1)] * 2), space)
    for place, radius, ring in zip(places, (1000.0, 20.0), rings, strict=True):
        away = distance(space.vectors(np.tile(place, (len(ring), 1))), space.vectors(ring))
        assert away == pytest.approx(np.full(len(ring), radius), rel=1e-4)
    several = discs_asked(space, [*places, *places], [1.0] * 4, [(0, 1)] * 4)
    names = ("number", "kind", "version", "ids", "first", "last")
    parts = [getattr(several, name)[:1] for name in names]
    one = type(several)(*parts, np.array([0, 2]), several.low[:2], several.high[:2], several.reach[:2])
    (ring,) = shapes_of(one, space)
    assert len(ring) == 4
    assert ring.min(axis=0) == pytest.approx([-70, 20], abs=1.1)
    assert ring.max(axis=0) == pytest.approx([10, 60], abs=1.1)
    if space is SPHERE:
        assert not shapes_of(discs_asked(space, [(180.0, 0.0)], [1000.0], [(0, 1)]), space)
    else:
        box = type(several)(*parts, np.array([0, 1]), np.array([[1.0, 2.0]]), np.array([[3.0, 5.0]]), np.zeros(1))
        assert shapes_of(box, space)[0].tolist() == [[1, 2], [3, 2], [3, 5], [1, 5]]


def test_the_map_from_near_lies_within_the_map():
    """Around most of what is asked; none where that is everywhere, or nothing."""
    view = (0.0, 0.0, 100.0, 50.0)
    rings = [[(2, 2), (4, 2), (4, 4)], [(3, 1), (5, 5), (3, 5)]]
    west, south, east, north = asked_view(rings, view)
    assert west >= 0 <= south
    assert (east - west) / (north - south) == pytest.approx(2)
    assert west <= 2.1 <= 4.9 <= east
    assert asked_view([], view) is None
    assert asked_view([[(0, 0), (90, 0), (50, 40)]], view) is None


def test_json_is_the_same(asked, tmp_path):
    """The file holds the facts; twice as many questions a day cost twice as much to read."""
    home, questions = asked
    page = history_report(home.path, str(tmp_path / "one"), questions=questions, a_day=500)
    said = json.loads(page.with_suffix(".json").read_text())
    twice = history_report(home.path, str(tmp_path / "two"), questions=questions, a_day=1000, version=3)
    more = json.loads(twice.with_suffix(".json").read_text())
    assert (said["version"], more["version"]) == (4, 3)
    assert [len(one["frames"]) for one in (said, more)] == [3, 2]
    assert more["contestants"][1]["readingDollarsADay"] == pytest.approx(
        2 * said["contestants"][1]["readingDollarsADay"]
    )
    for bad in (0, -1, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="a_day"):
            history_report(home.path, str(tmp_path / "three"), questions=questions, a_day=bad)
    assert not (tmp_path / "three").exists()


def test_nothing_asked_is_said(asked, tmp_path):
    """There is a page all the same, with the leaves."""
    home = asked[0]
    page = history_report(home.path, str(tmp_path), questions=no_questions(home.version().schema.space.dimension))
    assert "Nothing is remembered" in page.read_text()
    assert json.loads(page.with_suffix(".json").read_text())["contestants"] == []


def test_prices_of_ones_own(tmp_path):
    """Those that a file names; what it misspells is said."""
    file = tmp_path / "prices.json"
    file.write_text('{"per_machine_hour": 2, "date": "2026-11-01"}')
    assert (prices_in(str(file)).per_machine_hour, prices_in(str(file)).date) == (2, "2026-11-01")
    assert prices_in(str(file)).per_gigabyte_month == StorePrices().per_gigabyte_month
    for text in (
        '{"per_hour": 2}', "[]", "{", '{"per_machine_hour": "2"}', '{"date": 3}', '{"per_machine_hour": -1}',
        '{"bytes_a_second": 0}', '{"per_machine_hour": true}', '{"per_machine_hour": NaN}',
    ):  # fmt: skip
        file.write_text(text)
        with pytest.raises(InputError, match=r"prices\.json"):
            prices_in(str(file))
    with pytest.raises(InputError, match="gone"):
        prices_in(str(tmp_path / "gone"))
