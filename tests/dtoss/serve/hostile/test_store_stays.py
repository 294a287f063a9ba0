"""No request changes a store: not those that are meant to be sent, and not those that nobody should send."""

from __future__ import annotations

import hashlib
from collections import Counter
from pathlib import Path

import numpy as np

import dtoss
from tests.dtoss.serve.hostile.fuzz import by_hand, watched
from tests.dtoss.serve.served import Asker, running
from tests.dtoss.serve.watched import commit_all_kinds, town

KINDS = ("GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS")


def contents(store):
    """Everything that is in a store: each name with its kind, its time and the hash of what it holds."""

    def held(path):
        return path.stat().st_mtime_ns, path.is_dir() or hashlib.sha256(path.read_bytes()).digest()

    return {str(path.relative_to(store)): held(path) for path in sorted(Path(store).rglob("*"))}


def test_no_request_changes_the_store(tmp_path):
    """Not one without --allow-subscribe, whatever its method."""
    store = tmp_path / "store"
    commit_all_kinds(store)
    watched(store)
    before, ends = contents(store), Counter()
    assert len(before) > 10
    with running(town(), store=str(store)) as server:
        with Asker(server) as asker:
            operations = sorted(asker.get("/openapi.json")["paths"])
            assert len(operations) >= 15
            for path in operations:
                if path not in ("/live", "/events"):  # these do not end
                    for method in KINDS:
                        place = path.replace("{", "").replace("}", "")
                        ends[asker.raw(f"{place}?lon=10&lat=50", method, b'{"positions": [[10, 50]]}')[0]] += 1
        by_hand(server, 300, np.random.default_rng(5), ends)
    assert ends[200] > 30
    assert ends[405] > 30
    assert contents(store) == before
    assert len(dtoss.open(str(store))) == len(town())
