"""Messages that nobody should send to ``/partial``, ``/forward``, ``/within`` and in bulk."""

from __future__ import annotations

from collections import Counter
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np

from bench.measuring.verdicts import Goals
from bench.serve.fleet.servers import fleet
from dtoss.index import Index
from tests.dtoss.serve.cluster.several import dealt
from tests.dtoss.serve.cluster.test_doors_of_servers import messages as said_by_servers
from tests.dtoss.serve.cluster.test_doors_of_servers import mutate
from tests.dtoss.serve.hostile.fuzz import (
    GROWTH,
    SPARE,
    by_hand,
    held,
    post,
    strange_arrow,
    strange_json,
    strange_shape,
)

CORNERS = 500
"""Of all polygons of a request: those of long edges take seconds each, and are as many."""
ROUNDS = 5
"""After a first one, in which what is loaded when it is first wanted is loaded; memory is compared with the next."""


def messages(store: str, index: Index, folder: Path, count: int, goals: Goals) -> None:
    """Send so many of each kind to a server of a plan of two, which takes all that servers say without tokens."""
    rng = np.random.default_rng(0)
    placement = dealt(index, 2, "contiguous", rng)
    (limits := folder / "limits.toml").write_text(f"corners = {CORNERS}\n")
    with fleet(store, folder, placement, 2, ["--limits", str(limits)]) as servers:
        first, *others = said_by_servers(index, servers.ready(0)["snapshot"], rng)

        def strange(route: bytes, good: list[bytes], rng: np.random.Generator) -> tuple[bytes, bool]:
            return post(route, mutate(rng, good[int(rng.integers(len(good)))]), b"application/octet-stream", rng)

        kinds = {
            "/forward": (partial(strange, b"/forward", [first]),),
            "/partial": (partial(strange, b"/partial", others),),
            "/within": (strange_shape,),
            "bulk": (strange_json, strange_arrow),
        }
        at, (*_, worker) = SimpleNamespace(at=("127.0.0.1", servers.ports[0])), servers.pids(0)
        ends: dict[str, Counter[int | str]] = {name: Counter() for name in kinds}
        memory = []
        for _ in range(ROUNDS + 1):
            for name, makers in kinds.items():
                by_hand(at, count // ROUNDS, rng, ends[name], makers)
            memory.append(held(worker))
    for name, found in ends.items():
        failed = sum(many for end, many in found.items() if isinstance(end, int) and end >= 500 and end != 503)
        said = f"{name}: {sum(found.values()):,} messages"
        print(f"  {said}: {dict(sorted(found.items(), key=str))} {goals.ask(f'{said}: 500', failed, most=0)}")
    most = memory[1] * GROWTH + SPARE
    print(
        f"  memory after each round, MB: {[round(one / 1e6, 1) for one in memory]} "
        f"{goals.ask('memory after all messages, MB', memory[-1] / 1e6, most=most / 1e6)}", flush=True,
    )  # fmt: skip
