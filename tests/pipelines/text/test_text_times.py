"""Times in text that Arrow reads are those that Spark reads."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from random import Random

import pyarrow as pa
import pytest

from dtoss.errors import InputError
from dtoss.text import text_times, time_patterns
from dtoss.text.time_patterns import check_times

BERLIN = "Europe/Berlin"
ISO = (
    "2024", "2024-5", "2024-05-06", " 2024-05-06\t", "2024-05-06 7:08", "2024-05-06T07:08:09", "2024-05-06 7",
    "2024-05-06 07:08:09.1", "2024-05-06 07:08:09.123456", "2024-05-06T07:08:09.999999999Z", "2024-05-06T07:08:09.Z",
    "2024-05-06 7:08:09+02:00", "2024-05-06 7:08:09 +2", "2024-05-06 7:08:09 UTC+1", "2024-05-06 7:08:09GMT-3",
    "2024-05-06 7:08:09 Europe/Berlin", "2024-05-06 7:08:09PST", "2024-05-06 7:08:09-2:5", "2024-05-06 7:08:09EST",
    "2024-05-06 7:08:09 +18:01", "2024-05-06 7:08:09 -180000", "2024-05-06 7:08:09 utc", "2024-05-06 7:08:09 UT",
    "2024-05-06 24:00", "2024-05-06 23:59:60", "2024-02-29", "2023-02-29", "1900-02-29", "2000-02-30", "2024-04-31",
    "0001-01-01", "0000-02-29", "-0044-03-15 12:00:00", "+2024-05-06", "9999-12-31 23:59:59.9999999", "10000-01-01",
    "999999-01-01", "1883-11-18 12:03:58 America/New_York", "2400-07-01 12:00:00 Europe/Berlin", "now", "epoch", "",
    "2024-03-31 02:30:00", "2024-10-27 02:30:00", "2024-05-06\x1f", "\x002024-05-06 7:08:09Z", "2024-05-06 7:08:09\x7f",
    "2024-05-06 7:08Z", "2024-05-06t07:08:09", "20240506", "\uff12\uff10\uff12\uff14-05-06", "2024-13-01", "24-05-06",
    "2024-05-06  7:08:09", "2024-05-06 7:08:09 Z ", "2024-05-06 7:08:09 Mars/Base", "12024-05-06 1:2:3.4 Asia/Tokyo",
)  # fmt: skip
PATTERNS = {
    "yyyy-MM-dd HH:mm:ss": ("2024-05-06 07:08:09",),
    "M/d/yyyy h:mm:ss a": (
        "5/6/2024 7:08:09 PM", "12/31/1999 12:59:59 am", "002/0029/2024 12:00:00 pm", "-1/1/2024 1:1:1 AM",
    ),
    "dd.MM.yy HH:mm": ("06.05.24 07:08", "06.05.70 07:08"),
    "yyyyMMddHHmmss.SSS": ("20240506070809.123", "20240506070809.1", "20240506070809.1234"),
    "yyyyMMddSSS": ("20240506123", "20240506"),
    "dMMyyyy": ("6052024", "06052024"),
    "yyyyDDD": ("2024366", "2023366", "2023001"),
    "d MMM yyyy kk:mm": ("6 May 2024 24:08", "31 SEP 2024 00:00", "1 dec 1970 01:02"),
    "MMMM d, yyyy": ("September 4, 2024", "may 6, 2024", "\u017feptember 4, 2024"),
    "yyyy-MM-dd'T'HH:mm:ss[.SSSSSS][XXX]": (
        "2024-05-06T07:08:09.123456+02:00", "2024-05-06t07:08:09Z", "2024-05-06T07:08:09.1",
        "2024-05-06T07:08:09+18:01",
    ),
    "dd/MMM/yyyy:HH:mm:ss Z": ("06/May/2024:07:08:09 +0200",),
    "yyyy-MM-dd HH:mm:ssx": ("2024-05-06 07:08:09+02", "2024-05-06 07:08:09+0530", "2024-05-06 07:08:09+0030"),
    "yyyy-MM-dd HH:mm:ss VV": (
        "2024-05-06 07:08:09 europe/berlin", "2024-05-06 07:08:09 utc+02:00", "2024-05-06 07:08:09 GMT0",
        "2024-05-06 07:08:09 GMT+2", "2024-05-06 07:08:09 EST", "2024-03-31 02:30:00 Europe/Berlin",
    ),
    "[yyyy-MM-dd][MM/dd/yyyy]": ("2024-05-06", "05/06/2024", "2024-05-0605/06/2024", "2024-05-0605/07/2024"),
    "G yyyy-MM-dd": ("AD 2024-05-06", "bc 0044-03-15", "AD 0000-01-01"),
    "HH:mm a": ("13:05 PM", "13:05 AM", "01:05 am"),
    "yyyy\u5e74MM\u6708dd\u65e5": ("2024\u5e7405\u670806\u65e5",),
}  # fmt: skip
NUMBERS = (
    "0", "-1", "1700000000", "1700000000.1234567", "1.7e9", "1700000000123", "1700000000123456", "45000", "45000.5",
    "45000.123456789", "-0.0000000058", " 5 ", "+7", "1,5", "0x10", "1e400", "nan", "-inf", "253402300799",
    "253402300799.5", "253402300800", "253402300799999999", "2958465.99999999", "45382.104166666664", "007", "5d",
)  # fmt: skip
TYPED = (
    pa.array([0, -1, None, 1_700_000_000, 253_402_300_799_999_999, 1_700_000_000_123_457]),
    pa.array([0.5, 1.7e9, float("nan"), float("-inf"), None, 1.7e15 + 0.5, 45_000.123]),
    pa.array([Decimal("1.500000001"), Decimal("-1700000000123456.999999999"), None], pa.decimal128(30, 9)),
)


def mutated(rng, text):
    """A text with few characters changed, added or left out."""
    letters = list(text)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        at, how = rng.randrange(len(letters) + 1), rng.random()
        new = rng.choice("0123456789" * 2 + "-+:. TZz/\t\x00\x7f\uff10GMUCapm")
        letters[at : at + (how < 0.7)] = [] if 0.5 < how < 0.7 else [new]
    return "".join(letters)


def micros(found):
    assert found.type == pa.timestamp("us", tz="UTC")
    return found.view(pa.int64()).to_pylist()


def moment(text, pattern=None, zone=None):
    """What a text is read as, without the zone that is UTC."""
    (found,) = micros(text_times.moments(pa.array([text]), pattern, zone=zone))
    return None if found is None else str(datetime(1970, 1, 1) + timedelta(microseconds=found))


def test_arrow_reads_what_spark_reads(spark):
    """All texts by all patterns, in one job: what is a time by one is hardly one by the next."""
    from pyspark.sql import functions as F

    from tests.pipelines.text import spark_times

    rng = Random(49)
    written = [text for texts in PATTERNS.values() for text in texts]
    texts = [*ISO, *written, *NUMBERS]
    texts += [mutated(rng, rng.choice(ISO)) for _ in range(2000)] + [
        mutated(rng, rng.choice(written)) for _ in range(1500)
    ]
    texts += [str(round(rng.uniform(2e4, 6e4), rng.randrange(12))) for _ in range(200)]
    texts += [repr((rng.randrange(2**31) + 0.0005) / 86_400) for _ in range(200)]
    # a time of day alone is one of today; Spark fails where a pattern's year is beyond 64 bits
    today = [re.match("T|[0-9]{1,2}:", text.strip()) and moment(text) is not None for text in texts]
    texts = [text for text, one in zip(texts, today, strict=True) if not one and not re.search("[-+][0-9]{5}", text)]
    cases = [(None, None), (None, BERLIN), (None, "EST"), *((pattern, None) for pattern in PATTERNS)]
    cases += [
        ("MMMM d, yyyy", BERLIN),
        ("yyyy-MM-dd HH:mm:ss", "America/New_York"),
        *((one, BERLIN) for one in time_patterns.COUNTED_TIMES),
    ]
    columns = [
        F.unix_micros(spark_times.moment(F.col("text"), pattern, zone)).alias(f"c{i}")
        for i, (pattern, zone) in enumerate(cases)
    ]
    frame = spark.createDataFrame(pa.table({"row": range(len(texts)), "text": texts}))
    wanted = frame.select("row", *columns).toArrow().sort_by("row")
    for i, (pattern, zone) in enumerate(cases):
        seen = wanted[f"c{i}"].to_pylist()
        found = micros(text_times.moments(pa.array(texts), pattern, zone=zone))
        # where digits follow digits without a width of their own, Java leaves too many to the first
        assert any(seen) or pattern in ("yyyyMMddSSS", "dMMyyyy")
        assert [(t, s, f) for t, s, f in zip(texts, seen, found, strict=True) if s != f] == [], (pattern, zone)
    for numbers in TYPED:
        kinds = [(pattern, zone) for pattern in time_patterns.COUNTED_TIMES for zone in (None, BERLIN)]
        one = spark.createDataFrame(pa.table({"n": numbers})).coalesce(1)
        columns = [F.unix_micros(spark_times.counted(F.col("n"), *kind)).alias(f"c{i}") for i, kind in enumerate(kinds)]
        seen = one.select(*columns).toArrow().to_pydict()
        assert list(seen.values()) == [micros(text_times.moments_of_numbers(numbers, *kind)) for kind in kinds]


@pytest.mark.parametrize(
    ("text", "zone", "wanted"),
    [
        ("2024-5", None, "2024-05-01 00:00:00"),
        (" 2024-05-06T7:08:09.1234567+5:3", BERLIN, "2024-05-06 02:05:09.123456"),
        ("2024-05-06 7:08:09 PST", BERLIN, "2024-05-06 14:08:09"),
        ("2024-05-06 7:08", BERLIN, "2024-05-06 05:08:00"),
        ("2024-03-31 02:30", BERLIN, "2024-03-31 01:30:00"),
        ("2024-03-31 12:00", BERLIN, "2024-03-31 10:00:00"),
        ("2024-10-27 02:30", BERLIN, "2024-10-27 00:30:00"),
        ("2024-02-30", None, None),
        ("2024-05-06 24:00", None, None),
        ("2024-05-06 7:08Z", None, None),
        ("", BERLIN, None),
        (None, None, None),
    ],
)
def test_times_of_iso_8601(text, zone, wanted):
    assert moment(text, zone=zone) == wanted


def test_years_beyond_those_of_python_have_the_clocks_of_400_years_before():
    """Summer time in the year 12024, and the sun's own in the year -44."""
    texts = pa.array(["12024-07-01 00:00:00", "-0044-03-15 12:00:00"])
    utc, berlin = (micros(text_times.moments(texts, None, zone=zone)) for zone in (None, BERLIN))
    assert [there - here for there, here in zip(utc, berlin, strict=True)] == [7_200_000_000, 3_208_000_000]


