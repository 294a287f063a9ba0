"""Shares as people write them: ``10%`` or ``0.1``."""

from __future__ import annotations


def share_of(text: str | float, name: str) -> float:
    """Return the share, from 0 to 1, that a text such as ``50%`` or ``0.5`` means.

    Parameters
    ----------
    text
        A number is taken as it is.
    name
        Of what is given, for the error.

    Raises
    ------
    ValueError
        If it is neither, or not from 0 to 1.

    Examples
    --------
    >>> share_of("50%", "max_shrink"), share_of("0.25", "max_shrink")
    (0.5, 0.25)
    """
    said = str(text).strip()
    try:
        share = float(said.removesuffix("%")) / (100.0 if said.endswith("%") else 1.0)
    except ValueError:
        share = -1.0
    if not 0.0 <= share <= 1.0:
        raise ValueError(f"{name} is {said!r}: a share such as 50% or 0.5 is wanted")
    return share
