"""Windows: exact counts of each place over sliding lengths of time, from signed patches of panes; no Spark."""
