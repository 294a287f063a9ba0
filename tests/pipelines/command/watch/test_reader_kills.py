"""Consumers, readers and both are killed: each event is told, in order, and some again."""

from __future__ import annotations

import pytest

from tests.pipelines.command.watch.reader_kills import WAYS, round_of


@pytest.mark.parametrize("way", WAYS)
def test_no_kill_skips_an_event(tmp_path, way):
    """Handed to a command, acknowledged, and by two processes of one name."""
    count, events, again = round_of(tmp_path, way, 4, 1)
    assert count.total() == 4
    assert events > 20
    assert again >= 0
