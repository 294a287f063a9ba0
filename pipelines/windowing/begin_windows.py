"""How windows of a name begin, or go on: the spec that they are held to, what their keys are made of, who runs them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from dtoss.commits.lease import Writer
from dtoss.errors import InputError
from dtoss.geometry.space import Space
from dtoss.windows.migration.completeness import check_begins
from dtoss.windows.spec import Spec, spec_of
from dtoss.windows.storage.keys_file import write_keys
from dtoss.windows.storage.sets import coming_of, current_of, sets_of
from dtoss.windows.storage.spec_file import FixedSpec, check_same, fix, fixed_of, read_spec
from dtoss.windows.storage.window_folder import Home
from pipelines.loop.batch_report import take_lease as lease_of
from pipelines.windowing.keys_of import material_of


@dataclass(frozen=True)
class Stands:
    """What a run of windows is held to."""

    spec: Spec  # Of the set that runs
    tables: Mapping[str, Any] | None = None  # Of which its keys are made; None where they are there
    # The spec of a set that is to begin beside it, and the tables of its keys; None for none
    coming: tuple[Spec, Mapping[str, Any]] | None = None
    given_up: bool = False  # Whether the one that is to come is to come no more

    @property
    def asked(self) -> Spec:
        """The spec that a user asks for: of the set that is to begin, or of the one that runs."""
        return self.spec if self.coming is None else self.coming[0]


def stands_for(home: Home, wanted: Mapping[str, Any] | None, space: Space | None, replacing: bool = False) -> Stands:
    """Return what windows are held to.

    ``wanted``: arguments of :func:`dtoss.windows.spec.spec_of` but the space and the keys; None where the windows are
    there and stay as they are; ``space``: of the positions; None takes the store's, or degrees.
    """
    sets = sets_of(home)
    now = current_of(home, sets)
    held = fixed_of(now)
    if held is None or now.batches.head() is None:
        return Stands(*_asked(home, None if held is None else held.spec, wanted, space))
    coming = None if sets.coming is None else read_spec(coming_of(home, sets)).spec
    spec, tables = _asked(home, held.spec if coming is None else coming, wanted, space, replacing)
    if coming is not None and not coming.difference(spec):
        return Stands(held.spec)
    if not held.spec.difference(spec):
        return Stands(held.spec, given_up=replacing and coming is not None)
    if not replacing:
        check_same(home, held.spec, spec)
    check_begins(home.name, held.spec, spec)
    return Stands(held.spec, coming=(spec, tables))


def spec_wanted(home: Home, wanted: Mapping[str, Any] | None, space: Space | None) -> Spec:
    """Return the spec of windows, as :func:`stands_for` has it."""
    return stands_for(home, wanted, space).spec


def _asked(
    home: Home, held: Spec | None, wanted: Mapping[str, Any] | None, space: Space | None, replacing: bool = False
) -> tuple[Spec, Mapping[str, Any]]:
    """Return the spec that a user means, and the tables of which its keys are made now."""
    if wanted is None and held is None:
        raise InputError(f"there are no windows {home.name!r} yet: say which are wanted (--lengths 5min,1h)")
    by = held.by if wanted is None and held is not None else dict(wanted or {}).get("by", "partition")
    material = material_of(home.store, by, space if held is None else space or held.space)
    if held is not None and not replacing:
        material = material.as_begun(held.keys)
    if wanted is None:
        assert held is not None
        return replace(held, keys=material.digest), material.tables
    spec = checked(wanted, material.space, material.digest)
    try:
        material.keys.check(spec.measures)
    except ValueError as error:
        raise InputError(str(error)) from None
    return spec, material.tables


def checked(wanted: Mapping[str, Any], space: Space, keys: str) -> Spec:
    """Return the spec that is wanted, with the digest of its keys."""
    try:
        return spec_of(**{**wanted, "space": space, "keys": keys})
    except ValueError as error:
        raise InputError(str(error)) from None


def fixed_for(home: Home, spec: Spec, tables: Mapping[str, Any] | None) -> FixedSpec:
    """Return what a set stands for from now on; ``tables`` of :func:`stands_for`."""
    if tables is not None:
        fix(home, FixedSpec(spec, write_keys(home, dict(tables))))
    held = fixed_of(home)
    assert held is not None
    return held


def lease_windows(home: Home, warn: Callable[[str], None], lease: bool = True) -> Writer:
    """Return the right to commit to all sets of windows of a name; without ``lease`` nobody is kept out."""
    return lease_of(home.first.folder, f"windows {home.name} of {home.store}", warn, lease)
