"""Figures 9 to 16 of the paper on these operators, with its axes: python -m bench.windows.enorm.figures."""
