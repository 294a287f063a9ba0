"""Memory does not grow with the rows: the peaks of a process that writes few rows, then many."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

GENERATE = """
from tests.datasets.scenes import GENERATORS
from datasets.tables.seeded_batches import write_parquet
from itertools import chain

def write(name, rows, out):
    batches = GENERATORS[name](rows)
    first = next(batches)
    return write_parquet(chain([first], batches), first.schema, out)
"""
READ = """
from pathlib import Path
from datasets.cabspotting import SCHEMA, cabspotting
from datasets.tables.standard_rows import save

def write(folder, rows, out):
    return save(cabspotting([f"{folder}/{rows}.txt"]), SCHEMA, Path(out), "cabspotting").kept
"""
PEAKS = """
for rows in map(int, sys.argv[3:]):
    assert write(sys.argv[1], rows, sys.argv[2]) == rows
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1_024)
"""


def peaks_of(code, what, out, *rows):
    """Return the peak memory, in bytes, of a process after it has written so many rows each time."""
    command = [sys.executable, "-c", f"import resource, sys\n{code}{PEAKS}", str(what), str(out), *map(str, rows)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT)
    return [int(line) for line in done.stdout.splitlines()]


OTHER = pytest.mark.deep("another generator; that each yields small batches is in test_generators")


NAMES = ["plane", *(pytest.param(name, marks=OTHER) for name in ("hotspots", "updates"))]


@pytest.mark.parametrize("name", NAMES)
def test_generating_many_rows_needs_no_more_than_few(name, tmp_path):
    few, many = peaks_of(GENERATE, name, tmp_path / "out", 500_000, 2_000_000)
    assert many < few + 24e6  # the further rows alone are 36 MB or more


@pytest.mark.parametrize(
    ("few", "many", "room"),
    [
        (250_000, 1_000_000, 15e6),
        pytest.param(1_000_000, 4_000_000, 60e6, marks=pytest.mark.deep("four times as many lines as in make test")),
    ],
)
def test_reading_many_lines_needs_no_more_than_few(tmp_path, few, many, room):
    line = b"37.75153 -122.39447 0 1211033530\n"
    for lines in (few, many):
        (tmp_path / f"{lines}.txt").write_bytes(line * lines)
    before, after = peaks_of(READ, tmp_path, tmp_path / "out", few, many)
    assert after < before + room  # the further rows alone are twice as much
