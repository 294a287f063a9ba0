"""Times as messages and answers say them."""

from __future__ import annotations

import numpy as np


def time_text(microseconds: int) -> str:
    """Return a time in ISO 8601, UTC.

    Examples
    --------
    >>> time_text(0), time_text(1_500_000)
    ('1970-01-01T00:00:00Z', '1970-01-01T00:00:01.5Z')
    """
    text = str(np.datetime64(microseconds, "us")).rstrip("0") if microseconds % 1_000_000 else ""
    return f"{text or np.datetime64(microseconds // 1_000_000, 's')}Z"
