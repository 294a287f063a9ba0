"""What a manifest keeps of how partitions were chosen: what was wished for, and how even they came out."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray


@dataclass(frozen=True)
class Wishes:
    """What a user may say of partitions when a store is made; later cycles keep to it."""

    partitions: int | None = None
    objects_per_partition: int | None = None
    pivots: str = "balanced"
    reach: float | None = None
    seed: int = 0
    bounds: ArrayLike | None = None

    @classmethod
    def of(cls, said: Any) -> Wishes:
        """Return the wishes among a manifest's parameters, or among arguments."""
        return cls(**{name: said[name] for name in cls.__dataclass_fields__ if said.get(name) is not None})

    def facts(self) -> dict[str, Any]:
        """Return them as a manifest's parameters hold them."""
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
