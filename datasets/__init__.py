"""Generators of moving objects, and readers of raw formats; not installed, they belong to a checkout."""
