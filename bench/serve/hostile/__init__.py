"""Servers that are treated as nobody should treat them, and what becomes of those who ask as they should."""
