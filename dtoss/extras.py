"""Libraries that are loaded when they are first needed, and what to install where one is missing."""

from __future__ import annotations

from importlib import import_module
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
