"""What windows of a name are asked for, in a file that is made once: all batches are held to it."""

from __future__ import annotations

import json
from dataclasses import dataclass

from dtoss.commits.chain import canonical, check_format, seal
from dtoss.commits.file_entry import FileEntry
from dtoss.errors import InputError, StoreError
from dtoss.snapshots.store_location import hide_keys
from dtoss.windows.spec import Spec
from dtoss.windows.storage.window_document import SPEC, Home, way_to

SPEC_FORMAT = 1
"""Of the files that this reads."""


@dataclass(frozen=True)
class FixedSpec:
    """What a name stands for."""

    spec: Spec
    keys: FileEntry  # The file of what their keys are made of


def fixed_of(home: Home) -> FixedSpec | None:
    """Return what a name stands for; None where there are no windows of it."""
    data = home.folder.read(SPEC)
    if data is None:
        return None
    path = home.folder.path(SPEC)
    try:
        said = json.loads(data)
        if said["kind"] != "windows":
            raise ValueError(f"it is of kind {said['kind']!r:.60}")
        check_format(path, said["format"], (SPEC_FORMAT,))
        body = {name: said[name] for name in ("kind", "format", "spec", "keys")}
        if data != (seal(body) if "sha256" in said else canonical(body) + b"\n"):  # earlier ones had none
            raise ValueError("it does not have the hash that it says")
        return FixedSpec(Spec.of(said["spec"]), FileEntry.of(said["keys"]))
    except (ValueError, KeyError, TypeError) as error:
        raise StoreError(f"{path} is damaged: {error!s:.200}; restore it from a copy") from None


def read_spec(home: Home) -> FixedSpec:
    """Return what a name stands for."""
    found = fixed_of(home)
    if found is None:
        raise StoreError(f"there are no windows {home.name!r} in {hide_keys(home.store)}{way_to(home)}")
    return found


def fix(home: Home, wanted: FixedSpec) -> None:
    """Let a name stand for a spec from now on, or check that it does."""
    body = {
        "kind": "windows",
        "format": SPEC_FORMAT,
        "spec": wanted.spec.as_json(),
        "keys": wanted.keys.as_json(),
    }
    data = seal(body)
    held = fixed_of(home)
    if held is None:
        home.folder.make()
        if home.folder.create(data, SPEC):
            return
        held = read_spec(home)
    if home.batches.head() is None:  # nothing was made by the one before
        home.folder.replace(data, SPEC)
        return
    check_same(home, held.spec, wanted.spec)


def check_same(home: Home, held: Spec, asked: Spec) -> None:
    """Check that windows are asked for as they were before."""
    if held.by == asked.by == "partition" and held.keys != asked.keys:
        raise InputError(
            f"the pivots of {hide_keys(home.store)} have changed since windows {home.name} began, and its partitions "
            "are other places now: let a new set take over without a gap (--replace), or begin windows of another name "
            "(--name NAME)"
        )
    difference = held.difference(asked)
    if difference:
        raise InputError(
            f"windows {home.name} stand for something else: {difference}; give the same options, let a new set take "
            "over without a gap (--replace), or give another name (--name NAME)"
        )
