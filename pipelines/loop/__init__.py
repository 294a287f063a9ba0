"""What keeps cycles going: files that arrive, what becomes of those that were read, when to end, metrics."""
