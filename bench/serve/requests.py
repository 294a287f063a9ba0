"""What a request costs a server of one worker, beside an empty answer of the same bytes from the same library.

    python -m bench.serve.requests STORE [--seconds S] [--rounds N] [--connections C]

Needs `wrk` (a package of Debian's). The server is on one core, wrk on another, over loopback. Questions are for the 8
nearest objects of places near objects. Each round asks all servers in turn: the short way, the framework
(``--no-hot``), an empty answer by bare ASGI on the same uvicorn, an empty answer by the same framework. Requests/s,
processor time of the server for a request, latencies as wrk sees them; medians of the rounds and the worst of them.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np

import dtoss
from bench.measuring.machine import family

SCRIPT = Path(__file__).with_name("places.lua")
PLACES = 20_000
NEAR_DEGREES = 0.001
CORES = sorted(os.sched_getaffinity(0))
_TICK = os.sysconf("SC_CLK_TCK")


class Measured(NamedTuple):
    """One run of wrk."""

    per_second: float
    processor_us: float
    p50_us: float
    p99_us: float
    worst_us: float
    wrong: int


def targets_of(store: str, seed: int = 1) -> dict[str, list[str]]:
    """Return targets of frequent questions by kind."""
    index, rng = dtoss.open(store), np.random.default_rng(seed)
    held = np.concatenate([part.positions[: part.owned_objects] for part in index.parts.all()])
    ids = np.concatenate([part.ids[: part.owned_objects] for part in index.parts.all()])
    rows = rng.integers(0, len(held), PLACES)
    places = (held[rows] + rng.normal(0, NEAR_DEGREES, (PLACES, 2))).clip([-180, -90], [180, 90]).tolist()
    gaps = index.knn(held[rows[:1000]], 8).distance.reshape(-1, 8)[:, -1]
    radius = float(np.quantile(gaps, 0.2))  # so that few have more than 64 hits
    return {
        "knn": [f"/knn?lon={x:.6f}&lat={y:.6f}&k=8" for x, y in places],
        "range": [f"/range?lon={x:.6f}&lat={y:.6f}&radius={radius:.1f}" for x, y in places],
        "object": [f"/objects/{ids[row]}" for row in rows.tolist()],
        "columns": [f"/knn?lon={x:.6f}&lat={y:.6f}&k=8&columns={index.column_names[0]}" for x, y in places],
    }


@contextmanager
def pinned(
    command: list[str], ready: str, cores: Sequence[int] | None = CORES[:1]
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run a server on the first core, or others, all when None; yields it and its URL once it says so."""
    server = subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, preexec_fn=lambda: cores and os.sched_setaffinity(0, cores)
    )
    try:
        assert server.stderr is not None
        said = []
        for line in server.stderr:
            said.append(line)
            if found := re.search(ready, line):
                break
        else:
            sys.exit("".join(said))
        yield server, found[1]
    finally:
        server.terminate()
        server.wait(20)


