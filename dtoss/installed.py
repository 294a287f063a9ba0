"""What stands above this package and is installed with it: it is found by name, as nothing here imports it."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, distribution
from typing import Any

from dtoss.errors import InputError


def load_installed(group: str, name: str) -> Any:
    """Return an entry point of the installed distribution, loaded; an InputError where it is not to be had."""
    try:
        (found,) = distribution("dtoss").entry_points.select(group=group, name=name)
        return found.load()
    except (PackageNotFoundError, ImportError, ValueError) as error:
        why = " ".join(str(error).split())
        raise InputError(f"the commands of dtoss are not installed ({why}): pip install . in a checkout") from None
