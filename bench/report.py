"""Documents from tables of `bench/results/`: `python -m bench.report` fills docs and README, and writes two pages.

What stands between `<!-- results: NAME -->` and `<!-- end of results -->` is what an experiment draws, or README's rows
(`readme`). Between `<!-- value: NAME -->` and `<!-- end -->`, amid a sentence, stands a value of `bench/readme.toml`.
Behind `<!-- results: NAME, FIGURE: HEAD OF THE FIRST COLUMN -->`, up to an empty line, stands one figure of
a table with several. Where a table is not there, what stands there stays. docs/claims.md and docs/figures.md are whole.
`--check` writes nothing, and exits with 1 where a document would change.
"""

from __future__ import annotations

import re
import tomllib
from inspect import getdoc
from pathlib import Path
from textwrap import fill as fill_lines
from typing import Annotated, Any

import numpy as np
import typer

from bench.experiments.claims import tables_by_paper, values_of
from bench.experiments.results import PAPERS, Results, experiments, grid, markdown, module_of, read, table_names
from datasets.tables.command import run, say

ROOT = Path(__file__).parents[1]
WHOLE = re.compile(r"(<!-- results: (\w+) -->\n+).*?(\n+<!-- end of results -->)", re.DOTALL)
ONE = re.compile(r"(<!-- results: (\w+), ([^:>]+): ([^>]*?) -->\n).*?(?=\n\n|\n?\Z)", re.DOTALL)
VALUE = re.compile(r"(<!-- value: (\w+) -->).*?(<!-- end -->)", re.DOTALL)
README = Path(__file__).parent / "readme.toml"
HEAD = """# Claims of the papers

`python -m bench.report` writes this page from `bench/claims.toml`, which has the papers' side, and from the tables in
`bench/results/`, which the commands write. Nobody decides a verdict by hand: a value of the table is held to the rule
that stands beside it. Where the paper's number is rounded, or read from its text, the rule leaves it a little room.

- *comes back*: the method as written keeps the rule here.
- *better*: as written it does not, or it is not built, and what dtoss does instead keeps it.
- *does not*: neither does.
- *cannot be tested here*: nothing here measures it, and the row says why.
- *on the edge*: one run alone would say otherwise. Where a table was made by several (`--repeat`), medians decide, and
  the least and the most of the runs stand behind them.
- *open*: its table has not been made yet; the section of the benchmarks that is named speaks of it.

One machine of two cores stands for clusters, and a simulator for Storm. So rates of machines are never compared with
the papers' own, only ratios, counts and costs. *Modelled* is what many machines would make of work that was measured
and messages that were counted; the figure says how.

"""


FIGURES = """# Figures of the papers

`python -m bench.report` writes this page from the tables in `bench/results/`. What of them comes back is in
[claims.md](claims.md).

"""


def tables() -> dict[str, Results]:
    """Return all tables that are there."""
    found = {name: read(name) for name in table_names()}
    return {name: results for name, results in found.items() if results}


def fill(text: str, known: dict[str, Results]) -> str:
    """Return a document with what its experiments draw."""

    def whole(block: re.Match[str]) -> str:
        name = block[2]
        if name != "readme" and name not in known:
            return block[0]
        return f"{block[1]}{readme_rows(known) if name == 'readme' else drawing(known[name])}{block[3]}"

    def one(block: re.Match[str]) -> str:
        return block[1] + one_of(known[block[2]], block[3], block[4]) if block[2] in known else block[0]

    values = tomllib.loads(README.read_text(encoding="utf-8"))["value"]

    def value(block: re.Match[str]) -> str:
        chosen = values[block[2]]
        return f"{block[1]}{_told(chosen, known)}{block[3]}" if chosen["experiment"] in known else block[0]

    return VALUE.sub(value, ONE.sub(one, WHOLE.sub(whole, text)))


