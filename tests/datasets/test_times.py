import zoneinfo
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from datasets.tables.command import BadInput
from datasets.tables.time_notations import parse_times, times_of_parts


def read(texts, *formats, zone="UTC"):
    times = parse_times(pa.array(texts, pa.string()), formats or ("auto",), zone)
    flaws = {reason: rows.nonzero()[0].tolist() for reason, rows in times.flaws.items()}
    return times.t.to_pylist(), flaws


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2010-10-19T23:55:27Z", datetime(2010, 10, 19, 23, 55, 27, tzinfo=UTC)),
        ("2010-10-19 23:55:27", datetime(2010, 10, 19, 23, 55, 27, tzinfo=UTC)),
        (" 2010-10-19 23:55 ", datetime(2010, 10, 19, 23, 55, tzinfo=UTC)),
        ("2010-10-19", datetime(2010, 10, 19, tzinfo=UTC)),
        ("2010-07-09 01:59:28+00:00", datetime(2010, 7, 9, 1, 59, 28, tzinfo=UTC)),
        ("2010-07-09T01:59:28-0530", datetime(2010, 7, 9, 7, 29, 28, tzinfo=UTC)),
        ("2010-07-09T01:59:28+02", datetime(2010, 7, 8, 23, 59, 28, tzinfo=UTC)),
        ("2015-08-01T00:13:14.660Z", datetime(2015, 8, 1, 0, 13, 14, 660_000, tzinfo=UTC)),
        ("2015-08-01T00:13:14.1234567Z", datetime(2015, 8, 1, 0, 13, 14, 123_456, tzinfo=UTC)),
        ("0999-12-31", datetime(999, 12, 31, tzinfo=UTC)),
        ("36327", datetime(1999, 6, 16, tzinfo=UTC)),
        ("36327.75", datetime(1999, 6, 16, 18, tzinfo=UTC)),
        ("1211033530", datetime(2008, 5, 17, 14, 12, 10, tzinfo=UTC)),
        ("1494341250000", datetime(2017, 5, 9, 14, 47, 30, tzinfo=UTC)),
        ("1494341250000001", datetime(2017, 5, 9, 14, 47, 30, 1, tzinfo=UTC)),
        ("1236972291.0", datetime(2009, 3, 13, 19, 24, 51, tzinfo=UTC)),
        ("2010-02-30", None),
        ("2010-13-01", None),
        ("2010-10-19 24:00:00", None),
        ("5000000", None),
        ("soon", None),
    ],
)
def test_auto_reads_each_notation_alone_and_among_others(text, expected):
    assert read([text])[0] == [expected]
    assert read([text, "x", "2001-01-01", "1211033530"])[0][0] == expected


def test_what_is_null_has_a_reason():
    texts = ["", None, "NULL", "-2150-01-01", "0000-01-01", "2004-07", "soon", "2004-07-01"]
    t, flaws = read(texts)
    assert [value is None for value in t] == [True] * 7 + [False]
    assert flaws == {
        "time null: none given": [0, 1, 2],
        "time null: year before 1 or after 9999": [3, 4],
        "time null: month or day missing": [5],
        "time null: cannot be read": [6],
    }
    assert read(["0001-01-01T00:30:00+05:00"])[1] == {"time null: year before 1 or after 9999": [0]}


@given(
    st.lists(
        st.tuples(
            st.datetimes(datetime(1, 1, 3), datetime(9999, 12, 29)),
            st.integers(-14 * 60, 14 * 60),
            st.sampled_from([" ", "T"]),
        ),
        min_size=1,
    )
)
def test_iso_agrees_with_the_standard_library(cases):
    texts = []
    for moment, minutes, sep in cases:
        sign, (hours, rest) = "-" if minutes < 0 else "+", divmod(abs(minutes), 60)
        texts.append(f"{moment.isoformat(sep)}{sign}{hours:02d}:{rest:02d}")
    expected = [datetime.fromisoformat(text).astimezone(UTC) for text in texts]
    assert read(texts, "iso")[0] == expected
    slow = read([*texts, "not a time"], "iso")[0]  # takes the way for blocks with bad times
    assert slow == [*expected, None]


