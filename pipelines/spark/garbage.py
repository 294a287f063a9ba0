"""What a Python worker of Spark leaves out where it looks for garbage, as it does after every task."""

from __future__ import annotations

import gc
from typing import Any

LOOKS = [8]
"""At all objects, after which those that stay are looked at no more: code, and what is kept for all tasks.

To look at what kernels import takes a tenth of a second, longer than a small task.
"""


def leave_out_what_stays() -> None:
    """Leave what stays after this process's next looks for garbage out of all later ones."""
    if LOOKS[0] and _after not in gc.callbacks:
        gc.callbacks.append(_after)


def _after(phase: str, info: dict[str, Any]) -> None:
    if phase == "stop" and info["generation"] == 2:
        gc.freeze()
        LOOKS[0] -= 1
        if not LOOKS[0]:
            gc.callbacks.remove(_after)
