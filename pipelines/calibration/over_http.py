"""How many requests a second a server answers over HTTP, what others cost there, and the ``[[server]]`` block of it.

What questions cost by how much they ask for: as curves that never fall.

The highest rate that keeps a limit: by doubling and halving in short windows, then held.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from ipaddress import ip_address
from math import floor, log10
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
from numpy.typing import NDArray

import dtoss
from ceps.model.number_text import figure, how_many
from ceps.model.servers import Curve, RequestCosts
from dtoss.client.endpoint import address_of
from dtoss.client.url_and_hits import target
from dtoss.errors import InputError
from pipelines.calibration.sender import Senders, Where, Window
from pipelines.rows.list_files import listing

PLACES = 16_384
"""Places that requests come from, in turn."""
FEW = 64
"""Of them, those from which radii are chosen."""
MOST_HITS = 5_000.0
"""Hits of a question, in the mean, up to which radii are measured."""
SPANS = (0.1, 0.6)
"""Seconds that a question is asked for, where its cost is measured: the least and the most."""
TURNS = 2
"""Turns in which a question and the base question are measured, the best of each counts."""
QUICK = 2.0
"""Seconds of the windows by which the rate is looked for, at the most."""


@dataclass(frozen=True)
class OverHttp:
    """What was measured of a server."""

    held: Held  # The highest rate, and what was tried
    costs: RequestCosts  # What questions for other k and radii cost, in the base question
    k: int  # k, limit: what was asked for, and the seconds that 99 % had
    limit: float
    objects: int  # What the server says of itself at the end
    snapshot: str  # What the server says of itself at the end
    version: str  # What the server says of itself at the end
    url: str
    connections: int  # connections, processes: over which, and from which, requests were sent
    processes: int
    here: bool  # Whether the server is on this machine
    source: str  # Where requests come from


def measure_server(
    url: str,
    places: NDArray[np.float64],
    *,
    source: str,
    k: int = 8,
    limit: float = 0.050,
    seconds: float = 60.0,
    connections: int = 64,
    processes: int | None = None,
    token: str | None = None,
    say: Callable[[str], None] = lambda line: None,
) -> OverHttp:
    """Return the highest rate at which a server answers 99 % within a limit, and what other questions cost there.

    Single requests (``GET /knn``) come at random times that do not depend on one another nor on the answers before. A
    request's latency counts from when it was due. The rate is looked for in short windows, by doubling and halving,
    and then held for the whole time, or the next lower one that can be. What other questions cost is measured with as
    many requests at a time as there are connections, in turns with the base question.

    ``places``: float64 (n, 2). Where requests come from; ``limit``: seconds that 99 % of requests may take;
    ``seconds``: for how long the rate has to be held; ``processes``: that send them; half of the cores when None. Each
    is busy for as long as it measures.
    """
    for name, value in (("k", k), ("limit", limit), ("seconds", seconds), ("connections", connections)):
        if not value > 0:
            raise ValueError(f"{name} is {value}: a number above 0 is wanted")
    processes = max((os.cpu_count() or 1) // 2, 1) if processes is None else processes
    if not 1 <= processes <= connections:
        raise ValueError(f"processes is {processes}: 1 to {connections}, the number of connections, is wanted")
    server = dtoss.connect(url, token=token)
    if not len(server):
        raise InputError(f"{url} serves no objects: rebuild its store from some first")
    rng = np.random.default_rng(0)
    drawn = places[rng.integers(0, len(places), min(PLACES, 4 * len(places)))]
    server.knn(drawn[0], k)  # what is wrong with the question says so
    address = address_of(url)

    names = ("lon", "lat") if server.space.geographic else ("x", "y")
    asked = [target("", dict(zip(names, place, strict=True))).removeprefix("?") for place in drawn.tolist()]
    who = f"Authorization: Bearer {token}\r\n" if token else ""

    def requests(route: str, **more: Any) -> list[bytes]:
        begin, _, end = target(address.prefix + route, {"place": "", **more}).partition("place=")
        head = f"{end} HTTP/1.1\r\nHost: {address.authority}\r\n{who}\r\n"
        return [f"GET {begin}{place}{head}".encode() for place in asked]

    where = Where(address.host, address.port, address.scheme == "https", connections)
    with Senders(where, processes) as senders:
        senders.load(requests("/knn", k=k))
        quick = min(QUICK, seconds)
        held = highest(
            lambda rate, span: senders.at_rate(rate, span, 2 * limit + 0.1, rng),
            limit, seconds, quick, lambda window: say(said(window)),
        )  # fmt: skip
        costs = _costs(server, senders, requests, drawn[:FEW], k, float(np.clip(seconds / 100, *SPANS)))
    return OverHttp(
        held, costs, k, limit, len(server), server.snapshot, server.version, server.url, connections, processes,
        is_here(address.host), source,
    )  # fmt: skip


def places_of_log(path: str, names: tuple[str, str], seed: int = 0, count: int = PLACES) -> NDArray[np.float64]:
    """Return places of requests in an access log, drawn by their weights, float64 (count, 2)."""
    try:
        found = listing(path)
        if found is None or not found.files:
            raise InputError(f"--accesses {path} cannot be read as Parquet: no file is there")
        read = ds.dataset(list(found.files), filesystem=found.filesystem, format="parquet")
        kept = [name for name in (*names, "weight") if name in read.schema.names]
        table = read.to_table(columns=kept)
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"--accesses {path} cannot be read as Parquet: {' '.join(str(error).split())}") from None
    if not set(names) <= set(kept) or not len(table):
        raise InputError(f"--accesses {path} holds no places: columns {' and '.join(names)} with rows are wanted")
    places = np.stack([table[name].cast(pa.float64()).to_numpy() for name in names], axis=1)
    weight = table["weight"].cast(pa.float64()).to_numpy() if "weight" in kept else np.ones(len(places))
    usable = np.isfinite(places).all(axis=1) & (weight > 0)
    if not usable.any():
        raise InputError(f"--accesses {path} holds no places: all of its {len(places):,} rows lack one, or a weight")
    rng = np.random.default_rng(0)
    return places[usable][rng.choice(int(usable.sum()), count, p=weight[usable] / weight[usable].sum())]


def said(window: Window) -> str:
    """Return a window as a line."""
    failed = window.statuses.total() - window.statuses[200]
    line = (
        f"{window.rate:,.0f} requests/s for {window.seconds:g} s: p50 {figure(1000 * window.p50, 3)} ms, p99 "
        f"{figure(1000 * window.p99, 3)} ms, sent late by {figure(1000 * window.lag, 2)} ms, "
        f"{window.spare:.0%} to spare"
    )
    return f"{line}, {failed:,} failed" if failed else line


def _costs(
    server: dtoss.RemoteIndex,
    senders: Senders,
    requests: Callable[..., list[bytes]],
    few: NDArray[np.float64],
    k: int,
    seconds: float,
) -> RequestCosts:
    """Return what questions cost in the base question, measured in turns with it."""
    ks = [one for one in sorted({one for one in KS if one <= len(server)} | {k}) if _answers(server, few[0], one)]
    radii = _radii(server, few)
    base = requests("/knn", k=k)
    weights = []
    for asked in [requests("/knn", k=one) for one in ks] + [requests("/range", radius=radius) for radius in radii]:
        plain = slower = 0.0
        for _ in range(TURNS):
            for which, own in ((base, False), (asked, True)):
                senders.load(which)
                rate, statuses = senders.at_most(seconds)
                wrong = statuses.total() - statuses[200]
                if wrong:
                    raise InputError(f"the server answers {wrong:,} requests with {statuses}, not with 200")
                slower, plain = (max(slower, rate), plain) if own else (slower, max(plain, rate))
        weights.append(plain / max(slower, 1 / seconds))
    return RequestCosts(curve(ks, weights_by_k(ks, weights, k)), curve(radii, weights[len(ks) :]))


def _answers(server: dtoss.RemoteIndex, place: NDArray[np.float64], k: int) -> bool:
    """Return whether a server answers so large a k."""
    try:
        server.knn(place, k)
    except ValueError:
        return False
    return True


def _radii(server: dtoss.RemoteIndex, few: NDArray[np.float64]) -> list[float]:
    """Return radii from where the nearest other place is to where thousands are, each as many times the last.

    Where many objects share a place, the nearest other one is looked for among a hundred of them.
    """
    gaps = server.knn(few, min(100, len(server))).distance.reshape(len(few), -1)
    nearest = np.where(gaps > 0, gaps, np.inf).min(axis=1)
    if not np.isfinite(nearest).any():
        return []
    first = last = float(np.median(nearest[np.isfinite(nearest)]))
    most = min(MOST_HITS, len(server) / 2)
    while server.count(few, 2 * last).mean() <= most:
        last *= 2
    return sorted({float(f"{radius:.3g}") for radius in np.geomspace(first, max(last, 2 * first), RADII)})


def is_here(host: str) -> bool:
    """Return whether a host is this machine."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


