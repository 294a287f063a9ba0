"""Experiments with standing questions: python -m bench.watch.X."""
