"""What keeps cycles going: files that arrive, what is done with those that were read, when to end, what is told."""
