"""Memory does not grow with the rows: the peaks of processes that write few rows and many."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

GENERATE = """
from tests.datasets.scenes import GENERATORS
from datasets.tables.batches import write_parquet
from itertools import chain
batches = GENERATORS[sys.argv[1]](int(sys.argv[2]))
first = next(batches)
rows = write_parquet(chain([first], batches), first.schema, sys.argv[3])
"""
READ = """
from pathlib import Path
from datasets.cabspotting import SCHEMA, cabspotting
from datasets.tables.rows import save
rows = save(cabspotting([sys.argv[1]]), SCHEMA, Path(sys.argv[3]), "cabspotting").kept
"""


def peak_of(code, what, rows, out):
    """Return the peak memory, in bytes, of a process that writes so many rows."""
    code = f"import resource, sys\n{code}\nprint(rows, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    command = [sys.executable, "-c", code, str(what), str(rows), str(out)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT)
    written, kilobytes = done.stdout.split()
    assert int(written) == rows
    return int(kilobytes) * 1_024


@pytest.mark.slow
@pytest.mark.parametrize("name", ["plane", "hotspots", "updates"])
def test_generating_three_million_rows_needs_no_more_than_half_a_million(name, tmp_path):
    few = peak_of(GENERATE, name, 500_000, tmp_path / "few")
    many = peak_of(GENERATE, name, 3_000_000, tmp_path / "many")
    assert many < few + 40e6  # the further rows alone are 60 MB or more


@pytest.mark.slow
def test_reading_four_million_lines_needs_no_more_than_one_million(tmp_path):
    line = b"37.75153 -122.39447 0 1211033530\n"
    (tmp_path / "few.txt").write_bytes(line * 1_000_000)
    (tmp_path / "many.txt").write_bytes(line * 4_000_000)
    few = peak_of(READ, tmp_path / "few.txt", 1_000_000, tmp_path / "few")
    many = peak_of(READ, tmp_path / "many.txt", 4_000_000, tmp_path / "many")
    assert many < few + 60e6  # the further rows alone are 130 MB
