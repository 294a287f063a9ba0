"""Numbers of formats: what was written by a newer version is refused in one line, whatever it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dtoss.errors import StoreError


def check_document(
    path: str, said: Mapping[str, Any], kind: str, reads: Sequence[int], older: str = "restore it from a copy"
) -> None:
    """Refuse a document of another kind, or of a format that this version does not read: see :func:`check_format`."""
    if said.get("kind") != kind:
        raise StoreError(f"{path} is of kind {said.get('kind')!r:.60}, {kind!r} is wanted")
    check_format(path, said.get("format"), reads, older)


def check_format(what: str, found: object, reads: Sequence[int], older: str = "restore it from a copy") -> None:
    """Refuse a format that this version does not read.

    ``reads``: those that are read, ascending.
    """
    number = isinstance(found, int) and not isinstance(found, bool)
    if number and found in reads:
        return
    way = "install a newer one" if number and found > reads[-1] else older  # type: ignore[operator]
    raise StoreError(f"{what} has format {found!r:.60}, this dtoss reads {' and '.join(map(str, reads))}: {way}")
