"""Many places at once: bodies read within limits, JSON and Arrow streams of strangers, answers sent piece by piece."""
