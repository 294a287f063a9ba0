"""What is wanted of the snapshots of a store: how rows are read and merged, what is built, and what stays."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from dtoss.errors import InputError
from dtoss.option import Option, check_count
from dtoss.snapshots.manifest_fields import Columns, Wishes
from pipelines.options.said_amounts import WITNESSES, duration, share

if TYPE_CHECKING:
    from dtoss.geometry.space import Space


@dataclass(frozen=True)
class Merging:
    """What a cycle does with updates, :func:`pipelines.cycle.cycle`; amounts of time are seconds."""

    title: ClassVar[str] = "How updates are merged"
    deleted_for: Annotated[
        float | None,
        Option("For how long a deletion is remembered: 1h, 2d, or ever.", "TIME", parse=duration("ever"), shown="1h"),
    ] = 3600.0
    expire: Annotated[
        float | None,
        Option("Drop objects that were not heard of for so long: 15min, 1h.", "TIME", parse=duration()),
    ] = None
    now: Annotated[Any, Option("What the time is, for replays; the clock's if not given.", written=str)] = None
    clock: Annotated[
        str,
        Option("What tells the time: this machine, or what witnesses say.", written=Literal["wall", "data"]),
    ] = "wall"
    witnesses: Annotated[str | None, WITNESSES] = None
    max_ahead: Annotated[
        float | None,
        Option("Rows so long after now are set aside: 5min, or off.", "TIME", parse=duration(), shown="5min"),
    ] = 300.0
    missing: Annotated[
        str, Option("What a column of the store that updates lack does.", written=Literal["error", "null"])
    ] = "error"
    pivots: Annotated[
        str | None,
        Option(
            "keep them, choose new ones, or choose when they are good no more: auto if not given.",
            written=Literal["keep", "balanced", "auto"],
        ),
    ] = None
    in_place_until: Annotated[float, Option("Share of the objects from which on a cycle builds everything.")] = 1.0

    def __post_init__(self) -> None:
        for name in ("deleted_for", "expire", "max_ahead"):
            seconds = getattr(self, name)
            if seconds is not None and not 0.0 <= seconds < math.inf:
                raise ValueError(f"{name} is {seconds!r}: seconds that are not negative are wanted")
        words = (("clock", ("wall", "data")), ("missing", ("error", "null")), ("pivots", ("keep", "balanced", "auto")))
        for name, legal in words:
            if (word := getattr(self, name)) not in legal and not (name == "pivots" and word is None):
                raise ValueError(f"{name} is {word!r}: {', '.join(legal[:-1])} or {legal[-1]} is wanted")
        if self.witnesses is not None:
            from dtoss.witnesses import checked_witnesses

            checked_witnesses(self.witnesses)
        if not self.in_place_until >= 0.0:
            raise ValueError(f"in_place_until is {self.in_place_until!r}: a share that is not negative is wanted")

    @property
    def by_data(self) -> bool:
        """Whether rows tell the time."""
        return self.now is None and self.clock == "data"

    def check_witnesses(self) -> None:
        """Check that nobody is asked for witnesses whom nothing asks what time it is."""
        if self.witnesses is not None and not self.by_data:
            raise ValueError(
                f"--witnesses {self.witnesses} is for --clock data without --now: else no rows are asked what time it "
                "is"
            )


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


TOLD = 0.5
"""A shrink by more than this share of the objects is told, where nobody said how many may be missing."""


@dataclass(frozen=True)
class Guards:
    """How few objects, and how many fewer than before, keep a snapshot from becoming current."""

    title: ClassVar[str] = "What keeps a snapshot from becoming current"
    min_objects: Annotated[int, Option("With fewer objects nothing becomes current.")] = 0
    # Only told, where more than half are missing, when None
    max_shrink: Annotated[
        float | None,
        Option(
            "Share of the current objects, such as 50%, of which more may not be missing.", parse=share("max_shrink")
        ),
    ] = None
    allow_empty: Annotated[bool, Option("No object at all makes an empty snapshot, and no error.")] = False

    def __post_init__(self) -> None:
        check_count("min_objects", self.min_objects, 0)
        if self.max_shrink is not None and not 0.0 <= self.max_shrink <= 1.0:
            raise ValueError(f"max_shrink is {self.max_shrink!r}: a share from 0 to 1 is wanted")

    def check(self, objects: int, before: int | None, warn: Callable[[str], None], why_none: str | None = None) -> None:
        """Raise where there are too few objects; tell where they are less than half of those before.

        ``objects``: how many there are, or at the most; ``before``: of the current snapshot, None where there is none;
        ``why_none``: why there is none, and the way out; None where only the input may know.
        """
        stays = "the current snapshot stays"
        if objects == 0 and not self.allow_empty:
            raise InputError(f"there is no object: {why_none or f'{stays}; --allow-empty builds an empty one'}")
        if objects < self.min_objects:
            raise InputError(f"{objects:,} objects are fewer than --min-objects {self.min_objects:,}: {stays}")
        if not before or objects >= before:
            return
        shrunk = f"{objects:,} objects, the current snapshot has {before:,}: {1.0 - objects / before:.1%} fewer"
        if self.max_shrink is not None and before - objects > self.max_shrink * before:
            raise InputError(f"{shrunk}, more than --max-shrink {100 * self.max_shrink:g}% allows; {stays}")
        if self.max_shrink is None and before - objects > TOLD * before:
            warn(f"{shrunk}; --max-shrink 50% would have refused that")


Lease = Annotated[
    bool,
    Option(
        "Whether other writers are kept out meanwhile; off: the first commit wins.",
        written=Literal["on", "off"],
        parse="on".__eq__,
        shown="on",
    ),
]


@dataclass(frozen=True)
class Keeping:
    """Which snapshots stay, and whether others may write meanwhile."""

    title: ClassVar[str] = "What stays"
    keep: Annotated[int | None, Option("Snapshots that stay for rollback, the new one among them.")] = 3
    keep_for: Annotated[
        float | None,
        Option(
            "Snapshots that were current less than this ago stay too; 10min on object stores, else none.",
            "TIME",
            parse=duration(),
        ),
    ] = None
    lease: Lease = True

    def __post_init__(self) -> None:
        check_count("keep", self.keep, 1)


@dataclass(frozen=True)
class SnapshotOptions:
    """All that is wanted of a rebuild, or of cycles."""

    reading: Reading = field(default_factory=Reading)
    wishes: Wishes = field(default_factory=Wishes)  # Of partitions; of cycles those of the first snapshot
    merging: Merging = field(default_factory=Merging)
    guards: Guards = field(default_factory=Guards)
    keeping: Keeping = field(default_factory=Keeping)

    @classmethod
    def of(cls, **given: Any) -> SnapshotOptions:
        """Return those of fields of its parts by their names, and of ``first``, as :func:`pipelines.cycle.cycle`."""
        first: Mapping[str, Any] = given.pop("first", None) or {}
        said = given | {"crs": first.get("crs"), "metric": first.get("metric")}

        def part(kind: Any, values: Mapping[str, Any]) -> Any:
            return kind(**{one.name: values[one.name] for one in fields(kind) if one.name in values})

        return cls(part(Reading, said), Wishes.of(first), part(Merging, said), part(Guards, said), part(Keeping, said))
