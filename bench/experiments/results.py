"""Results of experiments as tidy tables: a row a point, a Parquet file an experiment, and Markdown of them."""

from __future__ import annotations

import gc
import subprocess
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import ArrayLike

from bench.measuring.machine import describe_machine, processor_seconds

SIZES = ("smoke", "here", "full")
"""Seconds, with answers checked; at most ten minutes; as the paper has it, as far as this machine goes."""
RESULTS = Path(__file__).parents[1] / "results"
PAPERS = {
    "dtoss": "D-ToSS: dissertation, chapter 3",
    "ceps": "CEPS: dissertation, chapter 4",
    "aqwa": "AQWA",
    "swarm": "SWARM",
    "ps2stream": "PS2Stream",
    "enorm": "Enorm",
}
OURS = "ours"
"""Of no paper: what README quotes."""
SAID = ("size", "commit", "machine", "seconds")
"""Of a whole table, in each of its rows."""


@dataclass(frozen=True)
class Row:
    """A point of a figure: of a series, at x, in a unit.

    Parameters
    ----------
    y : its value; the median, where the experiment was run several times.
    runs : y of each of these runs.
    n, spread : how many values of a run y is the mean of, and their standard deviation.
    modelled : whether y comes from a model, and nobody measured or counted it.
    data : what it was made of.
    figure : its table, where a file has several.
    command, date, since : what repeats it; the day it was made, where that is known; the commit that brought it here.
    """

    series: str
    x: str
    y: float
    unit: str
    n: int = 1
    spread: float = 0.0
    modelled: bool = False
    seed: int = 0
    data: str = ""
    figure: str = ""
    command: str = ""
    date: str = ""
    since: str = ""
    runs: tuple[float, ...] = ()


def point(series: str, x: object, y: ArrayLike, unit: str, **rest: Any) -> Row:
    """Return a row of one value, or of the mean of several."""
    values = np.atleast_1d(np.asarray(y, np.float64))
    spread = float(values.std()) if len(values) > 1 else 0.0
    return Row(series, str(x), float(values.mean()), unit, len(values), spread, **rest)


@dataclass(frozen=True)
class Results:
    """All rows of an experiment; where and how they were made, and the processor seconds that this took."""

    experiment: str
    rows: tuple[Row, ...]
    size: str = ""
    commit: str = ""
    machine: str = ""
    seconds: float = 0.0

    def of(self, series: str, unit: str | None = None) -> dict[str, float]:
        """Return y by x of a series; KeyError where it is not there, or there in several units and none is named."""
        mine = [row for row in self.rows if row.series == series and unit in (None, row.unit)]
        if len({row.unit for row in mine}) != 1:
            raise KeyError(f"{self.experiment} has no series {series!r} in one unit {unit or ''}")
        return {row.x: row.y for row in mine}

    @property
    def each_run(self) -> tuple[Results, ...]:
        """The tables of its runs; itself, where it was run once."""
        columns = zip(*(row.runs for row in self.rows), strict=True)
        return tuple(replace(self, rows=_at_points(self.rows, column)) for column in columns) or (self,)

    @property
    def data(self) -> str:
        """What it was made of, each once."""
        return "; ".join(dict.fromkeys(row.data for row in self.rows if row.data))


def experiments() -> tuple[str, ...]:
    """Return the names of all experiments, paper by paper, and then those that README quotes."""
    found = sorted(path.stem for path in Path(__file__).parent.glob("*_*.py") if not path.stem.startswith("_"))
    return tuple(name for paper in (*PAPERS, OURS) for name in found if name.startswith(f"{paper}_"))


def table_names(folder: Path = RESULTS) -> tuple[str, ...]:
    """Return the names of all tables that lie in a folder."""
    return tuple(sorted(path.stem for path in folder.glob("*.parquet")))


def module_of(name: str) -> ModuleType:
    """Return the module of an experiment."""
    return import_module(f"bench.experiments.{name}")


