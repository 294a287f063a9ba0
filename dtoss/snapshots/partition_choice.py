"""What a manifest keeps of how partitions were chosen: what was wished for, and how even they came out."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from dtoss.option import Option, check_count

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Wishes:
    """What a user may say of partitions when a store is made; later cycles keep to it."""

    title: ClassVar[str] = "What is built; of updates, a store's first snapshot"
    partitions: Annotated[int | None, Option("How many partitions.")] = None
    objects_per_partition: Annotated[int | None, Option("Objects a partition; 250000 if neither is given.")] = None
    pivots: str = "balanced"  # Or "spread", or "keep" those that stand
    reach: Annotated[
        float | None,
        Option("How far past its borders a partition also knows objects, in chord or CRS units."),
    ] = None
    seed: Annotated[int, Option("Of the sample and the random choices.")] = 0
    bounds: Annotated[
        Any,
        Option(
            "Plane: rectangle that cells are clipped to.",
            "XMIN YMIN XMAX YMAX",
            written=tuple[float, float, float, float],
        ),
    ] = None

    def __post_init__(self) -> None:
        if self.partitions is not None and self.objects_per_partition is not None:
            raise ValueError("partitions and objects_per_partition are both given: one of them is wanted")
        check_count("partitions", self.partitions, 1)
        check_count("objects_per_partition", self.objects_per_partition, 1)
        if self.pivots not in ("balanced", "spread", "keep"):
            raise ValueError(f"pivots is {self.pivots!r}: balanced, spread or keep is wanted")
        if self.reach is not None and not self.reach >= 0.0:
            raise ValueError(f"reach is {self.reach!r}: a number that is not negative is wanted")

    @classmethod
    def of(cls, said: Any) -> Wishes:
        """Return the wishes among a manifest's parameters, or among arguments."""
        return cls(**{name: said[name] for name in cls.__dataclass_fields__ if said.get(name) is not None})

    def facts(self) -> dict[str, Any]:
        """Return them as a manifest's parameters hold them."""
        import numpy as np

        bounds = None if self.bounds is None else np.asarray(self.bounds, dtype=np.float64).tolist()
        return asdict(self) | {"bounds": bounds}


@dataclass(frozen=True)
class Shape:
    """How well partitions share objects: the largest in means, and the shares of open cells and of replicas."""

    objects: int
    largest: float
    open: float
    copied: float

    @classmethod
    def of(cls, entries: list[dict[str, Any]]) -> Shape:
        """Return the shape of partitions, from their entries in a manifest."""
        objects = sum(entry["objects"] for entry in entries)
        sites = sum(entry["sites"] for entry in entries)
        if objects == 0:
            return cls(0, 1.0, 0.0, 0.0)
        return cls(
            objects,
            max(entry["objects"] for entry in entries) * len(entries) / objects,
            sum(entry["uncertified"] for entry in entries) / max(sites, 1),
            sum(entry["replicas"] for entry in entries) / objects,
        )

    def facts(self, bounds: NDArray[np.float64] | None) -> dict[str, Any]:
        """Return what the manifest keeps of it, as that of the snapshot for which pivots and bounds were chosen."""
        return {
            "objects": self.objects,
            "largest": round(self.largest, 6),
            "open": round(self.open, 6),
            "copied": round(self.copied, 6),
            "bounds": None if bounds is None else bounds.tolist(),
        }
