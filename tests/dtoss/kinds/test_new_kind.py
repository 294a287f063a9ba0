"""A new kind of question is a file and a line: in process, over HTTP, in bulk, on a plan, and by the command."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from dtoss.kinds import all_kinds

ROOT = Path(__file__).parents[3]
LINE = '    "nearest_to.REVERSE_NEAREST",\n'


def test_a_kind_is_a_file_and_a_line(tmp_path):
    """A copy of the list with a line more is all that differs: answers are those of greedy over all objects."""
    source = Path(all_kinds.__file__).read_text()
    assert source.count(LINE) == 1
    (tmp_path / "all_kinds.py").write_text(source.replace(LINE, f'{LINE}    "spread_out.SPREAD_OUT",\n'))
    command = [sys.executable, "-m", "tests.dtoss.kinds.asked_everywhere", tmp_path]
    ended = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert (ended.returncode, ended.stderr) == (0, ""), ended.stderr
    assert ended.stdout == "everywhere\n"
