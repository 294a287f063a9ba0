"""Planners: one file each, one call shape, `planner(problem, rng, effort, progress=None, **options) -> Outcome`."""
