"""A history in, a page out: what its questions cost and would cost elsewhere, and where it is cut. Needs no Spark.

Also a script: ``python -m pipelines.history_report HISTORY --out FOLDER``, or by spark-submit, with the options of
``dtoss history report``.
"""

from __future__ import annotations

import json
import math
from dataclasses import fields
from pathlib import Path

from dtoss.errors import InputError
from dtoss.history.adaptive.rivals import StorePrices, sample_of
from dtoss.history.questions import Questions, gather
from dtoss.history.versions import Home
from pipelines.reports.history_facts import adapting_of, drawn_versions, facts_of, frames_of, known_versions
from pipelines.reports.history_page import page

A_DAY = 1000.0
"""Questions a day where nobody says how many there are."""


def history_report(
    history: str,
    out: str,
    *,
    version: int | None = None,
    a_day: float = A_DAY,
    prices: StorePrices | None = None,
    questions: Questions | None = None,
) -> Path:
    """Write report.html and report.json into a folder and return the path of the page.

    Parameters
    ----------
    history
        Path or URI.
    out
        The folder; made if it is not there.
    version
        The newest one when None.
    a_day
        Questions a day, for which requests, bytes and dollars are told.
    prices
        Of a store; those of :class:`dtoss.history.adaptive.rivals.StorePrices` when None.
    questions
        What is asked; what the history remembers when None.

    Raises
    ------
    ValueError
        If ``a_day`` is not above 0.
    StoreError
        If there is no history or no such version, or a file is damaged.
    OSError
        If something cannot be read or written.
    """
    if not 0 < a_day < math.inf:
        raise ValueError(f"a_day is {a_day:g}: a number of questions above 0 is wanted")
    home = Home(str(history))
    one = home.version(version)
    asked = gather(home, one.schema.space.dimension).questions if questions is None else questions
    sample = sample_of(home, one)
    versions = known_versions(home, one)
    frames, adapting = frames_of(drawn_versions(versions, asked), asked, sample), adapting_of(versions)
    listed = StorePrices() if prices is None else prices
    facts = facts_of(one, asked, sample, frames, adapting, shown=home.shown, a_day=a_day, prices=listed)
    target = Path(out)
    target.mkdir(parents=True, exist_ok=True)
    text = json.dumps(facts, indent=1, allow_nan=False)
    (target / "report.json").write_text(text + "\n", encoding="utf-8")
    (target / "report.html").write_text(page(facts), encoding="utf-8")
    return target / "report.html"


def prices_in(path: str) -> StorePrices:
    """Return the prices that a JSON file names, the others as they are listed."""
    known = {part.name: part.type for part in fields(StorePrices)}
    try:
        said = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read as prices: {error}") from None
    if not isinstance(said, dict) or not said.keys() <= known.keys():
        odd = sorted(set(said) - set(known)) if isinstance(said, dict) else [type(said).__name__]
        raise InputError(f"{path} has {', '.join(odd)}: of prices {', '.join(known)} are known")
    for name, value in said.items():
        if known[name] == "str":
            good, wanted = isinstance(value, str), "text"
        else:
            least = 1 if name == "bytes_a_second" else 0
            good, wanted = type(value) in (int, float) and least <= value < math.inf, f"a number, {least} or more,"
        if not good:
            raise InputError(f"{name} in {path} is {value!r}: {wanted} is wanted")
    return StorePrices(**said)


if __name__ == "__main__":
    from pipelines.command.main import run_script

    run_script("history report")
