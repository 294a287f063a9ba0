from __future__ import annotations

import math

import pytest

import ceps
from ceps import ServerType, load_servers


@pytest.mark.parametrize("name", ceps.CATALOGUES)
def test_catalogues_that_ship_state_source_and_date(name):
    """Every shipped price says where it comes from and of what day."""
    servers = load_servers(name)
    assert all(server.source and server.date for server in servers)
    assert all("assumed" in server.source for server in servers)


def test_m3_stand_one_to_two_to_four_to_eight():
    """Each type of 2015 is twice as powerful as the one before, at the list's prices."""
    servers = load_servers("m3-2015")
    assert [server.requests_per_second for server in servers] == [1000, 2000, 4000, 8000]
    assert [server.dollars_per_hour for server in servers] == [0.067, 0.133, 0.266, 0.532]


def write(tmp_path, text):
    path = tmp_path / "servers.toml"
    path.write_text(text)
    return path


GOOD = '[[server]]\nname = "a"\nrequests_per_second = 10\nbytes = inf\ndollars_per_hour = 1\n'


def test_source_and_date_may_stand_at_the_top_or_in_a_block(tmp_path):
    """A block's own source and date win over the file's."""
    text = 'source = "list"\ndate = "2026-01-01"\n' + GOOD + GOOD.replace('"a"', '"b"') + 'date = "2026-02-02"\n'
    first, second = load_servers(write(tmp_path, text))
    assert (first.source, first.date) == ("list", "2026-01-01")
    assert (second.source, second.date) == ("list", "2026-02-02")
    assert math.isinf(first.bytes)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("server = 3", "holds no server"),
        ("", "holds no server"),
        ("x = [", "not a TOML file"),
        (GOOD.replace("bytes = inf\n", ""), "lacks bytes"),
        (GOOD + "cores = 4\n", "unknown key 'cores'"),
        (GOOD + GOOD, "appears 2 times"),
        (GOOD.replace("= 10", "= 0"), "requests_per_second = 0.0; it must be above 0"),
        (GOOD.replace("= 10", "= inf"), "infinite"),
        (GOOD.replace("hour = 1", "hour = -1"), "dollars_per_hour = -1"),
        (GOOD.replace("bytes = inf", "bytes = nan"), "bytes = nan"),
        (GOOD.replace("= 10", '= "10"'), "must be a number"),
        (GOOD.replace("= 10", "= true"), "must be a number"),
        (GOOD.replace('"a"', '""'), "needs a name"),
    ],
)
def test_bad_catalogues_are_refused_with_the_reason(tmp_path, text, message):
    """Each error names the file and what is wrong."""
    path = write(tmp_path, text)
    with pytest.raises(ValueError, match=message) as error:
        load_servers(path)
    assert str(path) in str(error.value)


def test_a_missing_catalogue_names_those_that_ship(tmp_path):
    """The error for a missing file says what there is."""
    with pytest.raises(FileNotFoundError, match="m3-2015"):
        load_servers(tmp_path / "none.toml")


def test_no_server_type_at_all():
    """A plan needs at least one type."""
    with pytest.raises(ValueError, match="at least one"):
        ceps.plan([[1.0] * 24], [1.0], [])


def test_two_types_of_one_name():
    """Names identify types in plan.json, so they must differ."""
    with pytest.raises(ValueError, match="appears 2 times"):
        ceps.plan([[1.0] * 24], [1.0], [ServerType("a", 1, 1, 1), ServerType("a", 2, 2, 2)])
