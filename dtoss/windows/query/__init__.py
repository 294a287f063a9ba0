"""Questions about windows that are stored: one end, one key over time, flows; what was read stays open, by its hash."""
