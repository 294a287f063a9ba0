"""Windows of the store over HTTP: which there are, one end, one key over time, flows."""
