"""The reference of all modules as pages of HTML: `python docs/reference.py build/docs`. A warning is an error."""

from __future__ import annotations

import pkgutil
import sys
import warnings
from importlib import import_module
from pathlib import Path

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


def write_reference(folder: Path) -> int:
    """Write the pages, and return how many there are."""
    warnings.simplefilter("error")
    pdoc.render.configure(docformat="numpy", show_source=False, search=True)
    pdoc.pdoc(*modules(), output_directory=folder)
    return len(list(folder.rglob("*.html")))


if __name__ == "__main__":
    print(f"{write_reference(Path(sys.argv[1]))} pages; begin with {sys.argv[1]}/index.html")
