"""A worker of the server for tests of the client: it tells all of its snapshots, and replaces them when it is told."""

from __future__ import annotations

import time
from contextlib import contextmanager
from types import SimpleNamespace

import dtoss
from dtoss.serve.answers.open_snapshots import ServedSnapshot
from tests.dtoss.serve.served import Doors, running, served_of


def told_of(index, name):
    """An index as what is served, with all facts."""
    served = served_of(index, name)
    facts = {
        "commit": 1, "objects": len(index), "sites": index.sites, "partitions": len(index.parts), "crs": index.crs,
        "metric": index.space.metric, "unit": "m", "bounds": index.bounds,
        "id_type": "string" if index.string_ids else "int64", "created": "2026-01-01T00:00:00Z",
        "columns": {name: str(column.type) for name, column in index.parts[0].attributes.items()},
        "version": dtoss.__version__,
    }  # fmt: skip
    return ServedSnapshot(index, name, 1, time.time(), served.conditions, facts)


@contextmanager
def answering(index, name="a", *, token=None, **settings):
    """A worker's URL, ``replace(index, name)``, which ends when the new one answers, and what was heard of requests."""
    with running(index, doors=Doors(token), **settings) as server:
        server.serving.now = told_of(index, name)

        def replace(fresh, called):
            server.serving.replace(told_of(fresh, called))

        def forget():
            server.serving.before = None

        yield SimpleNamespace(
            url="http://{}:{}".format(*server.at), replace=replace, forget=forget, heard=server.heard, worker=server
        )


class Asked:
    """What an index asks its server, and in which threads; ``before`` is called with each target before it is asked."""

    def __init__(self, there):
        self.targets, self.before = [], None
        self.connections = there._server.connections
        self.real, self.connections.ask = self.connections.ask, self.ask

    def ask(self, method, target, *others):
        """Ask as before."""
        self.targets.append(target)
        if self.before is not None:
            self.before(target)
        return self.real(method, target, *others)
