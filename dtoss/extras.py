"""Libraries that are loaded when they are first needed, what to install where one is missing, and what stands above."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import PackageNotFoundError, distribution
from types import ModuleType
from typing import Any

from dtoss.errors import InputError


def need(module: str, what: str, extra: str) -> Any:
    """Return a module of an optional library.

    Examples
    --------
    >>> need("json", "a test", "geo").dumps([1])
    '[1]'
    """
    try:
        found: ModuleType = import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or module.partition(".")[0] != error.name.partition(".")[0]:
            raise
        raise InputError(f"{what} needs {error.name}: pip install 'dtoss[{extra}]'") from None
    return found


def load_installed(group: str, name: str) -> Any:
    """Return an entry point of the installed distribution, loaded; an InputError where it is not to be had."""
    try:
        (found,) = distribution("dtoss").entry_points.select(group=group, name=name)
        return found.load()
    except (PackageNotFoundError, ImportError, ValueError) as error:
        why = " ".join(str(error).split())
        raise InputError(f"the commands of dtoss are not installed ({why}): pip install . in a checkout") from None
