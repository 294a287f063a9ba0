"""Subscriptions on an object store: the same changes, and of two writers one is told to look again."""

from __future__ import annotations

import json

import pytest

from dtoss.watch.subscriptions.changes import Change, subscribe, unsubscribe
from dtoss.watch.subscriptions.current import change_number, table_at
from dtoss.watch.subscriptions.subscription_files import read_files
from dtoss.watch.subscriptions.validation import check_subscriptions
from dtoss.watch.watch_folder import DEFAULT_NAME, Home, Limits
from tests.dtoss.commits.faster import others_are_faster
from tests.object_store import object_store


@pytest.fixture(scope="module")
def bucket():
    """An object store with a bucket."""
    with object_store() as place:
        yield place


def test_changes_are_made_and_read_there(bucket, monkeypatch):
    """Also with a base in between, and with a writer that is faster."""
    home = Home(bucket.uri(), DEFAULT_NAME, Limits(base_every=2))
    assert (change_number(home), unsubscribe(home, [1])) == (0, Change(0, 0, 0, 0, 0))
    for number in range(5):
        table, _ = check_subscriptions(
            [{"id": number, "circle": [1, 2, number]}, {"id": "all", "circle": [1, 2, number]}]
        )
        assert subscribe(home, table).number == number + 1
    others_are_faster(monkeypatch, lambda: unsubscribe(home, ["0"]))
    assert unsubscribe(home, ["1", "0"]) == Change(7, 0, 0, 1, 0)
    assert table_at(home, 7)["id"].to_pylist() == ["2", "3", "4", "all"]
    assert table_at(home, 7)["version"].to_pylist() == [3, 4, 5, 5]
    with home.folder.filesystem.open_output_stream(home.folder.path("rows.jsonl")) as stream:
        stream.write(json.dumps({"id": 9, "box": [1, 2, 3, 4]}).encode())
    path, _, options = home.path.partition("?")
    assert read_files([f"{path}/rows.jsonl?{options}"]).table["id"].to_pylist() == ["9"]
