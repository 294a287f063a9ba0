"""Experiments with the query server: swaps, rates, and what many clients at once notice of each other."""
