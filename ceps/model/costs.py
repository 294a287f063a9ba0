"""What a request costs by how much it asks for: base requests by k and by radius, measured and read from TOML."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Curve = tuple[tuple[float, float], ...]
"""Pairs of a k or a radius and its weight in base requests, ascending."""

KEYS = ("cost_by_k", "cost_by_radius")
"""What a [[server]] block may say of it."""

_STEEPEST = {"cost_by_k": 1.0, "cost_by_radius": 2.0}  # past the last measured: hits grow with k, and with the area


@dataclass(frozen=True)
class RequestCosts:
    """How many base requests a request counts as.

    The base is what `requests_per_second` counts: the 8 nearest, unless `calibrate` was told another k.
    """

    by_k: Curve = ()  # (k, base requests) of questions for the k nearest
    by_radius: Curve = ()  # (radius, base requests) of questions for all within a radius, metres or CRS units

    def weights(self, k: NDArray[np.float64], radius: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return base requests that each request counts as, float64 (n,).

        Between two measured questions the logarithm of the weight is linear in the logarithm of k, or of the radius.
        Below the first it is the first's. Past the last it goes on as steeply as between the last two, at most as k
        itself, and as the square of the radius. A request with both counts as the less of the two, since its search
        ends at either. With neither, or where nothing was measured of what it has, it counts as 1.

        ``k``: float64 (n,), NaN or 0 where none is asked for; ``radius``: float64 (n,), NaN or infinite where there is
        none.
        """
        found = np.full(len(k), np.inf)
        for key, curve, asked in (("cost_by_k", self.by_k, k), ("cost_by_radius", self.by_radius, radius)):
            some = np.isfinite(asked) & (asked > 0 if key == "cost_by_k" else asked >= 0)
            if curve and some.any():
                found[some] = np.minimum(found[some], _along(curve, asked[some], _STEEPEST[key]))
        return np.where(np.isfinite(found), found, 1.0)


def _along(curve: Curve, asked: NDArray[np.float64], steepest: float) -> NDArray[np.float64]:
    at, weight = np.log(np.array(curve).T)
    where = np.log(np.maximum(asked, curve[0][0]))
    slope = 0.0 if len(at) < 2 else float(np.clip((weight[-1] - weight[-2]) / (at[-1] - at[-2]), 0.0, steepest))
    return np.exp(np.interp(where, at, weight) + slope * np.maximum(where - at[-1], 0.0))


def load_costs(path: str | Path) -> RequestCosts:
    """Costs of the [[server]] blocks of a TOML file; where several have some, the larger weight of each question."""
    file = Path(path)
    if not file.exists():
        raise FileNotFoundError(f"{path}: no such file; dtoss calibrate prints what it holds")
    try:
        blocks = tomllib.loads(file.read_text(encoding="utf-8")).get("server", [])
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: not a TOML file: {error}") from error
    given = [block for block in blocks if isinstance(block, Mapping)] if isinstance(blocks, list) else []
    curves: dict[str, Curve] = {}
    for key in KEYS:
        stated = [
            check_curve(block[key], key, f"{path}: server {block.get('name')!r}") for block in given if key in block
        ]
        curves[key] = _upper(stated, _STEEPEST[key])
    if not any(curves.values()):
        raise ValueError(
            f"{path}: no server has {' or '.join(KEYS)}; dtoss calibrate --store STORE prints a block that has"
        )
    return RequestCosts(curves["cost_by_k"], curves["cost_by_radius"])


def check_curve(value: Any, key: str, where: str) -> Curve:
    """`value` as a curve, once it is known to be one."""
    pairs = value if isinstance(value, Sequence) and not isinstance(value, str) else ()
    good = bool(pairs) and all(
        isinstance(pair, Sequence)
        and len(pair) == 2
        and all(isinstance(x, int | float) and not isinstance(x, bool) and 0 < x < math.inf for x in pair)
        for pair in pairs
    )
    if not good or any(after[0] <= before[0] for before, after in pairwise(pairs)):
        asked = "k" if key == "cost_by_k" else "radius"
        raise ValueError(
            f"{where}: {key} = {value!r}; it must be pairs of a {asked} and its base requests, above 0 and ascending, "
            f"such as [[1, 0.8], [100, 3.5]]"
        )
    return tuple((float(at), float(weight)) for at, weight in pairs)


def _upper(curves: Sequence[Curve], steepest: float) -> Curve:
    if len(curves) < 2:
        return curves[0] if curves else ()
    at = np.unique([point for curve in curves for point, _ in curve])
    most = np.max([_along(curve, at, steepest) for curve in curves], axis=0)
    return tuple(zip(at.tolist(), most.tolist(), strict=True))
