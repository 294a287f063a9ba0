"""The reference of all modules as pages of HTML: `python docs/reference.py build/docs`. A warning is an error."""

from __future__ import annotations

import gc
import os
import pkgutil
import sys
import warnings
from importlib import import_module
from pathlib import Path
from typing import get_type_hints

import pdoc

PACKAGES = ("dtoss", "ceps", "pipelines", "datasets")


def modules() -> list[str]:
    """Return names from which all modules are reached, those too that a package does not list in ``__all__``."""
    names, reached = [], set[str]()
    for package in PACKAGES:
        below = pkgutil.walk_packages(import_module(package).__path__, f"{package}.")
        for name in [package, *(module.name for module in below)]:
            if name not in reached and not name.endswith(".__main__"):
                names.append(name)
                reached.update(pdoc.extract.walk_specs([name]))
    return names


def with_types(names: list[str]) -> None:
    """Say what the fields of named tuples are where pdoc looks: it does not find names of their module by itself."""
    for name in names:
        for held in vars(import_module(name)).values():
            if isinstance(held, type) and issubclass(held, tuple) and hasattr(held, "_fields"):
                held.__new__.__annotations__ = get_type_hints(held)


def write_reference(folder: Path) -> int:
    """Write the pages, and return how many there are."""
    warnings.simplefilter("error")
    os.environ.pop("DTOSS_QUIET", None)  # pdoc warns of a constant that a variable of the environment equals
    pdoc.render.configure(docformat="numpy", show_source=False, search=True)
    gc.disable()  # a sixth of the time would go to looking for garbage; it takes a gigabyte
    names = modules()
    with_types([module for name in names for module in pdoc.extract.walk_specs([name])])
    pdoc.pdoc(*names, output_directory=folder)
    return len(list(folder.rglob("*.html")))


if __name__ == "__main__":
    print(f"{write_reference(Path(sys.argv[1]))} pages; begin with {sys.argv[1]}/index.html")
