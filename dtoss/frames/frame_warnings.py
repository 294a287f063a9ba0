"""Warnings about a frame, at the line of whoever gave it."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

PACKAGE = str(Path(__file__).resolve().parents[1])


def warn_caller(message: str) -> None:
    """Warn at the innermost line that calls this package, however many of our own functions are between."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_code.co_filename.startswith(PACKAGE):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, stacklevel=level)
