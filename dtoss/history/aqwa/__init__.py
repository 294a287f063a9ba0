"""The paper's own method to the letter: counters on a grid, split-queue, fading; for comparison and as an oracle."""
