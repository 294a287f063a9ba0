"""What a process and all that it started have used: processor time and memory, read from /proc."""

from __future__ import annotations

import os
from collections import defaultdict
from pathlib import Path

_PROC = Path("/proc")
_TICK = os.sysconf("SC_CLK_TCK")


def family(root: int) -> list[int]:
    """Return a process and its descendants."""
    children: dict[int, list[int]] = defaultdict(list)
    for entry in _PROC.iterdir():
        if entry.name.isdigit() and (fields := _stat(int(entry.name))):
            children[int(fields[1])].append(int(entry.name))
    found = [root]
    for process in found:
        found += children[process]
    return found


def _stat(process: int) -> list[str]:
    """Return the fields after the name, state first; none if the process has ended."""
    try:
        return (_PROC / str(process) / "stat").read_text().rsplit(")", 1)[1].split()
    except (OSError, IndexError):
        return []


def processor_seconds(root: int | None = None) -> float:
    """Return the processor time of a process, this one when None, and all that it started, ended ones included."""
    ticks = sum(int(value) for process in family(root or os.getpid()) for value in _stat(process)[11:15])
    return ticks / _TICK


def seconds_by_process(root: int) -> dict[int, float]:
    """Return the processor time of a process and of each of its descendants that runs, without ended children."""
    found = {process: _stat(process)[11:13] for process in family(root)}
    return {process: sum(map(int, ticks)) / _TICK for process, ticks in found.items() if ticks}


def resident(root: int) -> tuple[int, int]:
    """Return bytes of a process and its descendants: their own, and mapped from files; what they share counts once."""
    own = mapped = 0
    for process in family(root):
        try:
            lines = (_PROC / str(process) / "smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        kilobytes = {line.split()[0]: int(line.split()[1]) for line in lines if line.startswith("Pss")}
        own += kilobytes.get("Pss_Anon:", 0) * 1024
        mapped += (kilobytes.get("Pss_File:", 0) + kilobytes.get("Pss_Shmem:", 0)) * 1024
    return own, mapped


def describe_machine() -> str:
    """Return its cores, their model and its memory, as results name them."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((line.split(": ")[1] for line in lines if line.startswith("model name")), "no known model")
    gigabytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{os.cpu_count()} virtual cores of an {model}, {gigabytes:.0f} GB"
