"""What a request costs: measured ranges, kept for plans and cuts."""

from __future__ import annotations

import pytest

from dtoss.errors import InputError
from dtoss.history.adaptive import request_cost as module
from dtoss.history.adaptive.adapt import prices_of
from dtoss.history.adaptive.request_cost import LONG_BYTES, SHORT_BYTES, calibrate
from tests.dtoss.history.worlds import PLANE, new_home, put_batch, schema_of, table_of


def test_a_request_costs_what_could_be_read_in_its_time(home, monkeypatch):
    """20 ms a request and 50 MB/s are a megabyte; it is the history's price from then on, in a version of its own."""
    monkeypatch.setattr(module, "_seconds", lambda _home, _name, _begin, length: 0.02 + (length - SHORT_BYTES) / 50e6)
    before = home.version().number
    found = calibrate(home, keep=False)
    assert found.request_bytes == pytest.approx(1e6)
    assert home.version().number == before
    calibrate(home)
    version = home.version()
    assert version.options["request_bytes"] == found.request_bytes
    assert prices_of(version).request == found.request_bytes
    calibrate(home)
    assert home.version().number == version.number == before + 1


def test_it_reads_within_files(home):
    """Of a local history of some megabytes: a positive price."""
    found = calibrate(home, keep=False)
    assert found.request_bytes >= 1
    assert found.worst_seconds >= found.request_seconds > 0
    assert set(found.as_json()) == {
        "request_milliseconds",
        "worst_milliseconds",
        "megabytes_per_second",
        "request_bytes",
    }
    assert LONG_BYTES > SHORT_BYTES


def test_a_history_of_a_few_rows_is_too_small(tmp_path):
    """One line, with the way out."""
    small = new_home(tmp_path / "h")
    schema = schema_of(PLANE)
    put_batch(small, table_of(schema, [1], [0], [(0.0, 0.0)]), schema, "a")
    with pytest.raises(InputError, match="too few to measure a request by"):
        calibrate(small)
