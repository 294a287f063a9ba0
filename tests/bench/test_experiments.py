"""Experiments run at their smallest size; verdicts follow rules; documents say what the tables say."""

from __future__ import annotations

import math
import re
import tomllib
from dataclasses import replace
from functools import cache

import pytest

from bench.compare import ratios
from bench.experiments.claims import (
    BACK,
    BETTER,
    NOT,
    OPEN,
    UNTESTED,
    Claim,
    claims,
    judge,
    rows_of,
    value_of,
    values_of,
)
from bench.experiments.results import (
    PAPERS,
    RESULTS,
    Results,
    Row,
    experiments,
    measure,
    medians,
    module_of,
    point,
    read,
    write,
)
from bench.report import README, documents, drawing, fill, readme_rows, tables
from bench.run import named

LARGEST = 100_000
"""Bytes of a table that is kept."""


@cache
def smallest(name):
    """What an experiment finds at its smallest size."""
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
    assert judge(claim, {"made": found}).verdict == verdict
    assert judge(claim, {}).verdict == OPEN


@pytest.mark.parametrize(
    ("written", "ours", "verdict", "edge", "said"),
    [
        ((10.0, 10.4, 12.0), (), BACK, False, "10.40 times, 10.00 to 12.00"),
        ((9.9, 10.4, 12.0), (), BACK, True, "10.40 times, 9.90 to 12.00"),
        ((9.0, 9.0, 10.0), (), NOT, True, "9.00 times, 9.00 to 10.00"),
        ((9.0, 9.0, 10.0), (11.0, 11.0, 11.0), BETTER, True, "9.00 times, 9.00 to 10.00"),
        ((9.0, 9.1, 9.2), (11.0, 9.0, 12.0), BETTER, True, "9.10 times, 9.00 to 9.20"),
        ((11.0, 11.0, 11.0), (11.0, 9.0, 12.0), BACK, False, "11.00 times"),
    ],
)
def test_medians_of_runs_decide_and_one_that_says_otherwise_puts_a_verdict_on_the_edge(
    written, ours, verdict, edge, said
):
    """Their least and most stand behind the median, where they differ."""
    runs = [table(w={"p": w}, o={"p": o}).rows for w, o in zip(written, ours or written, strict=True)]
    claim = Claim(
        *("aqwa", "here", "a claim", "10 times", "so"),
        experiment="made",
        written={"of": "w"},
        ours={"of": "o"} if ours else None,
        least=10.0,
    )
    tables = {"made": Results("made", medians(runs))}
    judged = judge(claim, tables)
    assert (judged.verdict, judged.on_the_edge) == (verdict, edge)
    row = rows_of([claim], tables)[0]
    assert row[4] == said
    assert row[6] == verdict + ", on the edge" * edge
    assert row[8] == "`python -m bench.run made --repeat 3`"


def test_several_runs_are_one_table_of_medians(tmp_path):
    """With what each found, also in its file; a ratio is that of the runs, not of the medians."""
    runs = [table(a={"p": a}, b={"p": b}).rows for a, b in ((1.0, 1.0), (2.0, 8.0), (9.0, 3.0))]
    results = Results("dtoss_3_1", medians(runs), "here", "abc", "a machine", 90.0)
    assert [row.y for row in results.rows] == [2.0, 3.0]
    write(results, tmp_path)
    back = read("dtoss_3_1", tmp_path)
    assert back == results
    assert [one.rows for one in back.each_run] == runs
    assert values_of({"of": "a", "over": "b"}, back) == (1.0, 0.25, 3.0)
    with pytest.raises(ValueError, match="the same"):
        medians([runs[0], runs[1][:1]])


def test_an_experiment_is_repeated_and_says_so():
    results = measure("aqwa_10", "smoke", 2)
    assert results.rows
    assert all(row.runs == (row.y, row.y) for row in results.rows)
    said = drawing(results)
    assert said.startswith("`python -m bench.run aqwa_10 --size smoke --repeat 2`, ")
    assert "All runs found the same." in said.replace("\n", " ")
    other = replace(results.rows[0], y=2.0, runs=(1.0, 3.0))
    said = drawing(replace(results, rows=(other, *results.rows[1:]))).replace("\n", " ")
    assert "100.0% apart, 100.0% at the worst" in said


def test_a_name_is_that_of_an_experiment_or_how_some_begin():
    assert named(["dtoss_3_1"]) == ["dtoss_3_1"]
    assert named(["dtoss_3_1", "dtoss_3_4"]) == ["dtoss_3_1", "dtoss_3_4_5"]
    assert len(named(["ours"])) > 3
    assert named([]) == list(experiments())
    assert named(["none"]) == []


def test_what_has_no_experiment_is_open_or_cannot_be_tested():
    """Never a verdict of its own; and where neither keeps up nothing comes back."""
    claim = Claim("aqwa", "here", "a claim", "10 times", "so")
    assert judge(claim, {}).verdict == UNTESTED
    assert judge(Claim(*("aqwa", "here", "a claim", "10", "so"), section="x.md"), {}).verdict == OPEN
    endless = table(w={"p": math.inf}, o={"p": math.inf})
    both = Claim(*("aqwa", "here", "a", "4", "so"), experiment="made", written={"of": "w", "over": "o"}, most=0.5)
    assert judge(both, {"made": endless}).verdict == NOT


def test_claims_name_what_is_there():
    """Each series of each claim is in its table; nobody wrote a figure of ours beside one."""
    known = claims()
    assert {claim.paper for claim in known} == set(PAPERS)
    for claim in known:
        assert not re.search(r"\d", claim.why), claim
        assert claim.experiment in ("", *experiments())
        assert bool(claim.experiment) == bool(claim.rule) == bool(claim.written or claim.ours), claim
        results = read(claim.experiment) if claim.experiment else None
        assert results is None or judge(claim, {claim.experiment: results}).verdict in (BACK, BETTER, NOT)


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


def test_a_value_amid_a_sentence_is_that_of_its_table():
    """One that nobody knows is an error; without its table what stands there stays. Each that is known is used."""
    text = "It is <!-- value: cells -->old<!-- end --> as fast, <!-- value: servers_k_8 -->old<!-- end -->, I say."
    made = fill(text, {"ours_cells": tables()["ours_cells"]})
    assert re.fullmatch(
        r"It is <!-- value: cells -->[\d.]+ to [\d.]+ times<!-- end --> as fast, "
        r"<!-- value: servers_k_8 -->old<!-- end -->, I say\.",
        made,
    )
    with pytest.raises(KeyError):
        fill("<!-- value: nobody -->1<!-- end -->", {})
    written = "".join(documents().values())
    assert "\n<!-- value: " not in written, "a comment at the begin of a line ends the paragraph"
    used = re.findall(r"<!-- value: (\w+) -->", written)
    assert sorted(used) == sorted(tomllib.loads(README.read_text(encoding="utf-8"))["value"])


def test_tables_that_are_kept_are_small_and_shown():
    """Each is of an experiment that is there, or all of its figures stand in a document."""
    shown = "".join(path.read_text(encoding="utf-8") for path in (RESULTS.parents[1] / "docs").glob("*.md"))
    for path in RESULTS.glob("*.parquet"):
        assert path.stat().st_size < LARGEST
        if path.stem not in experiments():
            for figure in {row.figure for row in read(path.stem).rows}:
                assert f"<!-- results: {path.stem}, {figure}: " in shown
