"""A measure of windows is a line of one list: percentiles that are added there come out right, as do none and many."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from dtoss.windows import measures

ROOT = Path(__file__).parents[3]

MORE = (1, 10, 75)
"""Percents that the product has no measure for."""
RUN = """
import sys
from importlib.util import module_from_spec, spec_from_file_location

found = spec_from_file_location("dtoss.windows.measures", sys.argv[1])
sys.modules[found.name] = module_from_spec(found)
found.loader.exec_module(sys.modules[found.name])
from dtoss.windows.measures import MEASURES
from tests.dtoss.windows import brute
from tests.dtoss.windows.storage import kept

percents = tuple(map(int, sys.argv[3].split(",")))
brute.PERCENTS = percents
kept.SPEEDS = brute.SPEEDS = ("max_speed", *(f"p{percent}_speed" for percent in percents))
home, fixed = kept.begin(sys.argv[2], kept.spec(measures=",".join(MEASURES), late="1h"))
batches = kept.made(5)
for batch in batches:
    kept.commit(home, fixed, batch)
print(kept.check(home, [row for batch in batches for row in batch]))
"""


def test_a_measure_is_one_line_of_the_list(tmp_path):
    """A copy of the list with lines for three percentiles more is all that differs: answers are those of the oracle."""
    source = Path(measures.__file__).read_text()
    line = next(line for line in source.splitlines() if '"p95_speed"' in line)
    lines = [line.replace("95", str(percent)) for percent in MORE]
    (tmp_path / "measures.py").write_text(source.replace(line, "\n".join([*lines, line])))
    percents = ",".join(map(str, (*MORE, 50, 95, 99)))
    command = [sys.executable, "-c", RUN, tmp_path / "measures.py", tmp_path / "store", percents]
    ended = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert int(ended.stdout) > 50
