"""Deliverers, receivers and both are killed: each event arrives, in order, and a batch that comes again is itself."""

from __future__ import annotations

import pytest

from tests.pipelines.command.watch.deliver_kills import WAYS, round_of


@pytest.mark.parametrize("way", WAYS)
def test_no_kill_skips_an_event(tmp_path, way):
    _need_client(way)
    count, events, _ = round_of(tmp_path, way, 4, 1)
    assert count.total() == 4
    assert events > 20


@pytest.mark.deep("100 kills each; test_no_kill_skips_an_event has four")
@pytest.mark.parametrize("way", WAYS)
def test_many_kills_skip_no_event(tmp_path, way):
    _need_client(way)
    count, _, again = round_of(tmp_path, way, 100, 2)
    assert count.total() == 100
    assert (again > 0) == (way in ("webhook", "mqtt"))


def _need_client(way):
    if way in ("redis", "mqtt"):
        pytest.importorskip({"redis": "redis", "mqtt": "paho.mqtt.client"}[way])
