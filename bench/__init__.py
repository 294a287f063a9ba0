"""Benchmarks as ratios against a reference in the same run, and experiments of the papers."""
