"""Compiled inner loops (numba); planners import them when they run, so that `import ceps` stays quick."""