def test_formats_are_tried_in_turn_and_impossible_days_are_refused():
    texts = [
        "8/14/10 23:00",
        "2/30/10 1:00",
        "36327",
        "3/2/10 1:00",
        "2/29/12 0:00",
        "2/29/11 0:00",
        "8/14/10",
    ]
    t, flaws = read(texts, "%m/%d/%y %H:%M", "excel")
    day = [value and (value.year, value.month, value.day, value.hour) for value in t]
    assert day == [(2010, 8, 14, 23), None, (1999, 6, 16, 0), (2010, 3, 2, 1), (2012, 2, 29, 0), None, None]
    assert flaws == {"time null: cannot be read": [1, 5, 6]}


def test_local_time_becomes_utc_and_what_the_clock_did_is_counted():
    texts = ["2014-03-09 01:59:00", "2014-03-09 02:30:00", "2014-11-02 01:30:00", "2014-07-01T00:00:00Z"]
    t, flaws = read(texts, zone="America/New_York")
    clock = [value.strftime("%H:%M") for value in t]
    assert clock == ["06:59", "07:00", "05:30", "00:00"]
    assert flaws == {
        "local time did not happen (clock put forward), moved on": [1],
        "local time happened twice (clock put back), the first taken": [2],
    }


@given(st.lists(st.datetimes(datetime(1990, 1, 1), datetime(2030, 1, 1)), min_size=1))
def test_zones_agree_with_the_standard_library(moments):
    zone = zoneinfo.ZoneInfo("Asia/Shanghai")
    t, flaws = read([moment.isoformat(" ") for moment in moments], zone="Asia/Shanghai")
    odd = {row for rows in flaws.values() for row in rows}
    for row, (moment, found) in enumerate(zip(moments, t, strict=True)):
        if row not in odd:
            assert found == moment.replace(tzinfo=zone).astimezone(UTC)


def test_epochs_are_utc_whatever_the_zone_and_bounded():
    assert read(["0", "-1.5"], "epoch-s", zone="Asia/Tokyo")[0] == [
        datetime(1970, 1, 1, tzinfo=UTC),
        datetime(1970, 1, 1, tzinfo=UTC) - timedelta(seconds=1.5),
    ]
    assert read(["1e30", "x"], "epoch-ms")[1] == {"time null: cannot be read": [0, 1]}
    assert read(["-99999999999"], "epoch-s")[1] == {"time null: year before 1 or after 9999": [0]}


def test_parts_and_what_ais_means_by_zero():
    rows = [
        ("2018", "7.0", "5", "23", "50", "1.5"),
        ("0", "0", "0", "24", "60", "60"),
        ("-5", "1", "1", "0", "0", "0"),
        ("2018", "", "", "1", "1", "1"),
        ("", "", "", "", "", ""),
        ("2017", "2", "29", "0", "0", "0"),
        ("1900", "2", "3", "4", "", ""),
        ("1900", "2", "3", "", "5", ""),
        ("x", "2", "3", "", "", ""),
    ]
    times = times_of_parts([pa.array(part) for part in zip(*rows, strict=True)])
    assert times.t.to_pylist() == [
        datetime(2018, 7, 5, 23, 50, 1, 500_000, tzinfo=UTC),
        *[None] * 5,
        datetime(1900, 2, 3, 4, tzinfo=UTC),
        datetime(1900, 2, 3, tzinfo=UTC),
        None,
    ]
    assert {reason: rows.nonzero()[0].tolist() for reason, rows in times.flaws.items()} == {
        "time null: year before 1 or after 9999": [1, 2],
        "time null: month or day missing": [3],
        "time null: none given": [4],
        "time null: cannot be read": [5, 8],
        "time of day incomplete, what is missing taken as 0": [6, 7],
    }


def test_unknown_formats_and_zones_are_named():
    with pytest.raises(BadInput, match="no time format is called 'unix'; give auto"):
        read(["1"], "unix")
    with pytest.raises(BadInput, match="no time zone is called 'Beijing'"):
        read(["1"], zone="Beijing")
    with pytest.raises(BadInput, match="2 columns for the date"):
        times_of_parts([pa.array(["1"])] * 2)
