"""Where rows come from that nobody sends here: one file a kind of source."""
