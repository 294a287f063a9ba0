"""Servers that answer together by a plan: who holds which partitions, and what they say to each other."""
