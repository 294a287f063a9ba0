"""Servers of a plan as processes, and what asks them."""
