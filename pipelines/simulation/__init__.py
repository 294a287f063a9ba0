"""Rehearsals: what strategies would have done with a stream, without Spark."""
