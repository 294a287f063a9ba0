"""Numbers of things and shares, as people write them.

How the report writes dollars.
"""

from __future__ import annotations

import math

_PLURALS = {"copy": "copies", "leaf": "leaves", "trajectory": "trajectories"}


def how_many(count: float, noun: str) -> str:
    """Return a number and its noun, in the singular for 1.

    Examples
    --------
    >>> how_many(1, "server"), how_many(0, "day"), how_many(1234, "partition"), how_many(2, "copy")
    ('1 server', '0 days', '1,234 partitions', '2 copies')
    >>> how_many(1.0, "day"), how_many(2.5, "day")
    ('1 day', '2.5 days')
    """
    return f"{count:,g} {noun if count == 1 else _plural(noun)}" if count < 1e6 else f"{count:,.0f} {_plural(noun)}"


def _plural(noun: str) -> str:
    return _PLURALS.get(noun, noun + "s")


def per_cent(value: float) -> str:
    """Return a share in per cent, two digits that count; what is tiny says below what it is.

    Examples
    --------
    >>> [per_cent(x) for x in (0.0, 3e-12, 0.000123, 0.0456, 0.873, 1.25)]
    ['0 %', 'under 0.000001 %', '0.012 %', '4.6 %', '87 %', '125 %']
    """
    if value <= 0:
        return "0 %"
    if value < 1e-8:
        return "under 0.000001 %"
    if value >= 0.1:
        return f"{100 * value:,.0f} %"
    text = f"{100 * value:.2g}"
    return f"{text if 'e' not in text else f'{100 * value:.7f}'.rstrip('0')} %"


def per_cent_kept(value: float) -> str:
    """Return the share that an option such as --risk must allow for this one: two digits that count, rounded up.

    Examples
    --------
    >>> per_cent_kept(0.20821), per_cent_kept(0.000123), per_cent_kept(0.05)
    ('21%', '0.013%', '5%')
    """
    shown = 100 * value
    step = 10.0 ** (math.floor(math.log10(shown)) - 1) if shown > 0 else 1.0
    return f"{math.ceil(shown / step * (1 - 1e-12)) * step:.10f}".rstrip("0").rstrip(".") + "%"


def dollars(value: float) -> str:
    """Return dollars for people: thousands separated, to the cent, as plans print them.

    Examples
    --------
    >>> dollars(12_345.678), dollars(45.5), dollars(0.0), dollars(-3.0)
    ('$12,345.68', '$45.50', '$0', '-$3.00')
    """
    sign = "-" if value <= -0.005 else ""
    return f"{sign}${abs(value):,.2f}" if value else "$0"
