"""The files that planning reads: patterns, servers, plans, and what a store says of its partitions."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import ceps
import ceps.model.servers
from ceps import Patterns, Plan, ServerType
from ceps.model.servers import RequestCosts
from dtoss.errors import InputError

WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")


def read_patterns(path: str, weekday: str | None = None) -> Patterns:
    """Return the patterns of a file, of a day by its name, of the "week", or the "mean" of all days.

    The week, each weekday as it was, when None and the file knows weekdays.
    """
    day = None
    if weekday not in (None, "mean", "all", "week"):
        found = [
            number for number, name in enumerate(WEEKDAYS) if str(weekday).lower() in (name, name[:3], str(number))
        ]
        if not found:
            raise InputError(f"weekday {weekday!r} is not known: {', '.join(WEEKDAYS)}, week or all")
        day = found[0]
    try:
        return ceps.read_patterns(
            path, day, week=True if weekday == "week" else False if weekday in ("mean", "all") else None
        )
    except FileNotFoundError:
        raise InputError(f"there are no patterns at {path}: dtoss patterns writes them") from None


def load_servers(path: str) -> tuple[ServerType, ...]:
    """Return the server types of a file or of a catalogue that comes along."""
    try:
        return ceps.load_servers(path)
    except FileNotFoundError as error:
        raise InputError(str(error)) from None
    except IsADirectoryError:
        raise InputError(f"{path or '(nothing)'} is a folder: name a TOML file in it") from None


def load_costs(path: str) -> RequestCosts:
    """Return what requests cost by k and radius, of a file of server types that were calibrated."""
    try:
        return ceps.model.servers.load_costs(path)
    except FileNotFoundError as error:
        raise InputError(str(error)) from None
    except IsADirectoryError:
        raise InputError(f"{path or '(nothing)'} is a folder: name a TOML file in it") from None


def load_plan(path: str) -> Plan:
    """Return the plan of a file."""
    try:
        return ceps.load_plan(path)
    except FileNotFoundError:
        raise InputError(f"there is no plan at {path}: dtoss plan writes one") from None
    except IsADirectoryError:
        raise InputError(f"{path or '(nothing)'} is a folder: name a plan in it") from None


def with_bytes(patterns: Patterns, store: str) -> Patterns:
    """Return patterns with the bytes that partitions have in the current snapshot of a store."""
    manifest = manifest_of(store, patterns.pivots_hash, "patterns")
    sizes = {entry["number"]: float(entry["bytes"]) for entry in manifest["partitions"]}
    return replace(patterns, sizes=np.array([sizes[number] for number in patterns.partitions.tolist()], np.float64))


def manifest_of(store: str, pivots_hash: str, what: str) -> dict[str, Any]:
    """Return the manifest of a store's current snapshot, if it has the pivots of a plan or patterns."""
    from dtoss.snapshots.store import Store

    manifest = Store(store).manifest()
    if manifest["pivots_hash"] != pivots_hash:
        raise InputError(
            f"the {what} are for pivots {pivots_hash or 'unknown'}, snapshot {manifest['snapshot']} of {store} has "
            f"{manifest['pivots_hash']}: partition numbers mean other regions; run dtoss patterns again, or rebuild "
            "with --pivots keep"
        )
    return manifest


def checksum(path: str) -> str:
    """Return the SHA-256 of a file, in hexadecimal."""
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


if __name__ == "__main__":
    from pipelines.command.main import refuse_script

    refuse_script("it reads what plans need; pipelines/plan.py makes one")
