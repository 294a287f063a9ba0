"""Events and subscriptions of a watch on an object store: the same as on a disk."""

from __future__ import annotations

import json

from tests.dtoss.serve.events.listening import Watch, stream, with_ids
from tests.dtoss.serve.served import Asker, running, town
from tests.object_store import object_store


def test_events_are_streamed_and_subscriptions_changed_there():
    with object_store() as bucket:
        store = bucket.uri()
        with running(town(objects=300), store=store, allow_subscribe=True) as server, Asker(server) as asker:
            body = json.dumps([{"id": "a", "circle": [0, 0, 3000], "events": ["enter", "leave"]}]).encode()
            status, _, answer = asker.raw("/subscriptions", "POST", body)
            assert (status, json.loads(answer)["added"]) == (200, 1)
            watch = Watch(store)
            with stream(server) as found:
                assert found.block()["id"] == "0-end"
                watch.batch()
                watch.batch()
                wanted = with_ids(watch.told())
                assert found.events(len(wanted)) == wanted
            page = asker.get("/events", after="beginning", limit=5)
            assert [one["id"] for one in page["events"]] == [one for one, _ in wanted[:5]]
            assert asker.get("/subscriptions/a")["counts"]
            assert asker.raw("/subscriptions/a", "DELETE")[0] == 200
            assert asker.get("/subscriptions")["count"] == 0
        assert server.heard.failures == 0
