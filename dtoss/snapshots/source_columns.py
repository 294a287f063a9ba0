"""What a manifest says of the columns of an input: which of them meant what, and how text was read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from dtoss.errors import InputError
from dtoss.geometry.space import AXES, axes_of


@dataclass(frozen=True, kw_only=True)
class Columns:
    """Which columns of the input mean what, and how text is to be read."""

    # The objects' ids; None where rows are no objects, such as accesses: all ids are 0 then. As each name here it is
    # that of a column, or else a path to a field of structs, such as ``vehicle.id``
    id: str | None = "id"
    # x, y: the coordinates; None takes the two columns that :func:`dtoss.geometry.space.axes_of` finds, or the points
    # of a GeoParquet file
    x: str | None = None
    y: str | None = None
    # The column whose greatest value is an object's latest row; None takes a column ``t`` if there is one
    time: str | None = None
    # Names to carry along, "all" (but those that begin with an underscore) or "none"
    attributes: Sequence[str] | str = "all"
    delimiter: str = ","  # Of CSV files: a character or its name, such as "tab"
    encoding: str | None = None  # Of text; UTF-8, or what the file's mark says, when None
    multiline: bool = False  # Values in quotes may hold line ends
    decimal: str = "."  # The mark of numbers in text, "." or ","
    header: bool = True  # Whether text begins with a line of names; else columns are c1, c2 and so on
    quote: str = '"'  # Of text: a character, or "none" where quotes are text like any other
    # The character of text that makes a quote, a delimiter or itself, where one follows, a plain character
    escape: str | None = None
    null: str | None = None  # What stands in text for no value, as the empty text does
    # Of times in text: a Spark pattern such as ``M/d/yyyy H:mm:ss``, or what they count, such as ``epoch_s``; ISO 8601
    # when None
    time_format: str | None = None
    # The column that says of a row whether it deletes its object: booleans, 1 and 0, or such words; None where none
    # does. A row that deletes needs no position
    deleted: str | None = None
    id_type: str | None = None  # "int" or "text"; what the column, or most of its texts, are when None
    # Of times that name none, such as ``Asia/Shanghai``; UTC when None. Numbers that count since 1970 have no zone
    zone: str | None = None
    geometry: str | None = None  # The column of points, instead of x and y: WKB, WKT, or as a GeoParquet file has them
    crs: str | None = None  # Of the positions, as the user says it; as the file states it, else degrees, when None

    def coordinates(self, found: Sequence[str]) -> tuple[str, str]:
        """Return the names of the two coordinates among those found; lon and lat where none are called so."""
        if self.x is not None and self.y is not None:
            return self.x, self.y
        try:
            names = axes_of(found, half=True) or AXES[0]
        except ValueError as error:
            raise InputError(str(error).replace("x= and y=", "--x NAME --y NAME")) from None
        return self.x or names[0], self.y or names[1]

    def facts(self) -> dict[str, Any]:
        """Return them as a manifest's ``source`` holds them, from which a cycle takes them again."""
        asked = asdict(self)
        wanted = asked.pop("attributes")
        return asked | {"columns": wanted if isinstance(wanted, str) else list(wanted)}