def drawing(results: Results) -> str:
    """Return what an experiment draws, and how it was made."""
    if results.size:
        runs = results.each_run
        again, differ = (f" --repeat {len(runs)}", _differ(results)) if len(runs) > 1 else ("", "")
        command = f"python -m bench.run {results.experiment} --size {results.size}{again}"
        took = f", {results.seconds:,.0f} s of processor time" if results.seconds else ""
        how = f"`{command}`, {results.commit}, {results.machine}{took}.{differ}"
    else:
        how = _origin(results, f"python -m bench.run {results.experiment}")
    data = f" {results.data}." if results.data else ""
    return f"{_lines(how + data)}\n\n{module_of(results.experiment).draw(results)}"


def _differ(results: Results) -> str:
    """Return how far apart the runs of a table lie."""
    found = {row.runs: abs(row.y) for row in results.rows if len(set(row.runs)) > 1 and np.isfinite(row.runs).all()}
    ranges = [np.ptp(runs) / middle for runs, middle in found.items() if middle]
    if not ranges:
        return " All runs found the same."
    return f" Where its runs differ, they lie {np.median(ranges):.1%} apart, {max(ranges):.1%} at the worst point."


def one_of(results: Results, figure: str, corner: str) -> str:
    """Return one figure of a table that was not made by an experiment: series with their units across."""
    mine = Results(results.experiment, tuple(row for row in results.rows if row.figure == figure))
    if not mine.rows:
        raise KeyError(f"{results.experiment} has no figure {figure!r}")
    return f"{_lines(_origin(mine, mine.rows[0].command))}\n{grid(mine, None, corner, '{:,.10g}')}"


def _origin(results: Results, command: str) -> str:
    """Return where typed figures come from: what repeats them, their day, and the commit that brought them."""
    first = results.rows[0]
    repeats = f"`{command}`, made" if command else "Made"
    return f"{repeats} on {first.date or 'a day not known'}, here since {first.since}."


def _lines(text: str) -> str:
    return fill_lines(text, 120, break_long_words=False, break_on_hyphens=False)


def readme_rows(known: dict[str, Results]) -> str:
    """Return the rows of README: texts of `bench/readme.toml`, numbers of the tables."""
    rows = []
    for row in tomllib.loads(README.read_text(encoding="utf-8"))["row"]:
        command = f"`python -m bench.run {row['experiment']}`"
        rows.append([row["what"], _told(row, known), f"{row['against']}; {command}"])
    return markdown(["what", "ratio: median, worst", "against"], rows)


def _told(chosen: dict[str, Any], known: dict[str, Results]) -> str:
    """Return a text with its numbers of a table, the medians of its runs; also the least and the most of them."""
    table = known[chosen["experiment"]]
    numbers = [float(np.median(values_of(number, table))) for number in chosen["numbers"]]
    return str(chosen["text"]).format(*numbers, least=min(numbers), most=max(numbers))


def figures_by_paper(known: dict[str, Results]) -> str:
    """Return all tables of the papers' experiments, each behind what its file says of it."""
    said = []
    for paper, title in PAPERS.items():
        said.append(f"## {title}")
        for name in experiments():
            if name.startswith(f"{paper}_"):
                drawn = drawing(known[name]) if name in known else "Its table has not been made yet."
                said.append(f"### {name}\n\n{getdoc(module_of(name))}\n\n{drawn}")
    return "\n\n".join(said)


def documents() -> dict[Path, str]:
    """Return all documents that results stand in, as they should be."""
    known = tables()
    marked = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    made = {path: fill(path.read_text(encoding="utf-8"), known) for path in marked}
    made[ROOT / "docs" / "claims.md"] = HEAD + tables_by_paper(known) + "\n"
    made[ROOT / "docs" / "figures.md"] = FIGURES + figures_by_paper(known) + "\n"
    return made


def main(check: Annotated[bool, typer.Option("--check", help="Write nothing; say what would change.")] = False) -> None:
    """Write them, or say which are not as they should be."""
    changed = [(path, text) for path, text in documents().items() if not path.exists() or path.read_text() != text]
    for path, text in changed:
        if not check:
            path.write_text(text, encoding="utf-8")
        say(f"{path.relative_to(ROOT)} {'is not what its tables say' if check else 'is written'}")
    if changed and check:
        raise typer.Exit(1)


if __name__ == "__main__":
    run(main)
