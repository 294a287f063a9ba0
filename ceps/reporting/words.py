"""How the report writes numbers: dollars and shares."""

from __future__ import annotations


def dollars(value: float) -> str:
    """Return dollars for people: thousands separated, cents only below 100.

    Examples
    --------
    >>> dollars(12_345.6), dollars(45.5), dollars(0.0), dollars(-3.0)
    ('$12,346', '$45.50', '$0', '-$3.00')
    """
    sign = "-" if value < 0 else ""
    size = abs(value)
    return f"{sign}${size:,.0f}" if size >= 99.995 or size == 0 else f"{sign}${size:,.2f}"


def share(value: float) -> str:
    """Return a share in per cent, two digits that count; what is tiny says below what it is.

    Examples
    --------
    >>> [share(x) for x in (0.0, 3e-12, 0.000123, 0.0456, 0.873, 1.25)]
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
