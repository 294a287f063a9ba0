"""How many examples hypothesis makes where each costs much: all in the deep tier, few in `make test`."""

from __future__ import annotations

ALL = [False]
"""Whether this run is of the deep tier; conftest sets it before tests are collected."""


def examples(full, quick=None):
    """Return ``full`` in the deep tier, else ``quick``; a quarter of them, but ten at least, if that is not given."""
    few = max(full // 4, min(full, 10)) if quick is None else quick
    return full if ALL[0] else few
