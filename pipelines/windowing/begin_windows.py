"""How windows of a name begin, or go on: as options or a file in TOML say, what keys are made of, who runs them.

What ``--by`` means: partitions of a store, sites of a file, polygons; read once, and kept with the windows.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dtoss.commits.chain import check_name
from dtoss.commits.lease import Writer
from dtoss.errors import DtossError, InputError
from dtoss.frames.geo_columns import check_crs
from dtoss.geometry.polygons import Rings
from dtoss.geometry.space import LONLAT, NO_CRS, Space, same_crs, space_of
from dtoss.names import did_you_mean
from dtoss.snapshots.manifest import regions_of_manifest, space_of_manifest
from dtoss.snapshots.store import Store
from dtoss.windows.durations import duration_of
from dtoss.windows.keys import Keys
from dtoss.windows.migration.begin_set import check_begins
from dtoss.windows.spec import FINEST_RES, KEY_KINDS, Spec, is_resolution, spec_of
from dtoss.windows.storage.keys_file import keys_from, of_h3, of_polygons, of_regions, of_sites, write_keys
from dtoss.windows.storage.sets import coming_of, current_of, sets_of
from dtoss.windows.storage.spec_file import FixedSpec, check_same, fix, fixed_of, read_spec
from dtoss.windows.storage.window_document import WINDOWS, Home
from pipelines.local_joins.file_join import read_places
from pipelines.local_joins.zone_readers import check_zones, read_zones
from pipelines.loop.batch_report import DATA, clock_of
from pipelines.loop.batch_report import take_lease as lease_of
from pipelines.options.said_amounts import share_of
from pipelines.options.streaming import WindowSpec


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


@dataclass(frozen=True)
class Which:
    """Which windows are meant, and what they are to be."""

    home: Home
    wanted: Mapping[str, Any] | None  # None where the windows are there and stay as they are
    space: Space | None  # Of the positions; None takes the store's, or degrees
    replacing: bool = False  # Whether others take over without a gap; else they are an error


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


_CALLED = ("name", "id")
"""Properties of polygons that say what they are called."""


@dataclass(frozen=True)
class Material:
    """What keys are made of."""

    space: Space
    tables: dict[str, pa.Table]  # As :mod:`dtoss.windows.storage.keys_file` has them
    keys: Keys

    @property
    def digest(self) -> str:
        """Of the keys."""
        return self.keys.digest

    def as_begun(self, digest: str) -> Material:
        """Return this, or the same polygons with the edges of before edges could be said, if those have the digest."""
        if digest == self.digest or "edges" not in self.tables:
            return self
        tables = {name: table for name, table in self.tables.items() if name != "edges"}
        before = Material(self.space, tables, keys_from(self.space, tables))
        return before if before.digest == digest else self


def material_of(store: str, by: str, space: Space | None) -> Material:
    """Return what keys are made of.

    ``by``: "partition", "sites:FILE", "polygons:FILE.geojson" or "h3:RES"; ``space``: that the user named; None takes
    the store's, or degrees where it has no snapshot.
    """
    kind, _, rest = by.partition(":")
    if kind == "partition":
        manifest = Store(store).manifest()
        held = space_of_manifest(manifest)
        if space is not None and not _same(space, held):
            raise InputError(
                f"--crs is {space.crs} ({space.metric}), the store's partitions are in {held.crs} ({held.metric}): "
                "leave it out"
            )
        tables, wanted = of_regions(regions_of_manifest(manifest)), held
    elif kind == "sites" and rest:
        wanted = space or _space_of(store) or space_of(LONLAT)
        tables = of_sites(*_sites(rest, wanted))
    elif kind == "polygons" and rest:
        wanted = space or _space_of(store) or space_of(LONLAT)
        tables = of_polygons(*_polygons(rest, wanted))
    elif kind == "h3" and is_resolution(rest):
        wanted = space or _space_of(store) or space_of(LONLAT)
        tables = of_h3(int(rest))
    else:
        raise InputError(f"--by {by}: there are {', '.join(KEY_KINDS)}; RES is a whole number from 0 to {FINEST_RES}")
    return Material(wanted, tables, keys_from(wanted, tables))


def _space_of(store: str) -> Space | None:
    try:
        return space_of_manifest(Store(store).manifest())
    except (DtossError, OSError):
        return None


def _same(one: Space, other: Space) -> bool:
    return one.metric == other.metric and same_crs(one.crs, other.crs)


def _sites(path: str, space: Space) -> tuple[NDArray[np.float64], pa.Array]:
    """Return the positions of sites in the order of their file, and their ids."""
    places = read_places(path, crs=NO_CRS if space.crs == NO_CRS else None)
    try:
        check_crs(places.crs, space, f"the sites of {path}", "the windows")
    except ValueError as error:
        raise InputError(str(error)) from None
    batches = list(places.batches())
    x, y = (
        np.concatenate([np.zeros(0), *(np.asarray(batch[name].to_numpy(zero_copy_only=False)) for batch in batches)])
        for name in ("x", "y")
    )
    positions = np.stack([x, y], axis=1).astype(np.float64)
    wrong = np.flatnonzero(~space.legal(positions))
    if len(wrong):
        lon, lat = positions[wrong[0]].tolist()
        raise InputError(f"{path}: site {wrong[0]} is at {lon:g}, {lat:g}: that is no legal position")
    return positions, pa.array([str(name) for batch in batches for name in batch["query_id"].to_pylist()], pa.string())


def _polygons(path: str, space: Space) -> tuple[Rings, pa.Array | None]:
    """Return the shapes of a file, in its order, and what they are called: by the first of some properties it has."""
    found = None
    for by in _CALLED:
        try:
            found = read_zones(path, by)
            break
        except InputError:
            continue  # it has no such property, or there is more to say of it
    named = None if found is None else pa.array([None if one is None else str(one) for one in found.names], pa.string())
    found = found or read_zones(path)
    try:
        check_zones(found, space, path)
    except ValueError as error:
        raise InputError(str(error)) from None
    return found.zones.rings, named


OF_SPEC = tuple(field.name.replace("_", "-") for field in fields(WindowSpec))
"""Options that windows of a name are held to once they have begun, in the order of the command's help."""
_LISTS = ("lengths", "measures")
_KNOWN = ("name", *OF_SPEC, "max-bad", "retain", "clock", "replace")