def test_a_time_of_day_alone_is_of_today():
    before, found, after = datetime.now(UTC), moment("7:08"), datetime.now(UTC)
    assert found in {f"{day:%Y-%m-%d} 07:08:00" for day in (before, after)}
    assert moment(" T7") is None


@pytest.mark.parametrize(
    ("text", "pattern", "wanted"),
    [
        ("5/6/2024 7:08:09 pm", "M/d/yyyy h:mm:ss a", "2024-05-06 17:08:09"),
        ("20240506070809", "yyyyMMddHHmmss", "2024-05-06 05:08:09"),
        ("6 SEP 24", "d MMM yy", "2024-09-05 22:00:00"),
        ("2024-05-06T07:08:09+02:00", "yyyy-MM-dd'T'HH:mm:ss[.SSS][XXX]", "2024-05-06 05:08:09"),
        ("2024-05-06T07:08:09", "yyyy-MM-dd'T'HH:mm:ss[.SSS][XXX]", "2024-05-06 07:08:09"),
        ("2024-05-06 Asia/tokyo", "yyyy-MM-dd VV", "2024-05-05 15:00:00"),
        ("13:05 AM", "HH:mm a", None),
        ("12024", "yyyy", None),
        ("45382.104166666664", "excel", "2024-03-31 01:30:00"),
        ("1700000000123456", "epoch_us", "2023-11-14 22:13:20.123456"),
    ],
)
def test_times_by_a_pattern(text, pattern, wanted):
    """In Berlin, where they name no zone; one that may name one is of UTC where it does not, as in Spark."""
    assert moment(text, pattern, BERLIN) == wanted


