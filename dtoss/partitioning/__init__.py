"""Pivots, regions, who owns what, and which partitions a question concerns."""
