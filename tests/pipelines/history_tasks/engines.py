"""What the fixture ``engine`` stands for: the session that jobs take, and the words that commands take."""

from __future__ import annotations

import pyarrow as pa

from tests.conftest import Here


def session_of(engine):
    """The Spark that does the work, or None for this process."""
    return None if isinstance(engine, Here) else engine


def words_of(engine):
    """How a command is told to use it."""
    return "--engine", "local" if isinstance(engine, Here) else "spark"


def batches_of(positions, names):
    """Some columns of the rows of positions that can be used."""
    return positions.good(names).table(pa.schema([positions.frame.schema.field(name) for name in names])).to_batches()