KS = (1, 8, 64, 512, 4096)
"""The k of which the cost of a question is measured, as far as there are so many objects."""
RADII = 8
"""Radii of which it is measured: from the nearest object to all of them, each so many times the one before."""


def weights_by_k(ks: Sequence[int], weights: Sequence[float], base: int) -> list[float]:
    """Return the weights of the first questions: the base counts as 1, a smaller k as no more, a larger as no less."""
    at = ks.index(base)
    smaller: NDArray[np.float64] = np.minimum(weights[:at], 1.0)
    larger: NDArray[np.float64] = np.maximum(weights[at + 1 : len(ks)], 1.0)
    return [*smaller.tolist(), 1.0, *larger.tolist()]


def curve(asked: Sequence[float], weights: Sequence[float]) -> Curve:
    """Return pairs that never fall: what asks for more does not cost less, whatever was measured."""
    rising = np.maximum.accumulate(np.array(weights, np.float64))
    pairs = [(float(at), float(f"{weight:.3g}")) for at, weight in zip(asked, rising, strict=True)]
    return tuple(pair for before, pair in zip([(0.0, 0.0), *pairs], pairs, strict=False) if pair[0] > before[0])


FIRST = 250.0
"""Requests/s that are tried first."""
LEAST = 0.5
"""Requests/s below which nothing is tried."""
NEAR = 1.04
"""The search ends where what is held and what is not are so near."""
HOLDS = 6
"""Rates that are tried for the whole time, each a little lower than the last."""
STEP = 0.95
"""By how much, at first; each step is as much longer."""
LATE = 0.1
"""Share of the limit by which senders may come late to 1 % of the requests."""
AGAIN = 3
"""How often a window is measured that was missed because the senders were late."""
ON_TIME = 0.001
"""Seconds that are never late: a system wakes nobody more exactly when others are busy."""
SPARE = 0.1
"""Share of the time in which a sender has nothing to do, at the least: else the server waits for it."""
REFUSED = (400, 401, 403, 404, 405, 413, 414, 429, 431)
"""Statuses that say that such requests are not answered, however few there are."""
Measure = Callable[[float, float], Window]
"""Measures at a rate for so many seconds."""


