"""Many places at once: bodies read within limits, JSON and Arrow streams of strangers, hits as rows."""
