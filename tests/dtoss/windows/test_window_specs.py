"""What windows are asked for: durations, measures and keys read, and each bad one named in a line."""

from __future__ import annotations

import json

import pytest

from dtoss.errors import StoreError
from dtoss.geometry.space import space_of
from dtoss.windows.durations import duration_of, duration_text
from dtoss.windows.measures import MEASURES
from dtoss.windows.spec import MOST_PANES, Spec, spec_of

SPHERE = space_of("EPSG:4326")
MINUTE, HOUR = 60_000_000, 3_600_000_000


def spec(lengths="5min,15min,1h,24h", slide="1min", measures="rows", by="partition", **options):
    return spec_of(lengths, slide, measures, by, SPHERE, "abc", **options)


@pytest.mark.parametrize(
    ("text", "microseconds"),
    [("5min", 5 * MINUTE), ("1h", HOUR), ("24h", 24 * HOUR), ("2d", 48 * HOUR), ("500ms", 500_000),
     ("1.5h", 90 * MINUTE), (" 60s ", MINUTE), (".001ms", 1), ("0.1s", 100_000)],
)  # fmt: skip
def test_durations_are_whole_microseconds(text, microseconds):
    assert duration_of(text, "--slide") == microseconds
    assert duration_of(duration_text(microseconds), "--slide") == microseconds


@pytest.mark.parametrize(
    "text", ["", "5", "5 m", "5m", "-5min", "0min", "0s", "1e3s", "inf", "five min", "5min5", "1.0001ms", "9999999999d"]
)
@pytest.mark.parametrize("option", ["lengths", "slide", "late", "max_gap", "expire", "max_ahead", "delay"])
def test_what_is_no_duration_is_named_with_its_option(text, option):
    if option in ("late", "delay", "max_ahead") and text in ("0min", "0s"):
        assert getattr(spec(**{option: text}), option) == 0
        return
    with pytest.raises(ValueError, match=f"--{option.replace('_', '-')} is '") as caught:
        spec(**{option: text})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"lengths": "5min,300s"}, "5min and 300s, which are the same"),
        ({"measures": "rows,speeds"}, f"'speeds': there are {', '.join(MEASURES)}"),
        ({"measures": ""}, "there are rows, objects"),
        ({"by": "city"}, "'city': there are partition, sites:FILE, polygons:FILE.geojson, h3:RES"),
        ({"by": "partition:3"}, "there are partition"),
        ({"by": "sites:"}, "there are partition"),
        ({"by": "h3:16"}, "from 0 to 15"),
        ({"by": "h3:x"}, "from 0 to 15"),
        ({"witnesses": "0%"}, "a share such as 1%"),
        ({"witnesses": "101%"}, "a share such as 1%"),
        ({"witnesses": "2.5"}, "a share such as 1%"),
        ({"witnesses": "many"}, "a share such as 1%"),
        ({"witnesses": "1/0"}, "a share such as 1%"),
        ({"max_speed": 0.0}, "--max-speed is 0: metres a second"),
        ({"max_speed": float("nan")}, "--max-speed is nan"),
        ({"max_speed": float("inf")}, "--max-speed is inf"),
    ],
)
def test_what_is_not_legal_is_named_with_what_is(options, said):
    with pytest.raises(ValueError, match=r"^--") as caught:
        spec(**options)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_longest_window_has_so_many_panes_and_no_more():
    most = spec(lengths=f"{MOST_PANES}s", slide="1s")
    assert most.longest == MOST_PANES
    with pytest.raises(ValueError, match="has 100,001 panes of 1s, and at most 100,000 are legal"):
        spec(lengths=f"{MOST_PANES + 1}s", slide="1s")


def test_a_pane_divides_all_lengths_and_the_slide():
    assert spec().pane == MINUTE
    assert spec(lengths="10min,15min", slide="20min").pane == 5 * MINUTE
    assert spec(lengths="1h", slide="25min").pane == 5 * MINUTE


def test_lengths_are_in_order_and_keep_their_names():
    found = spec(lengths="24h, 90min ,1.5d,5 min")
    assert found.names == ("5min", "90min", "24h", "1.5d")
    assert found.lengths == (5 * MINUTE, 90 * MINUTE, 24 * HOUR, 36 * HOUR)


def test_a_slide_longer_than_a_window_is_legal_and_said():
    assert spec(lengths="5min,1h", slide="10min").notes == (
        "the slide of 10min is longer than the window of 5min: rows between windows are in none",
    )
    assert spec().notes == ()


def test_each_measure_says_which_sums_it_needs():
    assert spec(measures="max_speed").sums == ()
    assert spec(measures=",".join(MEASURES), lengths="5min,1h").sums == (
        "rows", "arrivals", "departures", "distance_mm", "moving_us", "here", "objects_0", "objects_1",
    )  # fmt: skip
    assert spec(measures="p50_speed").bins
    assert not spec(measures="speed").bins
    assert spec(measures="flow").moves
    assert not spec(measures="rows,objects,here").moves


@pytest.mark.parametrize(
    ("witnesses", "objects", "wanted"),
    [("1%", 2, 2), ("1%", 3, 3), ("1%", 300, 3), ("1%", 301, 4), ("1", 9, 1), ("5", 4, 4), ("100%", 7, 7),
     ("0.1%", 9_999, 10)],
)  # fmt: skip
def test_a_share_of_the_objects_moves_the_watermark(witnesses, objects, wanted):
    assert spec(witnesses=witnesses).witnesses_of(objects) == wanted


def test_a_spec_is_read_as_it_was_written_and_a_damaged_one_is_refused():
    whole = spec(measures="flow,rows", expire="15min", max_speed=41.5, late="1h", delay="3s")
    said = json.loads(json.dumps(whole.as_json()))
    assert Spec.of(said) == whole
    for name in said:
        with pytest.raises(StoreError, match="the spec of the windows is damaged"):
            Spec.of({key: value for key, value in said.items() if key != name})
    for name, value in (("lengths", []), ("lengths", ["5"]), ("slide", 0), ("measures", ["speeds"]), ("space", 7)):
        with pytest.raises(StoreError, match="the spec of the windows is damaged"):
            Spec.of({**said, name: value})


def test_the_difference_of_two_specs_is_a_line():
    assert spec().difference(spec()) == ""
    assert spec().difference(spec(lengths="5min", expire="15min", max_speed=50.0)) == (
        "--lengths is 5min,15min,1h,1d and 5min is asked for; --expire is never and 15min is asked for; "
        "--max-speed is off and 50m/s is asked for"
    )
