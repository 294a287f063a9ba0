"""Experiments run at their smallest size; verdicts follow rules; documents say what the tables say."""

from __future__ import annotations

import gc
import math
import re
from dataclasses import replace
from functools import cache

import pytest

from bench.compare import ratios
from bench.experiments.claims import BACK, BETTER, NOT, OPEN, UNTESTED, Claim, claims, judge, value_of
from bench.experiments.results import PAPERS, RESULTS, Results, Row, experiments, measure, module_of, point, read, write
from bench.report import documents, fill, readme_rows, tables

LARGEST = 100_000
"""Bytes of a table that is kept."""


@cache
def smallest(name):
    """What an experiment finds at its smallest size."""
    gc.freeze()  # where processor time is measured, garbage is looked for before each turn
    return measure(name, "smoke")


SPARK = pytest.mark.deep("Spark, ten seconds each; the others hold that an experiment is a table")


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=SPARK if name in ("ours_join", "ours_rebuild") else ()) for name in experiments()],
)
def test_an_experiment_runs_and_is_a_table(name, tmp_path):
    """In seconds; what it checks of its answers holds; its rows come back from their file, and can be drawn.

    Each series that a claim is held to is there, as it is in larger tables.
    """
    results = smallest(name)
    assert results.rows
    assert len({(row.series, row.x, row.unit) for row in results.rows}) == len(results.rows)
    for row in results.rows:
        assert row.unit
        assert not math.isnan(row.y)
        assert row.n >= 1
        assert row.spread >= 0
    for chosen in (one for claim in claims() if claim.experiment == name for one in (claim.written, claim.ours) if one):
        for series in (chosen["of"], chosen.get("over", chosen["of"])):
            here = series.replace(", taxi, ", ", made, ") if results.data == "made" else series
            assert results.of(here, chosen.get("unit"))
    write(results, tmp_path)
    back = read(name, tmp_path)
    assert back == results
    drawn = module_of(name).draw(back)
    tables = [block.splitlines() for block in drawn.split("\n\n") if block.startswith("|")]
    assert tables
    assert all(len({line.count("|") for line in lines}) == 1 and len(lines) > 2 for lines in tables)
    assert ratios(tmp_path, tmp_path)[0][-1] == 1


def table(**series):
    """Results of a series a name, in one unit."""
    return Results("made", tuple(point(name, x, y, "u") for name, line in series.items() for x, y in line.items()))


@pytest.mark.parametrize(
    ("chosen", "value"),
    [
        ({"of": "a"}, 2.0),
        ({"of": "a", "fold": "most"}, 3.0),
        ({"of": "a", "fold": "growth"}, 3.0),
        ({"of": "a", "x": "q*"}, 3.0),
        ({"of": "a", "over": "b"}, (1 / 4 + 3 / 2) / 2),
        ({"of": "a", "over": "b", "fold": "share below 1"}, 0.5),
        ({"of": "a", "over": "b", "saving": True, "fold": "least"}, -0.5),
        ({"of": "a", "x": "q", "over": "a", "over_x": "p"}, 3.0),
    ],
)
def test_a_value_is_what_a_claim_chooses(chosen, value):
    assert value_of(chosen, table(a={"p": 1.0, "q": 3.0}, b={"p": 4.0, "q": 2.0})) == value


def test_what_no_x_or_no_series_meets_is_an_error():
    for chosen in ({"of": "c"}, {"of": "a", "x": "r"}):
        with pytest.raises(KeyError):
            value_of(chosen, table(a={"p": 1.0}))
    two = Results("made", (*table(a={"p": 1.0}).rows, Row("a", "p", 2.0, "v")))
    with pytest.raises(KeyError):
        value_of({"of": "a"}, two)
    assert value_of({"of": "a", "unit": "v"}, two) == 2.0


@pytest.mark.parametrize(
    ("written", "ours", "verdict"),
    [(10.0, None, BACK), (9.9, 10.0, BETTER), (9.9, 1.0, NOT), (None, 10.0, BETTER), (None, 9.0, NOT)],
)
def test_a_verdict_follows_the_rule(written, ours, verdict):
    """As written first; then what is done instead; equal to the bound is within it."""
    found = table(**{name: {"p": y} for name, y in (("w", written), ("o", ours)) if y is not None})
    claim = Claim(
        *("aqwa", "here", "a claim", "10 times", "so"),
        experiment="made",
        written={"of": "w"} if written else None,
        ours={"of": "o"} if ours else None,
        least=10.0,
    )
    assert judge(claim, {"made": found})[0] == verdict
    assert judge(claim, {})[0] == OPEN


