"""How many examples hypothesis makes where each costs much: all in the deep tier, a quarter in `make test`."""

from __future__ import annotations

ALL = [False]
"""Whether this run is of the deep tier; conftest sets it before tests are collected."""


def examples(full):
    """Return ``full`` in the deep tier, else a quarter of it, but ten at least."""
    return full if ALL[0] else max(full // 4, min(full, 10))
