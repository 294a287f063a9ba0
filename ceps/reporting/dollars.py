"""How the report writes dollars."""

from __future__ import annotations


def dollars(value: float) -> str:
    """Return dollars for people: thousands separated, to the cent, as plans print them.

    Examples
    --------
    >>> dollars(12_345.678), dollars(45.5), dollars(0.0), dollars(-3.0)
    ('$12,345.68', '$45.50', '$0', '-$3.00')
    """
    sign = "-" if value <= -0.005 else ""
    return f"{sign}${abs(value):,.2f}" if value else "$0"