def test_decimal_commas():
    assert micros(text_times.moments(pa.array(["1,5"]), "epoch_s", ",")) == [1_500_000]


@pytest.mark.parametrize(
    "pattern", ["yyyy-MM-dd z", "yyyy O", "ZZZZ", "YYYY", "EEE d", "LLL", "D M", "VV yyyy", "yyyy]", "", "''y"]
)
def test_patterns_that_are_not_read_are_refused(pattern):
    """Before any row is, in one line that says what is read; Spark alone would read some of them."""
    with pytest.raises(
        InputError, match=r"is not known: write epoch_s, .* or a pattern such as .*, VV at its end"
    ) as one:
        check_times(pattern, None)
    assert "\n" not in str(one.value)
    with pytest.raises(InputError, match="is not known"):
        text_times.moments(pa.array(["2024"]), pattern)


def test_patterns_that_are_read():
    for pattern in (None, *PATTERNS, *time_patterns.COUNTED_TIMES):
        check_times(pattern, BERLIN)


def test_moments_of_times_of_day_in_a_zone():
    local = pa.array([datetime(2024, 3, 31, 2, 30), None, datetime(2024, 10, 27, 2, 30)], pa.timestamp("ms"))
    found = text_times.of_zone(local, BERLIN)
    assert found.to_pylist() == [
        datetime(2024, 3, 31, 1, 30, tzinfo=UTC),
        None,
        datetime(2024, 10, 27, 0, 30, tzinfo=UTC),
    ]
    with pytest.raises(InputError, match="Mars"):
        text_times.of_zone(local, "Mars/Base")
