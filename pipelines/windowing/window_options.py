"""What windows a user asks for: options of a command, or a file in TOML whose keys are the names of the options."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from dtoss.commits.chain import check_name
from dtoss.errors import InputError
from dtoss.geometry.space import LONLAT, space_of
from dtoss.names import did_you_mean
from dtoss.windows.durations import duration_of
from dtoss.windows.storage.window_document import WINDOWS
from pipelines.loop.tick_clock import DATA, clock_of
from pipelines.options.streaming import WindowSpec
from pipelines.rows.durations_and_shares import share_of
from pipelines.windowing.begin_windows import checked

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
