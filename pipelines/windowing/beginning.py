"""How windows of a name begin, or go on: the spec that they are held to, what their keys are made of, who runs them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from dtoss.commits.lease import Writer
from dtoss.errors import InputError
from dtoss.geometry.space import Space
from dtoss.windows.spec import Spec, spec_of
from dtoss.windows.stored.home import Home
from dtoss.windows.stored.keys_file import write_keys
from dtoss.windows.stored.spec_file import Fixed, check_same, fix, fixed_of
from pipelines.loop.ran import leased as lease_of
from pipelines.windowing.keys_of import material_of


def spec_wanted(
    home: Home, wanted: Mapping[str, Any] | None, space: Space | None
) -> tuple[Spec, Mapping[str, Any] | None]:
    """Return the spec of windows, and the tables of which their keys are made; None where these are there.

    Parameters
    ----------
    home
        Of the windows.
    wanted
        Arguments of :func:`dtoss.windows.spec.spec_of` but the space and the keys; None where the windows are there and
        stay as they are.
    space
        Of the positions; None takes the store's, or degrees.

    Raises
    ------
    InputError
        If there are none yet and none are asked for, options are not legal, keys cannot be made, or the windows stand
        for another spec.
    StoreError
        If a file is damaged.
    """
    held = fixed_of(home)
    if wanted is None and held is None:
        raise InputError(f"there are no windows {home.name!r} yet: say which are wanted (--lengths 5min,1h)")
    by = held.spec.by if wanted is None and held is not None else dict(wanted or {}).get("by", "partition")
    material = material_of(home.store, by, space if held is None else space or held.spec.space)
    if wanted is None:
        assert held is not None
        spec = replace(held.spec, keys=material.digest)
    else:
        spec = checked(wanted, material.space, material.digest)
        try:
            material.keys.check(spec.measures)
        except ValueError as error:
            raise InputError(str(error)) from None
    if held is not None and home.batches.head() is not None:
        check_same(home, held.spec, spec)
        return held.spec, None
    return spec, material.tables


def checked(wanted: Mapping[str, Any], space: Space, keys: str) -> Spec:
    """Return the spec that is wanted, with the digest of its keys.

    Raises
    ------
    InputError
        If options are not legal.
    """
    try:
        return spec_of(**{**wanted, "space": space, "keys": keys})
    except ValueError as error:
        raise InputError(str(error)) from None


def fixed_for(home: Home, spec: Spec, tables: Mapping[str, Any] | None) -> Fixed:
    """Return what a name stands for from now on; ``tables`` of :func:`spec_wanted`."""
    if tables is not None:
        fix(home, Fixed(spec, write_keys(home, dict(tables))))
    held = fixed_of(home)
    assert held is not None
    return held


def leased(home: Home, warn: Callable[[str], None], lease: bool = True) -> Writer:
    """Return the right to commit to windows; without ``lease`` nobody is kept out.

    Raises
    ------
    StoreError
        If another process has it; the message names it.
    """
    return lease_of(home.folder, f"windows {home.name} of {home.store}", warn, lease)
