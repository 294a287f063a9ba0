"""Up to where the rows of a source are in a log: offsets by which it goes on, whatever its broker remembers."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from dtoss.errors import InputError

PARTS_OF_SOURCE = 10_000
"""Numbers that a source may give its parts: each below this."""
MOST_SOURCES, LONGEST_SOURCE = 1_000, 400
"""Sources of which a log keeps offsets, and characters of the name of one."""
_OFFSETS = re.compile(r"(\d{1,4}:\d{1,20})(,\d{1,4}:\d{1,20})*", re.ASCII)


@dataclass(frozen=True)
class ReadUpto:
    """Where a source goes on."""

    source: str
    offsets: dict[int, int] = field(default_factory=dict)  # By the number of a part, what it is to give next

    def text(self) -> str:
        """Return the offsets as they stand in a URL: ``0:17,1:20``."""
        return ",".join(f"{part}:{offset}" for part, offset in sorted(self.offsets.items()))

    def data(self) -> bytes:
        """Return it as JSON, blanks behind it up to a multiple of eight bytes."""
        said = json.dumps({"source": self.source, "offsets": self.text()}).encode()
        return said.ljust(-(-len(said) // 8) * 8)

    def pieces(self, most: int = 200) -> Iterator[ReadUpto]:
        """Yield the same in parts that a URL holds."""
        found = sorted(self.offsets.items())
        for at in range(0, len(found), most):
            yield ReadUpto(self.source, dict(found[at : at + most]))


def read_upto(source: str, text: str = "") -> ReadUpto:
    """Return what a URL says of a source; what cannot be meant is an InputError."""
    if not source or len(source) > LONGEST_SOURCE or not source.isprintable():
        raise InputError(f"the name of a source has 1 to {LONGEST_SOURCE} characters that can be printed")
    if text and not _OFFSETS.fullmatch(text):
        raise InputError(f"offsets={text[:40]} are none: 0:17,1:20 is wanted, parts below {PARTS_OF_SOURCE:,}")
    return ReadUpto(source, {int(part): int(offset) for part, offset in (one.split(":") for one in _pairs(text))})


def upto_of(data: bytes | memoryview) -> ReadUpto:
    """Return what :meth:`ReadUpto.data` has written."""
    said = json.loads(bytes(data))
    return read_upto(said["source"], said["offsets"])


def together(found: Iterable[ReadUpto]) -> dict[str, ReadUpto]:
    """Return where each source goes on, which is as it was said last of each part."""
    known: dict[str, ReadUpto] = {}
    for one in found:
        before = known.get(one.source, one).offsets
        known[one.source] = ReadUpto(one.source, before | one.offsets)
    return known


def _pairs(text: str) -> list[str]:
    return text.split(",") if text else []
