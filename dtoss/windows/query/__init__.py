"""Asking of windows that are stored: what was read stays open, by its hash."""
