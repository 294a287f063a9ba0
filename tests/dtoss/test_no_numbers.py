"""What is no number, no id or no option of a question is refused at every door, and never made into one."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import dtoss
from dtoss.errors import InputError, StoreError
from dtoss.watch.events.readers import Cursor

BOTH = [[8.0, 50.0], [9.0, 51.0]]


def masked(value):
    """An array of which the first number is masked."""
    array = np.ma.masked_array(np.array(value, np.float64))
    array[(0,) * array.ndim] = np.ma.masked
    return array


MADE = {
    "masked": masked,
    "dates": lambda value: np.array(value).astype("M8[s]"),
    "durations": lambda value: np.array(value).astype("m8[s]"),
    "booleans": lambda value: np.array(value).astype(np.bool_),
    "complex numbers": lambda value: np.array(value, np.complex128),
    "text": lambda value: np.array(value).astype(str),
    "of type str": lambda value: np.array(value).astype(str).astype(object),
}
"""Numbers as what is none, by what an error says of it."""


@pytest.fixture(scope="module")
def index():
    """Two objects on the sphere."""
    return dtoss.build([1, 2], BOTH, columns={"d": pa.array([Decimal("1.00"), Decimal("2.00")], pa.decimal32(5, 2))})


@pytest.fixture(scope="module")
def history(tmp_path_factory):
    """Two versions of two rows each."""
    path = str(tmp_path_factory.mktemp("past") / "h")
    for batch in "ab":
        rows = {"id": [1, 2], "lon": [8.0, 9.0], "lat": [50.0, 51.0], "t": [1, 2]}
        dtoss.history.append(rows, path, batch=batch)
    return dtoss.history.open(path, learn=False)


PLACES = {
    "knn": lambda index, history, at: index.knn(at),
    "range": lambda index, history, at: index.range(at, 5.0),
    "count": lambda index, history, at: index.count(at, 5.0),
    "locate": lambda index, history, at: index.locate(at),
    "build": lambda index, history, at: dtoss.build([1, 2], at),
    "table": lambda index, history, at: dtoss.build([1, 2], {"lon": at[:, 0], "lat": [50.0, 51.0]}),
    "polygon": lambda index, history, at: index.within(np.ma.concatenate([at, at]) if np.ma.isMA(at) else [*at, *at]),
    "past": lambda index, history, at: history.range(at, 5.0),
}


@pytest.mark.parametrize("what", MADE)
@pytest.mark.parametrize("door", PLACES)
def test_places_are_numbers(index, history, door, what):
    """Whatever numpy would make of dates or truths, and of what is masked."""
    if (door, what) == ("table", "of type str") or (door, what) == ("table", "text"):
        pytest.skip("columns of frames may be text that is numbers")
    said = "no lon or no lat" if (door, what) == ("table", "masked") else "not numbers|cast it|: cast "
    with pytest.raises(ValueError, match=said):
        PLACES[door](index, history, MADE[what](BOTH))


def test_one_place_is_two_numbers(index):
    """On the way of a single place, too; numbers of any kind are taken."""
    for place in ((True, 1.0), [1, False], ["8", "50"], np.array(["8", "50"]), [b"8", 50], (1j, 2)):
        with pytest.raises(ValueError, match="positions are not numbers"):
            index.knn(place)
    for place in ((8, 50), [Decimal(8), 50.0], np.array([8, 50], object), np.ma.masked_array([8.0, 50.0])):
        assert index.knn(place).id.tolist() == [1]


@pytest.mark.parametrize("value", ["5", "5km", True, np.True_, np.array("5"), 1j, np.datetime64(5, "s"), [False], b"5"])
def test_distances_are_numbers(index, history, value):
    """Of each question; text with a unit is what commands take."""
    asked = [8.0, 50.0]
    for ask in (
        lambda: index.range(asked, value),
        lambda: index.count(asked, value),
        lambda: index.knn(asked, 1, max_distance=value),
        lambda: index.range([asked, asked], value),
        lambda: history.range(asked, value),
        lambda: history.knn(asked, 1, max_distance=value),
        lambda: dtoss.build([1, 2], BOTH, reach=value),
    ):
        with pytest.raises(ValueError, match="a number that is not negative is wanted") as error:
            ask()
        told = "5km is 5000" in str(error.value)
        assert told == (isinstance(value, str) and "reach" not in str(error.value)), "lambda is no distance to people"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"partitions": 1.5}, "partitions is 1.5: a whole number of at least 1"),
        ({"partitions": "2"}, "partitions is '2': a whole number"),
        ({"partitions": True}, "partitions is True"),
        ({"seed": "a"}, "seed is 'a': a whole number of at least 0"),
        ({"seed": -1}, "seed is -1"),
        ({"threads": 0}, "threads is 0: a whole number of at least 1"),
        ({"threads": "2"}, "threads is '2'"),
        ({"bounds": [0, 0, 9, 99]}, "those of a plane are wanted"),
        ({"bounds": "wsen", "metric": "plane"}, "bounds are wsen: xmin, ymin, xmax, ymax"),
        ({"bounds": masked([0, 0, 99, 99]), "metric": "plane"}, "bounds are"),
        ({"columns": {"a": "xy"}}, "column 'a' is text: 2 values are wanted"),
        ({"columns": {"a": [1, "b"]}}, "column 'a' cannot be read"),
        ({"columns": {"a": [2**70, 1]}}, "column 'a' cannot be read"),
        ({"columns": {"a": 5}}, "column 'a' has 1 values for 2 objects"),
    ],
)
def test_options_of_a_build_are_what_they_are_called(given, said):
    """One that would be ignored is refused, too."""
    with pytest.raises(ValueError, match=said):
        dtoss.build([1, 2], BOTH, **given)


@pytest.mark.parametrize("boxes", [["8", 50, 9, 51], [True, False, True, True], masked([8, 50, 9, 51])])
def test_boxes_are_numbers(index, history, boxes):
    """Of objects and of the past."""
    for ask in (index.box, index.count_box, history.box):
        with pytest.raises(ValueError, match="boxes are not numbers"):
            ask(boxes)


@pytest.mark.parametrize(("box", "hint"), [((31, 121, 32, 122), "swapped"), ((270, 10, 280, 20), "0 to 360")])
def test_a_box_that_is_not_legal_says_what_may_be_meant(index, box, hint):
    """As places do; of fences the same reason stands beside the row."""
    with pytest.raises(ValueError, match=hint):
        index.box(box)
    with pytest.raises(InputError, match=hint):
        dtoss.subscriptions([{"id": "a", "box": list(box)}])


def test_what_is_no_id_is_of_no_object(index):
    """It is not there, as any other id that nobody has."""
    for value in (
        None,
        [1],
        (1,),
        {1: 1},
        True,
        np.True_,
        1.0,
        "1",
        b"1",
        np.array([1]),
        np.nan,
        object(),
        2**70,
        pd.NA,
    ):
        assert value not in index
        with pytest.raises(KeyError):
            index[value]
    assert np.uint8(1) in index


VALUES = {
    "string_view": (pa.array(["a", None], pa.string_view()), ["a", None]),
    "binary_view": (pa.array([b"a", b"b"], pa.binary_view()), [b"a", b"b"]),
    "runs": (pa.RunEndEncodedArray.from_arrays([2], ["a"]), ["a", "a"]),
    "masked": (np.ma.masked_array([1, 2], mask=[True, False]), [None, 2]),
    "chunks": (pa.chunked_array([["a"], ["b"]], pa.string_view()), ["a", "b"]),
}


@pytest.mark.parametrize("name", VALUES)
def test_columns_of_any_layout_are_kept(name, tmp_path):
    """As values of the plain type: beside ids, in a frame, and as rows of the past."""
    values, plain = VALUES[name]
    frame = {"id": [1, 2], "lon": [8.0, 9.0], "lat": [50.0, 51.0], "t": [1, 2], "a": values}
    for made in (dtoss.build([1, 2], BOTH, columns={"a": values}), dtoss.build(frame)):
        assert [made[i]["a"] for i in (1, 2)] == plain
    dtoss.history.append(frame, str(tmp_path / "h"), batch="a")
    hits = dtoss.history.open(str(tmp_path / "h")).trajectory([1, 2], columns=["a"])
    assert hits.columns["a"].to_pylist() == plain


def test_ids_and_places_of_any_layout_are_read():
    """Runs of equal values; what is masked is missing."""
    runs = pa.RunEndEncodedArray.from_arrays([1, 2], [5, 6])
    assert list(dtoss.build(runs, BOTH)) == [5, 6]
    assert dtoss.build({"id": runs, "lon": pa.RunEndEncodedArray.from_arrays([2], [8.0]), "lat": [1, 2]})[6]["lon"] == 8
    with pytest.raises(ValueError, match="1 ids are missing"):
        dtoss.build(np.ma.masked_array([1, 2], mask=[True, False]), BOTH)
    with pytest.raises(ValueError, match="1 ids are missing"):
        dtoss.build({"id": np.ma.masked_array([1, 2], mask=[True, False]), "lon": [1, 2], "lat": [1, 2]})


@pytest.mark.parametrize("kind", [pa.decimal32(5, 2), pa.decimal64(12, 2), pa.decimal128(5, 2)])
def test_decimals_are_found_in_a_list_as_they_are_compared(kind):
    """Of any width."""
    made = dtoss.build([1, 2], BOTH, columns={"d": pa.array([Decimal("1.00"), Decimal("2.50")], kind)})
    for condition, ids in (("d in (1, 2)", [1]), ("d not in (1)", [2]), ("d in (2.5, null)", [2]), ("d = 1", [1])):
        assert made.knn([8.0, 50.0], 2, where=condition).id.tolist() == ids


@pytest.mark.parametrize("version", [1.5, 1.0, "1", True, 0, 3, [1]])
def test_a_version_that_is_none_is_told_which_are_there(history, version):
    """Its number is a whole one."""
    with pytest.raises(StoreError, match="is not there: versions 1 to 2 are"):
        dtoss.history.open(history.home.path, version=version)
    assert dtoss.history.open(history.home.path, version=np.int64(1)).version.number == 1


@pytest.mark.parametrize("between", [(1,), 1, "1", True, (1, 2, 3), [1, 2, 3], np.datetime64(1, "s"), ((1,),)])
def test_an_interval_is_two_times(history, between):
    """Both are said, or none."""
    with pytest.raises((InputError, ValueError), match="between"):
        history.range([8.0, 50.0], 5.0, between=between)


def test_events_behind_a_batch_are_asked_by_its_number(tmp_path):
    """As the command takes it; what is no cursor says so before a store is looked for."""
    assert Cursor.of(5) == Cursor.of(np.int64(5)) == Cursor.of("5")
    for after in (5.0, True, np.True_, b"5", [5], -1):
        with pytest.raises(InputError, match="is no cursor"):
            next(dtoss.events(str(tmp_path / "none"), after=after))
    with pytest.raises(StoreError, match="none"):
        next(dtoss.events(str(tmp_path / "none"), after=5))


def test_ids_of_a_frame_that_repeat_name_the_way_out():
    """In the words of its library; of lists there is none."""
    columns = {"uid": [1, 1], "lon": [8.0, 9.0], "lat": [50.0, 51.0]}
    frame = pd.DataFrame(columns)
    way = "frame.drop_duplicates('uid', keep='last')"
    with pytest.raises(ValueError, match="1 ids stand more than once, 1 among them") as error:
        dtoss.build(frame, id="uid")
    assert way in str(error.value)
    assert list(dtoss.build(frame.drop_duplicates("uid", keep="last"), id="uid")) == [1]
    with pytest.raises(ValueError, match=r"ids must be distinct$"):
        dtoss.build([1, 1], BOTH)
