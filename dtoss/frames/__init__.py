"""Frames of other libraries as what an index takes, and what it answers as frames of theirs."""
