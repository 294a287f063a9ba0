"""Servers that answer together, each with the partitions that a plan gives it."""
