"""Where figures of catalogues are from, and which are missing, stale or odd."""

from __future__ import annotations

import re
from datetime import date
from pathlib import Path

import pytest

import ceps
from ceps import load_servers
from ceps.model.servers import STATED, figures_of, findings_of

TODAY = date(2026, 11, 27)
PAGE = Path(__file__).parents[2] / "docs" / "servers.md"
BLOCK = '[[server]]\nname = "a"\nrequests_per_second = 10\nbytes = inf\ndollars_per_hour = 1\n'
KNOWN = "".join(f'origins.{field} = "published"\n' for field in ("requests_per_second", "bytes", "dollars_per_hour"))


def found_in(tmp_path, text, days=180.0):
    """Kinds, fields and texts of what is found in a catalogue."""
    path = tmp_path / "servers.toml"
    path.write_text(text)
    load_servers(path)
    return [(one.kind, one.field, one.text) for one in findings_of(figures_of(path), TODAY, days)]


@pytest.mark.parametrize("name", ceps.CATALOGUES)
def test_each_figure_that_ships_says_how_it_is_known(name):
    """Requests/s are assumed, memory is published, and of prices one at least."""
    figures = figures_of(name)
    assert findings_of(figures, TODAY, 1e6) == ()
    assert {one.origin.how for one in figures if one.field == "requests_per_second"} == {"assumed"}
    assert {one.origin.how for one in figures if one.field == "bytes"} == {"published"}
    prices = [one.origin.how for one in figures if one.field == "dollars_per_hour"]
    assert prices == (["doubled", "published", *["doubled"] * 3] if name == "m7g-2026" else ["published"] * 4)


def test_what_is_missing_stale_or_odd_is_named(tmp_path):
    """Each by server and field; memory does not age, and a block's word goes before the file's."""
    assert found_in(tmp_path, 'source = "x"\ndate = "2026-11-01"\n' + BLOCK + KNOWN) == []
    fields = ["requests_per_second", "bytes", "dollars_per_hour"]
    nothing = found_in(tmp_path, BLOCK)
    assert [field for _, field, _ in nothing] == [field for field in fields for _ in range(3)]
    assert {kind for kind, _, _ in nothing} == {"missing"}
    assert 'write origins.bytes = "published", or doubled, measured, assumed' in nothing[3][2]
    old = 'source = "x"\ndate = "2026-05-01"\n' + BLOCK + KNOWN
    assert [(kind, field) for kind, field, _ in found_in(tmp_path, old)] == [("stale", fields[0]), ("stale", fields[2])]
    assert found_in(tmp_path, old, 210.0) == []
    assert found_in(tmp_path, old, 209.0)[0][2] == "it is of 2026-05-01, 210 days ago, more than 209: look again"
    newer = old.replace('origins.bytes = "published"', 'origins.bytes = { how = "measured", date = "2026-12-24" }')
    assert ("odd", "bytes", "it is of 2026-12-24, which is to come") in found_in(tmp_path, newer, 210.0)
    assert "its day is 'soon': write" in found_in(tmp_path, old.replace("2026-05-01", "soon"))[0][2]
    dear = old + 'reserved_dollars_per_hour = 1.5\norigins.reserved_dollars_per_hour = "published"\n'
    assert "1.5 is above the list's price of 1" in found_in(tmp_path, dear, 210.0)[0][2]
    whole = '[origins]\nbytes = { how = "assumed", source = "z", date = "2026-11-02" }\n' + BLOCK
    path = tmp_path / "servers.toml"
    path.write_text(whole + 'origins.bytes = { how = "measured" }\n')
    (known,) = [one.origin for one in figures_of(path) if one.field == "bytes"]
    assert (known.how, known.source, known.date) == ("measured", "z", "2026-11-02")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (BLOCK + 'origins.price = "published"\n', "server 'a': origins.price; a field is wanted"),
        (BLOCK + 'origins.bytes = "guessed"\n', "origins.bytes = 'guessed'; one of published, doubled, measured, as"),
        (BLOCK + 'origins.bytes = { what = "x" }\n', "origins.bytes = {'what': 'x'}; one of"),
        (BLOCK + "origins = 3\n", "server 'a': origins = 3; a table by field"),
        ('origins.name = "published"\n' + BLOCK, "origins.name; a field is wanted"),
        ("server = [3]", "holds no server type"),
    ],
)
def test_origins_that_say_nothing_are_refused(text, said, tmp_path):
    """By every command that reads a catalogue."""
    path = tmp_path / "servers.toml"
    path.write_text(text)
    with pytest.raises(ValueError, match=re.escape(said)):
        load_servers(path)


def test_the_page_of_server_types_has_every_field_and_its_example_holds(tmp_path):
    """The table names what a block may have, no more and no less; the example is read, and lacks nothing but a day."""
    text = PAGE.read_text(encoding="utf-8")
    path = tmp_path / "servers.toml"
    path.write_text(BLOCK + "nothing = 1\n")
    with pytest.raises(ValueError, match="known: ") as refused:
        load_servers(path)
    known = str(refused.value).partition("known: ")[2].split(", ")
    assert sorted(re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE)) == sorted(known)
    assert set(STATED) < set(known)
    path.write_text(re.search(r"^```toml\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)[1])
    large, double = load_servers(path)
    assert (large.name, large.reserved_dollars_per_hour) == ("box.large", 0.0514)
    assert double.requests_per_second == 2 * large.requests_per_second
    assert findings_of(figures_of(path), date(2026, 11, 27), 180.0) == ()
