"""What is wanted of the snapshots of a store: how rows are read and merged, what is built, and what stays."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Annotated, Any, ClassVar, Literal

from dtoss.errors import InputError
from dtoss.option import Option, check_count
from dtoss.snapshots.manifest_fields import Wishes
from pipelines.options.merging import Merging
from pipelines.options.reading import Reading
from pipelines.options.said_amounts import duration, share

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
