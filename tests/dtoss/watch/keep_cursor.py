"""A consumer of events that stands where a test wants it."""

from __future__ import annotations

from dataclasses import replace

from dtoss.watch.events.readers import Reader, keep_reader, reader_of


def keep_cursor(home, name, cursor):
    """Let a reader stand behind an event, as if it had read all up to there; what else is known of it stays."""
    known = reader_of(home, name) or Reader(name, cursor)
    keep_reader(home, replace(known, cursor=cursor))
