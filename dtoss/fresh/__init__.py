"""Generations: what stands with the rows of a log, made anew in memory over and over; nothing of a server."""