@dataclass(frozen=True)
class WindowOptions:
    """Windows that one file asks for."""

    file: str
    name: str  # Of the windows in the store
    # Arguments of :func:`dtoss.windows.spec.spec_of` but the space and the keys; None where the windows are there and
    # stay as they are
    wanted: Mapping[str, Any] | None
    max_bad: float | None = None  # Share of bad rows above which a batch fails; None takes that of the run
    retain: str | None = None  # For how long results are kept; None keeps all
    # "wall" where the watermark follows the clock of this machine without rows, "data" where it stands
    clock: str = DATA
    replacing: bool = False  # Whether others take over without a gap where the windows of the name are others


def wanted_of(given: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return what windows are asked for; None where nothing is said of it.

    ``given``: options by their names, such as ``max-gap``, without those that were not given.
    """
    if not given:
        return None
    if "lengths" not in given:
        raise InputError(
            f"--{next(iter(given))} is given without --lengths: say which windows are wanted (--lengths 5min,1h), or "
            "nothing, and those of before go on"
        )
    said = {name.replace("-", "_"): value for name, value in given.items()}
    return {"slide": "1min", "by": "partition", "measures": "rows,objects"} | said


def read_asked(file: str) -> WindowOptions:
    """Return what a file in TOML asks for.

    ``file``: its path. Keys are ``name`` and the options of ``dtoss windows run`` without their dashes: those of
    :data:`OF_SPEC`, which may all be missing where the windows are there, ``max-bad``, ``retain``, ``clock`` and
    ``replace``. A list stands for texts with commas between.
    """
    try:
        told = tomllib.loads(Path(file).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        what = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise InputError(f"{file} cannot be read as TOML: {what}") from None
    for key in told:
        if key not in _KNOWN:
            meant = did_you_mean(key, _KNOWN)
            raise InputError(f"{file}: there is no key {key!r}; the keys are {', '.join(_KNOWN)}{meant}")
    name = told.pop("name", None)
    if not isinstance(name, str):
        raise InputError(f'{file} does not name its windows: name = "fleet", in quotes, is wanted')
    try:
        check_name(WINDOWS, name)
        bad = told.pop("max-bad", None)
        retain = told.pop("retain", None)
        max_bad = None if bad is None else share_of(bad, "max-bad")
        kept = None if retain is None else str(_value("retain", retain))
        if kept is not None:
            duration_of(kept, "retain")
        clock = _value("clock", told.pop("clock", DATA))
        clock_of(clock)
        replacing = told.pop("replace", False)
        if not isinstance(replacing, bool):
            raise InputError(f"replace is {replacing!r}: true or false, without quotes, is wanted")
        wanted = wanted_of({key: _value(key, value) for key, value in told.items()})
        if wanted is not None:
            checked(wanted, space_of(LONLAT), "")
    except (InputError, ValueError) as error:
        raise InputError(f"{file}: {error}") from None
    return WindowOptions(file, name, wanted, max_bad, kept, clock, replacing)


def _value(key: str, value: Any) -> Any:
    """Return a value as the option takes it."""
    if key == "max-speed":
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise InputError(f"{key} is {value!r}: a number of metres a second is wanted")
        return float(value)
    if key in _LISTS and isinstance(value, list) and value and all(isinstance(one, str) for one in value):
        return ",".join(value)
    if key == "witnesses" and isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str):
        texts = ", or a list of such" if key in _LISTS else ""
        raise InputError(f"{key} is {value!r}: a text in quotes is wanted, as --{key} takes it{texts}")
    return value
