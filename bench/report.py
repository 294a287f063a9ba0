"""Documents from tables of `bench/results/`: `python -m bench.report` fills docs and README, and writes docs/claims.md.

What stands between `<!-- results: NAME -->` and `<!-- end of results -->` is what an experiment draws. Where its table
is not there, what stands between them stays. `--check` writes nothing, and exits with 1 where a document would change.
"""

from __future__ import annotations

import re
from pathlib import Path
from textwrap import fill as fill_lines
from typing import Annotated

import typer

from bench.experiments.claims import tables_by_paper
from bench.experiments.results import Results, experiments, module_of, read
from datasets.tables.command import run, say

ROOT = Path(__file__).parents[1]
MARKED = re.compile(r"(<!-- results: (\w+) -->\n\n).*?(\n\n<!-- end of results -->)", re.DOTALL)
HEAD = """# Claims of the papers

`python -m bench.report` writes this page from `bench/claims.toml`, which has the papers' side, and from the tables in
`bench/results/`, which the commands write. Nobody decides a verdict by hand: a value of the table is held to the rule
that stands beside it. Where the paper's number is rounded, or read from its text, the rule leaves it a little room.

- *comes back*: the method as written keeps the rule here.
- *better*: as written it does not, or it is not built, and what dtoss does instead keeps it.
- *does not*: neither does.
- *cannot be tested here*: nothing here measures it, and the row says why.
- *open*: its table has not been made yet; the section of the benchmarks that is named speaks of it.

One machine of two cores stands for clusters, and a simulator for Storm. So rates of machines are never compared with
the papers' own, only ratios, counts and costs.

"""


def tables() -> dict[str, Results]:
    """Return all tables that are there."""
    found = {name: read(name) for name in experiments()}
    return {name: results for name, results in found.items() if results}


def fill(text: str, known: dict[str, Results]) -> str:
    """Return a document with what its experiments draw."""

    def draw(block: re.Match[str]) -> str:
        results = known.get(block[2])
        return f"{block[1]}{shown(results)}{block[3]}" if results else block[0]

    return MARKED.sub(draw, text)


def shown(results: Results) -> str:
    """Return what an experiment draws, and how it was made."""
    how = f"`python -m bench.run {results.experiment} --size {results.size}`, {results.commit}, {results.machine}"
    said = fill_lines(f"{how}. {results.data}.", 120, break_long_words=False, break_on_hyphens=False)
    return f"{said}\n\n{module_of(results.experiment).draw(results)}"


def documents() -> dict[Path, str]:
    """Return all documents that results stand in, as they should be."""
    known = tables()
    marked = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    made = {path: fill(path.read_text(encoding="utf-8"), known) for path in marked}
    made[ROOT / "docs" / "claims.md"] = HEAD + tables_by_paper(known) + "\n"
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