def load(server: subprocess.Popen[str], url: str, lines: list[str], connections: int, seconds: float) -> Measured:
    """Return what wrk measured of a server, and its processor time."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write("\n".join(lines))
        file.flush()
        before = _ticks(server.pid)
        done = subprocess.run(
            ["wrk", "-c", str(connections), "-t1", "-d", f"{seconds:.0f}s", "--latency", "-s", str(SCRIPT), url],
            env=os.environ | {"DTOSS_TARGETS": file.name},
            preexec_fn=lambda: os.sched_setaffinity(0, CORES[-1:]),
            capture_output=True,
            text=True,
            check=True,
        )
        spent = (_ticks(server.pid) - before) / _TICK
    text = done.stdout
    number = int(re.search(r"(\d+) requests in", text)[1])  # type: ignore[index]
    wrong = sum(int(n) for n in re.findall(r"Non-2xx or 3xx responses: (\d+)", text))
    wrong += sum(int(n) for n in re.findall(r"(?:connect|read|write|timeout) (\d+)", text))
    latency = re.search(r"Latency\s+\S+\s+\S+\s+(\S+)", text)
    return Measured(
        float(re.search(r"Requests/sec:\s+([\d.]+)", text)[1]),  # type: ignore[index]
        1e6 * spent / number,
        _us(re.search(r"\n\s+50%\s+(\S+)", text)[1]),  # type: ignore[index]
        _us(re.search(r"\n\s+99%\s+(\S+)", text)[1]),  # type: ignore[index]
        _us(latency[1]) if latency else float("nan"),
        wrong,
    )


def _ticks(root: int) -> int:
    found = 0
    for process in family(root):
        fields = (Path("/proc") / str(process) / "stat").read_text().rsplit(")", 1)[1].split()
        found += int(fields[11]) + int(fields[12])
    return found


def _us(text: str) -> float:
    for unit, factor in (("us", 1.0), ("ms", 1e3), ("s", 1e6)):
        if text.endswith(unit):
            return float(text.removesuffix(unit)) * factor
    raise ValueError(text)


def serve_command(store: str, *options: str) -> list[str]:
    """Return the command of a server of a store on a free port, without an access log in the store."""
    program = [sys.executable, "-c", "from pipelines.command.main import main; main()", "serve"]
    accesses = str(Path(tempfile.gettempdir()) / "dtoss-bench-accesses")
    return [*program, "--store", store, "--port", "0", "--access-log", accesses, *options]


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("store")
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--connections", type=int, default=50)
    given = parser.parse_args()
    if shutil.which("wrk") is None:
        sys.exit("wrk is missing: install it (Debian: apt install wrk)")
    targets = targets_of(given.store)
    index = dtoss.open(given.store)
    body = 60 + 8 * (len(b'{"id":,"distance":}') + 7 + 18)
    empty = [sys.executable, "-m", "bench.serve.empty"]
    on = r"on (http://[0-9.:]+)"
    with (
        pinned(serve_command(given.store), on) as short,
        pinned(serve_command(given.store, "--no-hot"), on) as long,
        pinned([*empty, "bare", str(body)], on) as bare,
        pinned([*empty, "framework", str(body)], on) as framework,
    ):
        plan: list[tuple[str, Any, list[str], int]] = [
            ("bare ASGI, empty", bare, targets["knn"], given.connections),
            ("knn, short way", short, targets["knn"], given.connections),
            ("framework, empty", framework, targets["knn"], given.connections),
            ("knn, framework", long, targets["knn"], given.connections),
            ("range, short way", short, targets["range"], given.connections),
            ("object, short way", short, targets["object"], given.connections),
            ("knn with an attribute", short, targets["columns"], given.connections),
            ("knn, short way, 1 connection", short, targets["knn"], 1),
        ]
        runs: dict[str, list[Measured]] = defaultdict(list)
        for _, server, lines, connections in plan:
            load(*server, lines, connections, 1.0)
        for _ in range(given.rounds):
            for name, server, lines, connections in plan:
                runs[name].append(load(*server, lines, connections, given.seconds))
    print(f"{len(index):,} objects, {len(index.parts)} partitions, load {os.getloadavg()[0]:.1f}")
    print(f"{'':30}{'req/s':>9}{'least':>9}{'us':>7}{'p50 us':>9}{'p99 us':>9}{'worst ms':>9}{'wrong':>7}")
    for name, found in runs.items():
        middle = [median(values) for values in zip(*found, strict=True)]
        least = min(one.per_second for one in found)
        worst = max(one.worst_us for one in found) / 1000
        print(
            f"{name:30}{middle[0]:9,.0f}{least:9,.0f}{middle[1]:7.1f}{middle[2]:9.0f}{middle[3]:9.0f}{worst:9.1f}"
            f"{sum(one.wrong for one in found):7d}"
        )

    def ratio(ours: str, empty: str, of: int) -> str:
        pairs = [a[of] / b[of] for a, b in zip(runs[ours], runs[empty], strict=True)]
        return f"{median(pairs):.2f} (worst {min(pairs):.2f})" if of == 0 else f"{median(pairs):.2f}"

    print(f"knn by the short way / empty bare ASGI, requests/s: {ratio('knn, short way', 'bare ASGI, empty', 0)}")
    print(f"knn by the framework / the framework's empty answer: {ratio('knn, framework', 'framework, empty', 0)}")


if __name__ == "__main__":
    main()
