"""What a manifest says of the columns of an input: which of them meant what, and how text was read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Annotated, Any, Literal

from dtoss.errors import InputError
from dtoss.option import Option


@dataclass(frozen=True, kw_only=True)
class Columns:
    """Which columns of the input mean what, and how text is to be read.

    Each name is that of a column, or else a path to a field of structs, such as ``vehicle.id``. Where rows follow
    others, such as those of a store, what is not said is as it was there.
    """

    # None where rows are no objects, such as accesses: all ids are 0 then
    id: Annotated[
        str | None, Option("Column with the object's id; if not given id, or as a store's rows had it.", "COLUMN")
    ] = "id"
    # x, y: None takes the two columns that :func:`dtoss.geometry.space.axes_of` finds, or points of a GeoParquet file
    x: Annotated[
        str | None,
        Option("Column with lon or x; if not given lon, lng, longitude or x, or as a store's rows had it.", "COLUMN"),
    ] = None
    y: Annotated[
        str | None,
        Option("Column with lat or y; if not given lat, latitude or y, or as a store's rows had it.", "COLUMN"),
    ] = None
    time: Annotated[
        str | None,
        Option("Column with the time: the latest row of each id counts. t if there is one.", "COLUMN"),
    ] = None
    id_type: Annotated[
        str | None, Option("What ids are; what most of them look like if not given.", written=Literal["int", "text"])
    ] = None
    # Binary points, too, as a GeoParquet file has them
    geometry: Annotated[str | None, Option("Column of points, WKB or WKT, instead of --x and --y.", "COLUMN")] = None
    time_format: Annotated[
        str | None,
        Option("A pattern such as M/d/yyyy H:mm:ss, or epoch_s, epoch_ms, epoch_us, excel; else ISO 8601."),
    ] = None
    # Numbers that count since 1970 have no zone
    zone: Annotated[str | None, Option("Of times that name none: Asia/Shanghai; UTC if not given.", "ZONE")] = None
    delimiter: Annotated[
        str, Option("Of CSV files: a character, tab, semicolon, blank or pipe; a comma if not given.")
    ] = ","
    encoding: Annotated[str | None, Option("Of CSV files, such as latin-1; UTF-8 or the file's mark if not given.")] = (
        None
    )
    multiline: Annotated[bool, Option("Values in quotes may hold line ends.")] = False
    decimal: Annotated[str, Option("Mark of numbers in text: a comma, or . if not given.")] = "."
    header: Annotated[bool, Option("CSV without names: columns are c1, c2, ...", name="--no-header")] = True
    quote: Annotated[str, Option('Of CSV files: a character, or none where quotes are text; " if not given.')] = '"'
    escape: Annotated[str | None, Option("Of CSV files: what makes a quote or a delimiter a plain character.")] = None
    null: Annotated[str | None, Option("Of CSV files: what stands for no value, such as NA.")] = None
    # "all" are those that do not begin with an underscore
    attributes: Annotated[
        Sequence[str] | str,
        Option(
            "Attributes to carry: names separated by commas, none, or all if not given.",
            name="--columns",
            parse=lambda text: text or "all",
        ),
    ] = "all"
    # Booleans, 1 and 0, or such words; a row that deletes needs no position
    deleted: Annotated[str | None, Option("Column that says whether a row deletes its object.", "COLUMN")] = None
    crs: str | None = None  # Of the positions, as the user says it; as the file states it, else degrees, when None

    def coordinates(self, found: Sequence[str]) -> tuple[str, str]:
        """Return the names of the two coordinates among those found; lon and lat where none are called so."""
        if self.x is not None and self.y is not None:
            return self.x, self.y
        from dtoss.geometry.space import AXES, axes_of

        try:
            names = axes_of(found, half=True) or AXES[0]
        except ValueError as error:
            raise InputError(str(error).replace("x= and y=", "--x NAME --y NAME")) from None
        return self.x or names[0], self.y or names[1]

    @classmethod
    def of(cls, facts: Mapping[str, Any]) -> Columns:
        """Return them from what a manifest holds; names that are not known are left out."""
        stored = {"attributes" if name == "columns" else name: value for name, value in facts.items()}
        return cls(**{one.name: stored[one.name] for one in fields(cls) if one.name in stored})

    def facts(self) -> dict[str, Any]:
        """Return them as a manifest's ``source`` holds them, from which a cycle takes them again."""
        asked = asdict(self)
        wanted = asked.pop("attributes")
        return asked | {"columns": wanted if isinstance(wanted, str) else list(wanted)}
