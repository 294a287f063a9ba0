"""Questions to a history: which blocks hold an answer, what is read, exact answers; writes nothing."""
