"""What a request costs where a history is: measured, as bytes that could be read in its time."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from dtoss.commits.folder import RemoteFolder
from dtoss.errors import InputError
from dtoss.history.history_commit import Change, commit
from dtoss.history.versions import Home

SHORT_BYTES, LONG_BYTES = 4096, 8 * 2**20
"""Of the ranges whose times are compared: what a block's first bytes take, and what several files' worth of them do."""
READS = 15
"""Ranges of each length; the median counts."""


@dataclass(frozen=True)
class Calibrated:
    """What was measured."""

    request_seconds: float  # Until the bytes of a short range are there
    bytes_per_second: float  # By which a long range takes longer
    request_bytes: int
    worst_seconds: float  # The longest short range

    def as_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {
            "request_milliseconds": round(1e3 * self.request_seconds, 3),
            "worst_milliseconds": round(1e3 * self.worst_seconds, 3),
            "megabytes_per_second": round(self.bytes_per_second / 1e6, 1),
            "request_bytes": self.request_bytes,
        }


def calibrate(home: Home, *, keep: bool = True, seed: int = 0) -> Calibrated:
    """Measure what a request costs by reading ranges of the largest files, and keep it for the history.

    What the operating system has in memory is read faster than the disk would: on a local disk this measures both.
    """
    version = home.version()
    rng = np.random.default_rng(seed)
    order = np.argsort(-version.files.bytes, kind="stable")[:READS]
    names, sizes = [version.files.name[row] for row in order], version.files.bytes[order]
    if not len(sizes) or sizes[0] < 2 * SHORT_BYTES:
        raise InputError(
            f"the largest file of {home.shown} has {int(sizes[0]) if len(sizes) else 0} bytes: too few to measure a "
            f"request by; append rows, or give --request-bytes"
        )
    long = int(min(LONG_BYTES, sizes[0]))
    short = [_seconds(home, *_range(rng, names, sizes, SHORT_BYTES)) for _ in range(READS)]
    far = [_seconds(home, *_range(rng, names[:1], sizes[:1], long)) for _ in range(READS)]
    request = median(short)
    rate = (long - SHORT_BYTES) / max(median(far) - request, _TICK)
    found = Calibrated(request, rate, max(round(request * rate), 1), max(short))
    if keep and version.options.get("request_bytes") != found.request_bytes:
        commit(home, Change("options", options={"request_bytes": found.request_bytes}), version)
    return found


_TICK = 1e-6
"""Seconds that the clock tells apart."""


def _range(rng: np.random.Generator, names: list[str], sizes: Any, length: int) -> tuple[str, int, int]:
    fitting = [row for row in range(len(names)) if sizes[row] >= length]
    row = int(rng.choice(fitting))
    return names[row], int(rng.integers(0, sizes[row] - length + 1)), length


def _seconds(home: Home, name: str, begin: int, length: int) -> float:
    path = home.folder.path(name)
    began = time.perf_counter()
    if isinstance(home.folder, RemoteFolder):
        with home.folder.filesystem.open_input_file(path) as stream:
            stream.read_at(length, begin)
    else:
        with Path(path).open("rb", buffering=0) as file:
            file.seek(begin)
            file.read(length)
    return time.perf_counter() - began