def measure(name: str, size: str, repeat: int = 1) -> Results:
    """Run an experiment here and now, so many times."""
    began, run = processor_seconds(), module_of(name).run
    gc.collect()
    gc.freeze()  # some look for garbage before each turn: not among what is imported
    try:
        rows = medians([tuple(run(size)) for _ in range(repeat)])
    finally:
        gc.unfreeze()
    return Results(name, rows, size, _commit(), describe_machine(), processor_seconds() - began)


def medians(runs: Sequence[tuple[Row, ...]]) -> tuple[Row, ...]:
    """Return the rows of several runs as those of one: the median of each point, with what all of them found.

    Raises
    ------
    ValueError
        If they do not have the same points.
    """
    if len(runs) == 1:
        return runs[0]
    if len({tuple((row.series, row.x, row.unit) for row in run) for run in runs}) > 1:
        raise ValueError(f"runs of {', '.join(str(len(run)) for run in runs)} points: all must have the same")
    found = zip(*([row.y for row in run] for run in runs), strict=True)
    return tuple(replace(row, y=float(np.median(ys)), runs=ys) for row, ys in zip(runs[0], found, strict=True))


def _at_points(rows: Sequence[Row], values: Sequence[float]) -> tuple[Row, ...]:
    """Return rows with other values, of one run each."""
    return tuple(replace(row, y=y, runs=()) for row, y in zip(rows, values, strict=True))


def write(results: Results, folder: Path = RESULTS) -> Path:
    """Write an experiment's table, and return its file."""
    folder.mkdir(parents=True, exist_ok=True)
    count = len(results.rows)
    columns = {"experiment": [results.experiment] * count}
    columns |= {one.name: [getattr(row, one.name) for row in results.rows] for one in fields(Row)}
    columns["runs"] = pa.array(columns["runs"], pa.list_(pa.float64()))
    columns |= {name: [getattr(results, name)] * count for name in SAID}
    path = folder / f"{results.experiment}.parquet"
    pq.write_table(pa.table(columns), path, compression="zstd", use_dictionary=True)
    return path


def read(name: str, folder: Path = RESULTS) -> Results | None:
    """Return an experiment's table; None where it was never written."""
    path = folder / f"{name}.parquet"
    if not path.exists():
        return None
    table = pq.read_table(path)
    held = table.to_pylist()
    known = [one.name for one in fields(Row) if one.name in table.column_names]
    rows = tuple(Row(**({name: row[name] for name in known} | {"runs": tuple(row.get("runs", ()))})) for row in held)
    return Results(name, rows, *(held[0][key] for key in SAID if key in held[0]))


def markdown(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table of texts."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


Form = str | Callable[[float], str]


def grid(
    results: Results,
    unit: str | None,
    corner: str = "",
    form: Form = "{:.2f}",
    *,
    series: Sequence[str] | None = None,
    only: Callable[[Row], bool] = lambda row: True,
    down: str = "x",
) -> str:
    """Return all points of a unit as a table: x down and series across, or the other way round.

    Without a unit those of all units: each stands behind its series.
    """
    mine = [
        row
        for row in results.rows
        if unit in (None, row.unit) and only(row) and (series is None or row.series in series)
    ]

    def side(row: Row, name: str) -> str:
        return f"{row.series}, {row.unit}" if unit is None and name == "series" else getattr(row, name)

    across = "series" if down == "x" else "x"
    values = {(side(row, down), side(row, across)): row.y for row in mine}
    columns = list(dict.fromkeys(side(row, across) for row in mine))
    write_one = form.format if isinstance(form, str) else form
    rows = [
        [first, *(write_one(values[first, one]) if (first, one) in values else "" for one in columns)]
        for first in dict.fromkeys(side(row, down) for row in mine)
    ]
    return markdown([corner or unit or "", *columns], rows)


def _commit() -> str:
    """Return what is checked out, with a plus where files of it were changed since."""
    asked = [["git", "rev-parse", "--short", "HEAD"], ["git", "status", "--porcelain", "--untracked-files=no"]]
    head, changes = (subprocess.run(one, capture_output=True, text=True, cwd=RESULTS.parent).stdout for one in asked)
    return head.strip() + ("+" if changes else "")
