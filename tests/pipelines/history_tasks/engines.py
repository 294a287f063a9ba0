"""What the fixture ``engine`` stands for: the session that jobs take, and the words that commands take."""

from __future__ import annotations

from tests.conftest import Here


def session_of(engine):
    """The Spark that does the work, or None for this process."""
    return None if isinstance(engine, Here) else engine


def words_of(engine):
    """How a command is told to use it."""
    return "--engine", "local" if isinstance(engine, Here) else "spark"


def batches_of(positions, names):
    """Some columns of the rows of positions that can be used."""
    rows = positions.good(names)
    return rows.frame.toArrow().to_batches() if positions.session else [b for task in rows.collect() for b in task]
