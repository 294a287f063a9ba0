"""Keys of a stream on workers: groups and their loads, which group moves, which operators run together."""
