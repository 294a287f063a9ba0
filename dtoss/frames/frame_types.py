"""What may stand for frames and places, as types: by what such objects can do, so that no library is needed for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeAlias

from numpy.typing import ArrayLike, NDArray


class ArrowStream(Protocol):
    """A table that any Arrow library reads: of pandas, GeoPandas, Polars, pyarrow, DuckDB."""

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """Return it as a stream of the Arrow C interface."""


class ArrowArray(Protocol):
    """An array that any Arrow library reads, such as one of GeoArrow points."""

    def __arrow_c_array__(self, requested_schema: Any = None) -> Any:
        """Return it as an array of the Arrow C interface."""


class Geometries(Protocol):
    """A geometry, or many: of shapely, a GeoSeries, a GeoDataFrame."""

    @property
    def __geo_interface__(self) -> Any:
        """It as GeoJSON."""


Frame: TypeAlias = ArrowStream | Mapping[str, Any] | NDArray[Any]
"""A table with named columns: :func:`dtoss.frames.arrow_tables.table_of`."""

Places: TypeAlias = ArrayLike | ArrowStream | ArrowArray | Geometries | Sequence[Geometries] | Mapping[str, Any]
"""Positions: :func:`dtoss.frames.coordinates.places_of`, or what numpy reads."""
