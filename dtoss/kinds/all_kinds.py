"""The list of all kinds of questions about places."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from dtoss.kinds.kind import About, Kind

KIND_OBJECTS = (
    "searches.KNN",
    "searches.RANGE",
    "searches.COUNT",
    "searches.LOCATE",
    "nearest_to.REVERSE_NEAREST",
    "shapes.IN_BOXES",
    "shapes.IN_POLYGONS",
)
"""The module of this room and the object of each. A file and a line here are a new one."""


def _load(named: str) -> Kind[Any]:
    module, _, name = named.partition(".")
    kind: Kind[Any] = getattr(import_module(f"dtoss.kinds.{module}"), name)
    return kind


ALL_KINDS = {kind.name: kind for kind in map(_load, KIND_OBJECTS)}
"""All kinds by their names, in the order in which they are listed."""
OF_PLACES = [kind for kind in ALL_KINDS.values() if kind.about == About.PLACES]
SHAPED = [kind for kind in ALL_KINDS.values() if kind.about != About.PLACES]
"""Those that are about shapes, and all others."""


def kind_of(name: str) -> Kind[Any]:
    """Return the kind of a name."""
    if name not in ALL_KINDS:
        raise ValueError(f"{name!r} is no kind of question: {', '.join(ALL_KINDS)} are")
    return ALL_KINDS[name]
