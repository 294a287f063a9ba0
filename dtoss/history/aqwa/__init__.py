"""AQWA to the letter, kept to compare with its paper: counters on a grid, split-queue; runs of it are in `bench/`.

Aly and others, "AQWA: Adaptive Query-Workload-Aware Partitioning of Big Spatial Data", PVLDB 8(13), 2015. Sections and
formulas that are named here are the paper's. Files are read whole, and time is not known.
"""
