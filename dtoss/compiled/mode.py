"""Whether kernels are compiled, or run as Python with all bounds checked: read once, when dtoss is imported."""

from __future__ import annotations

import os

CHECKED = any(os.environ.get(name, "0") not in ("", "0") for name in ("DTOSS_CHECKED", "NUMBA_DISABLE_JIT"))
"""``DTOSS_CHECKED=1`` asks for checked mode, as does numba's own switch: what pointers do has no other Python."""
