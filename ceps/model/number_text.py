"""Numbers as people write them: of things, figures, shares, dollars and bytes, in all commands and pages."""

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
    return f"{figure(count, 6)} {noun if count == 1 else _PLURALS.get(noun, noun + 's')}"


def figure(value: float, digits: int = 4) -> str:
    """Return a number with so many digits that count, or whole where it has more; never with an exponent.

    Examples
    --------
    >>> [figure(x) for x in (0.0, 0.000026371, 0.5, 1.25, 999.97, 15_340.2)]
    ['0', '0.00002637', '0.5', '1.25', '1,000', '15,340']
    """
    if not value or not math.isfinite(value):
        return f"{value:g}"
    text = f"{value:,.{max(digits - 1 - math.floor(math.log10(abs(value))), 0)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


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
    return f"{figure(100 * value, 2)} %"


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


def bytes_text(value: float) -> str:
    """Return bytes for people.

    Examples
    --------
    >>> bytes_text(950.0), bytes_text(1.5e9), bytes_text(3.2e15)
    ('950 bytes', '1.5 GB', '3,200.0 TB')
    """
    for unit in ("bytes", "kB", "MB", "GB"):
        if value < 1000:
            return f"{value:,.0f} {unit}" if unit == "bytes" else f"{value:,.1f} {unit}"
        value /= 1000
    return f"{value:,.1f} TB"
