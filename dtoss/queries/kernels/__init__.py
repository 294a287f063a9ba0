"""Compiled searches and the table of addresses that they read; no Python objects."""