@dataclass(frozen=True)
class Held:
    """The highest rate that was held."""

    window: Window  # What was seen, for the whole time
    tried: tuple[Window, ...]  # All that was measured, in turn


def highest(
    measure: Measure, limit: float, seconds: float, quick: float, say: Callable[[Window], None] = lambda window: None
) -> Held:
    """Return the highest rate at which 99 % of the requests are answered within a limit.

    ``limit``: seconds that 99 % of requests may take; ``seconds``: for how long the rate has to be held; ``quick``:
    seconds of the windows by which it is looked for.
    """
    tried: list[Window] = []

    def kept(rate: float, span: float) -> bool:
        for _ in range(AGAIN):
            window = measure(rate, span)
            tried.append(window)
            say(window)
            _check(window)
            if window.p99 <= limit or not late(window, limit):
                break
        return window.p99 <= limit

    low, high = 0.0, FIRST
    while kept(high, quick):
        low, high = high, 2 * high
    while low == 0.0:
        if high / 2 < LEAST:
            least = min(window.p99 for window in tried)
            _refuse(tried, limit)
            raise InputError(
                f"p99 was {figure(1000 * least, 3)} ms at best, the limit is {figure(1000 * limit)} ms: "
                "raise it (--p99)"
            )
        if kept(high / 2, quick):
            low = high / 2
        else:
            high /= 2
    while high / low > NEAR:
        middle = (low * high) ** 0.5
        low, high = (middle, high) if kept(middle, quick) else (low, middle)
    for attempt in range(HOLDS):
        rate = rounded_down(low * STEP ** (attempt * (attempt + 1) / 2))
        if kept(rate, seconds):
            _refuse(tried, limit)
            return Held(tried[-1], tuple(tried))
    _refuse(tried, limit)
    raise InputError(
        f"{figure(rate)} requests/s were not kept for {seconds:g} s, though more were for {quick:g} s: is something "
        "else busy on these machines?"
    )


def late(window: Window, limit: float) -> bool:
    """Return whether the senders came so late, or had so much to do, that what was measured is their slowness."""
    return window.lag > max(LATE * limit, ON_TIME) or window.spare < SPARE


def rounded_down(rate: float) -> float:
    """Return a rate with three digits, not above it.

    Examples
    --------
    >>> rounded_down(12_399.0), rounded_down(0.98765), rounded_down(250.0)
    (12300.0, 0.987, 250.0)
    """
    unit = 10.0 ** (floor(log10(rate)) - 2)
    return round(floor(rate / unit * (1 + 1e-12)) * unit, 12)


def _check(window: Window) -> None:
    for status in REFUSED:
        if window.statuses[status] > 0.01 * window.statuses.total():
            why = "; without a rate limit (--rate) it may answer more" if status == 429 else ""
            raise InputError(
                f"the server answers {window.statuses[status]:,} requests with {status}, not with 200{why}"
            )


