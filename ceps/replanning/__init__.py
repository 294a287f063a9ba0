"""Replanning: what is expected of the coming day, and whether the plan in force is repaired for it."""
