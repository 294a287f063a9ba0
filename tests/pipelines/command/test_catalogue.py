"""``dtoss catalogue check``: how figures are known, and what is out of date."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

BLOCK = '[[server]]\nname = "a"\nrequests_per_second = 10\nbytes = inf\ndollars_per_hour = 1\n'
ORIGINS = 'origins = { requests_per_second = "assumed", bytes = "published", dollars_per_hour = "doubled" }\n'


def test_check_says_how_figures_are_known_and_ends_with_1_where_one_is_stale(tmp_path, command):
    """A file of ten days is good for 30 and not for 9; all figures stand there either way."""
    path = tmp_path / "servers.toml"
    day = (datetime.now(UTC) - timedelta(days=10)).date()
    path.write_text(f'source = "a list"\ndate = "{day}"\n' + BLOCK + ORIGINS)
    said = command.works("catalogue", "check", path, "--older-than", "30d").out
    assert f"requests_per_second 10  assumed {day}, a list" in said
    assert "1 type" in said
    assert "nothing is missing, nothing older than 30 days; 1 figure assumed" in said
    done = command("catalogue", "check", path, "--older-than", "9d")
    assert done.code == 1
    assert "stale" in done.out
    assert f"a: dollars_per_hour: it is of {day}, 10 days ago, more than 9: look again" in done.out
    done = command("catalogue", "check", path, "--older-than", "9d", "--json")
    assert [one["field"] for one in done.json["findings"]] == ["requests_per_second", "dollars_per_hour"]
    assert done.json["figures"][1] == {
        "server": "a", "field": "bytes", "value": None,
        "origin": {"how": "published", "source": "a list", "date": str(day)},
    }  # fmt: skip


def test_a_figure_without_an_origin_is_named(tmp_path, command):
    """Also where its source and its day are known: that says nothing of how."""
    path = tmp_path / "servers.toml"
    path.write_text(f'source = "a list"\ndate = "{datetime.now(UTC).date()}"\n' + BLOCK + 'origins.bytes = "assumed"\n')
    done = command("catalogue", "check", path, "--json")
    assert done.code == 1
    found = [(one["kind"], one["field"]) for one in done.json["findings"]]
    assert found == [("missing", "requests_per_second"), ("missing", "dollars_per_hour")]


def test_check_refuses_what_no_plan_can_be_made_with(tmp_path, command):
    """In one line, as a plan does."""
    assert "no such file" in command.fails("catalogue", "check", tmp_path / "none.toml")
    assert "--older-than: 'soon' is no duration" in command.fails(
        "catalogue", "check", "m3-2015", "--older-than", "soon"
    )
    (tmp_path / "twice.toml").write_text(BLOCK + BLOCK)
    assert "appears 2 times" in command.fails("catalogue", "check", tmp_path / "twice.toml")