def _refuse(tried: Sequence[Window], limit: float) -> None:
    """Refuse a figure whose bound is that the senders were late, and not that the server was slow."""
    last = {window.rate: window for window in tried}
    missed = [window for window in last.values() if window.p99 > limit]
    lowest = min(missed, key=lambda window: window.rate, default=None)
    if lowest is not None and late(lowest, limit):
        raise InputError(
            f"the senders were the slow ones: at {lowest.rate:,.0f} requests/s the busiest had "
            f"{lowest.spare:.0%} of its time to spare, and requests were sent up to "
            f"{figure(1000 * lowest.lag, 3)} ms late (p99); the server may answer more: ask from "
            "another machine, or by more --processes"
        )


MEMORY_SHARE = 0.8
"""Of the machine's memory, what partitions may fill."""


def memory_of_partitions() -> int:
    """Return the bytes of this machine's memory that partitions may fill."""
    return int(MEMORY_SHARE * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))


def block(
    name: str,
    per_second: str,
    remarks: Sequence[str],
    bytes_: int | None,
    dollars_per_hour: float | None,
    costs: RequestCosts,
    k: int,
    source: str,
) -> str:
    """Return TOML text of a server type.

    ``bytes_``: that partitions may fill; None leaves a comment where they are missing; ``dollars_per_hour``: its price;
    None leaves a comment where it is missing.
    """
    price = "# dollars_per_hour is missing: write dollars_per_hour = its price here, 0 for a machine of your own"
    if dollars_per_hour is not None:
        price = f"dollars_per_hour = {dollars_per_hour:g}"
    memory = f"# bytes is missing: write bytes = {MEMORY_SHARE:.0%} of the memory of the server's machine here"
    if bytes_ is not None:
        memory = f"bytes = {bytes_} # {MEMORY_SHARE:.0%} of this machine's memory"
    lines = ["[[server]]", f"name = {_quoted(name)}", f"requests_per_second = {per_second}"]
    lines += [f"# {remark}" for remark in remarks]
    lines += [memory, price]
    for key, asked, curve in (("cost_by_k", "k", costs.by_k), ("cost_by_radius", "radius", costs.by_radius)):
        if curve:
            pairs = ", ".join(f"[{at:g}, {weight:g}]" for at, weight in curve)
            lines.append(f"{key} = [{pairs}] # {asked}, and how many questions for k = {k} cost as much")
    stated = ["requests_per_second", *(["bytes"] if bytes_ is not None else [])]
    stated += [key for key, curve in (("cost_by_k", costs.by_k), ("cost_by_radius", costs.by_radius)) if curve]
    lines += [f'origins.{key} = "measured"' for key in stated]
    lines += [f"source = {_quoted(source)}", f'date = "{datetime.now(UTC).date().isoformat()}"']
    return "\n".join(lines) + "\n"


def block_over_http(measured: OverHttp, name: str, dollars_per_hour: float | None) -> str:
    """Return TOML text of a server type whose rate was measured over HTTP."""
    window = measured.held.window
    source = (
        f"dtoss calibrate: k = {measured.k} nearest of {how_many(measured.objects, 'object')}, over HTTP, "
        f"{how_many(measured.connections, 'connection')}, {measured.source}, dtoss {measured.version}, snapshot "
        f"{measured.snapshot}, held for {window.seconds:g} s, p99 {figure(1000 * window.p99, 3)} ms"
    )
    remarks = [
        f"p50 {figure(1000 * window.p50, 3)} ms, p99 {figure(1000 * window.p99, 3)} ms of {1000 * measured.limit:g}; "
        f"sent late by {figure(1000 * window.lag, 2)} ms (p99) by {how_many(measured.processes, 'process')}"
    ]
    rate = f"{window.rate:.10g} # over HTTP"
    memory = memory_of_partitions() if measured.here else None
    return block(name, rate, remarks, memory, dollars_per_hour, measured.costs, measured.k, source)


def facts_over_http(measured: OverHttp) -> dict[str, Any]:
    """Return all that was measured over HTTP, for programs; the rate of the block stands at the top."""
    window = measured.held.window
    return {
        "requests_per_second": window.rate, "p50_seconds": window.p50, "p99_seconds": window.p99, "rate": "over HTTP",
        "seconds": window.seconds, "sent_late_p99_seconds": window.lag, "spare": window.spare,
        "failed": window.statuses.total() - window.statuses[200], "k": measured.k, "objects": measured.objects,
        "snapshot": measured.snapshot, "version": measured.version, "url": measured.url,
        "connections": measured.connections, "processes": measured.processes, "places": measured.source,
        "tried": [
            {"requests_per_second": one.rate, "seconds": one.seconds, "p99_seconds": one.p99}
            for one in measured.held.tried
        ],
        "cost_by_k": [list(pair) for pair in measured.costs.by_k],
        "cost_by_radius": [list(pair) for pair in measured.costs.by_radius],
    }  # fmt: skip


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
