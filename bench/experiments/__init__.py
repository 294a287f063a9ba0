"""The papers' figures again: a file a figure, each with `run(size)` and `draw(results)`, and the tables they become."""
