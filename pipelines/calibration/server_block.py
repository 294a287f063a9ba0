"""A ``[[server]]`` block of a catalogue: what was measured, and where a price is missing."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from ceps.model.number_text import figure, how_many
from ceps.model.servers import RequestCosts
from pipelines.calibration.over_http import OverHttp

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
