"""A beat of a loop that makes snapshots: what arrives counts in a history, in windows and in the store."""
