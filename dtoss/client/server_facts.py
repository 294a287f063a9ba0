"""What a server says of the snapshot that it has open."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dtoss.errors import DtossError
from dtoss.geometry.space import LONLAT, Space, space_of


@dataclass(frozen=True)
class Facts:
    """A snapshot that a server has open."""

    snapshot: str
    # objects, sites, partitions: how many there are; 0 sites where the token may see some objects only, whose places
    # nobody counts
    objects: int
    sites: int
    partitions: int
    space: Space  # What its positions mean
    # The rectangle that planar cells are clipped to; None on the sphere
    bounds: tuple[float, float, float, float] | None
    string_ids: bool  # Whether ids are texts
    columns: Mapping[str, str]  # Attributes of the objects, and their types as Arrow writes them
    version: str


def facts_of(document: Mapping[str, Any]) -> Facts:
    """Return the facts in the answer of ``/snapshot``."""
    try:
        bounds = document["bounds"]
        return Facts(
            snapshot=str(document["snapshot"]),
            objects=int(document["objects"]),
            sites=int(document.get("sites") or 0),
            partitions=int(document["partitions"]),
            space=_space(document["crs"], document["metric"]),
            bounds=None if bounds is None else (bounds[0], bounds[1], bounds[2], bounds[3]),
            string_ids=document["id_type"] != "int64",
            columns=dict(document["columns"]),
            version=str(document["version"]),
        )
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise DtossError(f"/snapshot says something else than a server of dtoss of this version ({error!r})") from None


def _space(crs: str, metric: str) -> Space:
    """Return a space; a library that reads names of CRS is loaded only where one may be projected."""
    if metric == "plane" or crs == LONLAT:
        return Space(crs, metric)
    return space_of(crs, metric)