def test_what_has_no_experiment_is_open_or_cannot_be_tested():
    """Never a verdict of its own; and where neither keeps up nothing comes back."""
    claim = Claim("aqwa", "here", "a claim", "10 times", "so")
    assert judge(claim, {})[0] == UNTESTED
    assert judge(Claim(*("aqwa", "here", "a claim", "10", "so"), section="x.md"), {})[0] == OPEN
    endless = table(w={"p": math.inf}, o={"p": math.inf})
    both = Claim(*("aqwa", "here", "a", "4", "so"), experiment="made", written={"of": "w", "over": "o"}, most=0.5)
    assert judge(both, {"made": endless})[0] == NOT


def test_claims_name_what_is_there():
    """Each series of each claim is in its table; nobody wrote a figure of ours beside one."""
    known = claims()
    assert {claim.paper for claim in known} == set(PAPERS)
    for claim in known:
        assert not re.search(r"\d", claim.why), claim
        assert claim.experiment in ("", *experiments())
        assert bool(claim.experiment) == bool(claim.rule) == bool(claim.written or claim.ours), claim
        results = read(claim.experiment) if claim.experiment else None
        assert results is None or judge(claim, {claim.experiment: results})[0] in (BACK, BETTER, NOT)


def test_documents_say_what_the_tables_say():
    """Between markers, and all of docs/claims.md: else `python -m bench.report` was not run."""
    for path, text in documents().items():
        assert path.read_text(encoding="utf-8") == text, path.name


def test_a_marked_block_is_filled_and_one_without_a_table_stays():
    text = "a\n\n<!-- results: dtoss_3_1 -->\n\nold\n\n<!-- end of results -->\n\nb\n"
    results = smallest("dtoss_3_1")
    made = fill(text, {"dtoss_3_1": results})
    assert "old" not in made
    assert made.startswith("a\n\n<!-- results: dtoss_3_1 -->\n\n`python -m bench.run dtoss_3_1")
    assert made.endswith("\n\n<!-- end of results -->\n\nb\n")
    assert fill(made, {"dtoss_3_1": results}) == made
    assert fill(text, {}) == text


def two_figures(text="a figure"):
    """Results of figures that were typed once, in two units."""
    given = {"figure": text, "command": "python -m bench.exactness", "date": "2026-11-22", "since": "abc"}
    rows = (Row("ours", "p", 1_234_567.0, "queries/s", **given), Row("others", "q", 2.5, "times", **given))
    return Results("typed", (*rows, Row("ours", "p", 1.0, "s", figure="another")))


def test_one_figure_of_a_typed_table_stands_up_to_an_empty_line():
    """Series with their units across; no digit is lost; a figure that is not there is an error."""
    text = "a\n<!-- results: typed, a figure: place -->\nold\n| old |\n\nb\n"
    made = fill(text, {"typed": two_figures()})
    assert made.splitlines()[2:] == [
        "`python -m bench.exactness`, made on 2026-11-22, here since abc.",
        "| place | ours, queries/s | others, times |",
        "| --- | --- | --- |",
        "| p | 1,234,567 |  |",
        "| q |  | 2.5 |",
        "",
        "b",
    ]
    assert fill(made, {"typed": two_figures()}) == made
    assert fill(text, {}) == text
    with pytest.raises(KeyError):
        fill(text, {"typed": two_figures("other")})


def test_readme_s_rows_are_those_of_their_tables():
    """Another table, another number."""
    known = tables()
    row = readme_rows(known).splitlines()[-1]
    assert "1.000 times the cost, worst 1.000" in row
    servers = known["ours_servers"]
    dearer = replace(servers, rows=(replace(servers.rows[0], y=1.25), *servers.rows[1:]))
    assert "1.000 times the cost, worst 1.250" in readme_rows(known | {"ours_servers": dearer})


def test_tables_that_are_kept_are_small_and_shown():
    """Each is of an experiment that is there, or all of its figures stand in a document."""
    shown = "".join(path.read_text(encoding="utf-8") for path in (RESULTS.parents[1] / "docs").glob("*.md"))
    for path in RESULTS.glob("*.parquet"):
        assert path.stat().st_size < LARGEST
        if path.stem not in experiments():
            for figure in {row.figure for row in read(path.stem).rows}:
                assert f"<!-- results: {path.stem}, {figure}: " in shown
