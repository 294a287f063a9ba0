"""What questions share: which store or server is asked, which objects, of which places, and how answers are printed.

Nothing here loads the parser of options.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal

from dtoss.option import Option
from dtoss.snapshots.manifest_fields import Columns
from pipelines.command.terminal.options import Carry, Check, GeoJson, Having, Json, Length, Limit, Snapshot, Where
from pipelines.options.snapshot_options import TEXT, SaidOf


@dataclass(frozen=True)
class Target:
    """What is asked: a store or a server."""

    title: ClassVar[str] = "What is queried"
    store: Annotated[str | None, Option("Path or URI of the store, or --url.")] = None
    url: Annotated[str | None, Option("Of dtoss serve, which is queried instead of a store.")] = None
    token_file: Annotated[str | None, Option("Holds the token that --url wants; DTOSS_TOKEN may, too.", "FILE")] = None
    snapshot: Snapshot = None
    check: Check = None

    def checked_by(self, usual: bool | Literal["touch"]) -> bool | Literal["touch"]:
        """Return which checksums are compared, where nothing else is said as usual."""
        return usual if self.check is None else self.check

    def stored(self, option: str) -> str:
        """Return the store that Spark is to read for what an option asks."""
        if self.store is None or self.url is not None:
            raise ValueError(f"{option} is answered in Spark from a store: --store STORE is wanted, and no --url")
        return self.store


@dataclass(frozen=True)
class Filter:
    """Which objects count, and what is returned of them."""

    title: ClassVar[str] = "Which objects"
    columns: Carry = ()
    where: Where = None
    having: Having = None


@dataclass(frozen=True)
class Reach:
    """How many objects of a place, or how far from it."""

    k: int | None = None  # All within a radius when None
    radius: Length | None = None
    max_distance: Length | None = None
    count: bool = False  # Whether only how many there are is wanted


@dataclass(frozen=True)
class PlacesFile:
    """A file of places, and where what is near them goes."""

    title: ClassVar[str] = "A file of places"
    queries: Annotated[
        str | None,
        Option("A file of places, joined in this process, or in Spark if --master is given; needs --out.", "FILE"),
    ] = None
    out: Annotated[str | None, Option("Result of --queries: .parquet, .csv or .jsonl.", "FILE")] = None
    how: Annotated[
        str, Option("left keeps queries without hits, as a row of nulls.", written=Literal["inner", "left"])
    ] = "inner"
    id: Annotated[str, Option("Column of --queries with the query's id.")] = "id"
    x: Annotated[str | None, Option("Column of --queries with lon or x.")] = None
    y: Annotated[str | None, Option("Column of --queries with lat or y.")] = None
    # How text is written
    text: Annotated[Mapping[str, Any], SaidOf(Columns, TEXT)] = field(default_factory=dict)
    geometry: Annotated[str | None, Option("Column of --queries with points, WKB or WKT.", "COLUMN")] = None
    id_type: Annotated[
        str | None, Option("What ids of --queries are; as they look if not given.", written=Literal["int", "text"])
    ] = None
    crs: Annotated[str | None, Option("CRS of --queries, that of the store, where the file does not say it.")] = None


@dataclass(frozen=True)
class Zones:
    """A box, a polygon, or a file of zones."""

    title: ClassVar[str] = "Where"
    box: Annotated[
        tuple[float, float, float, float] | None,
        Option("West, south, east, north in degrees, or xmin, ymin, xmax, ymax.", "W S E N"),
    ] = None
    polygon: Annotated[str | None, Option("GeoJSON file with a Polygon, MultiPolygon or features of them.", "FILE")] = (
        None
    )
    polygons: Annotated[
        str | None,
        Option("File of zones, each answered by itself: GeoJSON, GeoParquet, or what GDAL reads.", "FILE"),
    ] = None
    by: Annotated[
        str | None, Option("Property by which --polygons are called; the number of the row if not given.")
    ] = None
    edges: Annotated[
        str | None,
        Option(
            "Planar edges are straight in lon, lat, as GeoJSON says, and what is meant where the file does not "
            "say it; spherical ones are arcs of great circles. Edges in a plane are straight in any case.",
            written=Literal["spherical", "planar"],
        ),
    ] = None
    count: Annotated[bool, Option("Print only how many there are; of each zone, zeros too.")] = False
    out: Annotated[str | None, Option("Result of --polygons: .parquet, .csv or .jsonl.", "FILE")] = None

    def __post_init__(self) -> None:
        if [self.box, self.polygon, self.polygons].count(None) != 2:
            raise ValueError("one of --box W S E N, --polygon FILE and --polygons FILE is wanted")
        if self.polygons is None and (self.by is not None or self.out is not None):
            raise ValueError(f"{'--by' if self.by is not None else '--out'} is for --polygons FILE, a file of zones")
        if self.box is not None and self.edges is not None:
            raise ValueError(
                "--edges is for --polygon and --polygons: the sides of a --box are meridians and parallels"
            )


@dataclass(frozen=True, slots=True)
class Form:
    """How an answer is printed: as CSV where nothing is said."""

    title: ClassVar[str] = "How it is printed"
    as_json: Json = False
    geojson: GeoJson = False
    limit: Limit = None  # How many rows, the first ones; all where it is None

    def __post_init__(self) -> None:
        if self.as_json and self.geojson:
            raise ValueError("--json and --geojson are both given: one of them is wanted")
        if self.limit is not None and self.limit < 1:
            raise ValueError(f"--limit is {self.limit}: a whole number of at least 1 is wanted")

    def check(self, other: str | None) -> None:
        """Check that rows are printed where this is said of rows.

        ``other``: the option that is given and prints none, such as ``--count``; None where there is none.
        """
        for option, given in (("--geojson", self.geojson), ("--limit", self.limit is not None)):
            if given and other is not None:
                raise ValueError(f"{option} is for rows on stdout, and {other} prints none: leave one of them out")
