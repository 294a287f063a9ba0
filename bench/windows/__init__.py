"""Experiments with windows: python -m bench.windows.X."""
