"""Durations on the command line."""

from __future__ import annotations

import pytest

from pipelines.options.said_amounts import seconds_of


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("500ms", 0.5),
        ("60s", 60.0),
        ("15min", 900.0),
        ("1h", 3600.0),
        ("2d", 172800.0),
        ("1.5h", 5400.0),
        (".5min", 30.0),
        (" 10 s ", 10.0),
        ("0s", 0.0),
    ],
)
def test_a_number_and_a_unit(text, seconds):
    assert seconds_of(text) == seconds


@pytest.mark.parametrize(
    "text", ["", "60", "s", "-5s", "1m", "1h30min", "1 week", "nan s", "1e3s", "٣s", "9" * 400 + "s"]
)
def test_what_is_no_duration_is_named(text):
    with pytest.raises(ValueError, match=r"500ms, 60s, 15min, 1h or 2d") as raised:
        seconds_of(text)
    assert repr(text) in str(raised.value)
