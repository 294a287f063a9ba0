"""Benchmarks of the ways in and out: frames, joins of files, Spark SQL."""
