"""No power fails in these tests."""

from tests.disks import no_sync

__all__ = ["no_sync"]
