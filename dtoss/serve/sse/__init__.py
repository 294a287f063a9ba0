"""Streams of server-sent events, whatever they tell: which are open, when they wake, how each begins and is quiet."""
