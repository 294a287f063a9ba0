"""Experiments with the history of positions, with all contestants in one run."""
