"""The version of what servers say to each other: a major part that all of a plan share, a minor one that may differ."""

from __future__ import annotations

import re
from typing import NamedTuple

WIRE_HEADER = b"x-dtoss-wire"
"""Of messages and of answers to them."""
_WRITTEN = re.compile(r"([0-9]{1,4})\.([0-9]{1,4})")


class Wire(NamedTuple):
    """A version of messages."""

    major: int  # Another one is not read
    minor: int  # Rises with what is new, of which an older server is not asked in words that it does not know

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"


UNSAID = Wire(1, 0)
"""Of a server whose messages say no version."""
WIRE_SPOKEN = Wire(1, 1)
"""Of this one."""
SAYS_EDGES = 1
"""The minor part from which GeoJSON says what its edges are; before, they were arcs whose sides vectors decide."""
WIRE_SAID = str(WIRE_SPOKEN).encode()


def read_wire(said: bytes | str | None) -> Wire:
    """Return the version that a message or a server says.

    Examples
    --------
    >>> str(read_wire(b"2.13")), str(read_wire(None))
    ('2.13', '1.0')
    """
    if said is None:
        return UNSAID
    text = said.decode("latin-1") if isinstance(said, bytes) else said
    found = _WRITTEN.fullmatch(text)
    if found is None:
        raise ValueError(f"{text[:40]!r} is no version of messages: {WIRE_SPOKEN} is one")
    return Wire(int(found[1]), int(found[2]))


def unread(wire: Wire) -> str | None:
    """Return why messages of a version are not read here; None where they are."""
    if wire.major == WIRE_SPOKEN.major:
        return None
    mine = WIRE_SPOKEN
    older = "that server" if wire.major < mine.major else "this one"
    return f"its messages have version {wire}, this server reads {mine.major}.x and says {mine}: upgrade {older}"
