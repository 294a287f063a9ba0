"""The suites of pytest-benchmark: `make bench`."""
