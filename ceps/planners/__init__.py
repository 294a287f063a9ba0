"""Planners of one call shape, `planner(problem, rng, effort, progress=None, **options) -> Outcome`."""
