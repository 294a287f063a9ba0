"""How rows of objects are read: which column means what, how text is written, what is let through."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from dtoss.option import Option
from dtoss.snapshots.manifest_fields import Columns
from pipelines.options.said_amounts import share

if TYPE_CHECKING:
    from dtoss.geometry.space import Space


TEXT = ("delimiter", "encoding", "multiline", "decimal", "header", "quote", "escape", "null")
"""Fields of columns that say how text is written, whatever is read of it."""


@dataclass(frozen=True)
class SaidOf:
    """Marks a mapping as the fields of a class that were said, without those that were not."""

    kind: type
    only: tuple[str, ...] | None = None  # Of which fields; all when None


MaxBad = Annotated[
    float, Option("Share of bad rows, such as 10%, above which nothing counts.", "SHARE", parse=share("--max-bad"))
]


@dataclass(frozen=True)
class Reading:
    """What is read of rows, and how."""

    title: ClassVar[str] = "What is read"
    # What is said of columns; the rest is as the store's last rows had it, or the default
    columns: Annotated[Mapping[str, Any], SaidOf(Columns)] = field(default_factory=dict)
    schema: Annotated[
        str, Option("Parquet: the columns of all files, or all in each file.", written=Literal["union", "strict"])
    ] = "union"
    crs: Annotated[
        str | None,
        Option("CRS of the positions: as files or the store say, else EPSG:4326; none is a plane without one."),
    ] = None
    metric: Annotated[
        str | None,
        Option("sphere compares a projected CRS on the sphere.", written=Literal["sphere", "plane"]),
    ] = None
    max_bad: MaxBad = 0.10
    wrap: Annotated[bool, Option("Take 360 from longitudes above 180.")] = False

    # "refuse" sets a file that cannot be read in the types at hand aside, by name; "fail" ends the batch
    on_odd_file: Annotated[
        str,
        Option(
            "A file that cannot be read as the others are is set aside by name, and they go on; or the batch fails.",
            written=Literal["refuse", "fail"],
        ),
    ] = "refuse"

    def __post_init__(self) -> None:
        if self.on_odd_file not in ("refuse", "fail"):
            raise ValueError(f"on_odd_file is {self.on_odd_file!r}: refuse or fail is wanted")
        if not 0.0 <= self.max_bad <= 1.0:
            raise ValueError(f"max_bad is {self.max_bad!r}: a share from 0 to 1 is wanted")

    @property
    def said(self) -> dict[str, Any]:
        """What is said of columns, and in which CRS positions are: a plane by itself has none."""
        from dtoss.geometry.space import NO_CRS

        crs = NO_CRS if self.crs is None and self.metric == "plane" else self.crs
        return {**self.columns, **({} if crs is None else {"crs": crs})}

    @property
    def space(self) -> Space | None:
        """The space that is named; None where none is."""
        return None if self.crs is None and self.metric is None else self.space_of(None)

    def space_of(self, found: str | None) -> Space:
        """Return the space of positions: as it is named, or else of the CRS that was found."""
        from dtoss.geometry.space import space_of

        return space_of(self.crs if self.crs is not None or self.metric == "plane" else found, self.metric)

    def check_wrap(self, space: Space) -> None:
        """Check that only degrees are to be wrapped."""
        if self.wrap and not space.geographic:
            raise ValueError(
                f"wrap takes 360 degrees from longitudes above 180: positions of crs {space.crs} have none"
            )
