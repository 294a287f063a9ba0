"""From the snapshots that are open to answers as bytes: JSON, Arrow, one object."""
