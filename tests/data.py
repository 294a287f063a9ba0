"""Where real data lies: sets that may not be passed on in the folder of DTOSS_DATA, rows that may be in ``samples``."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
DATA = Path(os.environ.get("DTOSS_DATA", HERE.parents[1] / "shared" / "data"))
RAW = DATA / "raw_samples"
"""Raw files as their sources have them, or their first lines."""
SAMPLES = HERE / "samples"
"""Real rows that are part of the project; its README has their sources and licences."""


def real_set(name: str) -> Path:
    """Return the path of a real set; skips the test where it is missing."""
    path = DATA / f"{name}.parquet"
    if not path.exists():
        pytest.skip(f"{path.name} is not in {DATA}, which DTOSS_DATA names")
    return path
