"""Sources that are killed, replayed, reordered and doubled: rows count as if each had come once."""

from __future__ import annotations

import pytest

from tests.pipelines.command.source_kills import WAYS, round_of

CLIENTS = {"redis": "redis", "mqtt": "paho.mqtt.client"}


@pytest.mark.deep("a hundred kills take minutes; tests/dtoss/feeds/test_redis_groups.py kills readers alone, quickly")
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("way", WAYS)
def test_a_source_that_is_killed_counts_as_if_each_row_had_come_once(tmp_path, way):
    """In the store, in a watch with crosses, dwells and pairs, and in windows."""
    pytest.importorskip(CLIENTS[way])
    count, told, rows, events = round_of(tmp_path, way, 100, 2)
    assert count.total() == 100
    assert told > rows
    assert events > 1_000
