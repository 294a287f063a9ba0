"""Random numbers without a state: each is a function of a seed and of what it is for, in any order.

A fleet of any size needs them: the position of taxi 10,000,000 in hour 500 must not cost the hours before.
"""

import numpy as np
from numpy.typing import NDArray

__all__ = ["mix", "unit"]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def mix(seed: int, purpose: int, *keys: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Return 64 well-mixed bits for each row of ``keys``: splitmix64's finaliser, once a key.

    ``purpose``: A small number that keeps draws of the same keys apart.
    """
    start = np.array([seed & 0xFFFFFFFFFFFFFFFF], dtype=np.uint64)
    state = _finish(_finish(start) ^ np.uint64(purpose))
    for key in keys:
        state = _finish(state ^ np.asarray(key).astype(np.uint64))
    return state


def unit(seed: int, purpose: int, *keys: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return uniform numbers in [0, 1) of 53 bits, by the same rule as `mix`.

    Examples
    --------
    >>> taxi = np.arange(3)
    >>> bool((unit(7, 0, taxi)[2:] == unit(7, 0, taxi[2:])).all())
    True
    """
    return (mix(seed, purpose, *keys) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _finish(z: NDArray[np.uint64]) -> NDArray[np.uint64]:
    z = z + _GOLDEN
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))
