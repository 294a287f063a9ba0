"""Where a reader of events stands: after which event, of which batch."""

from __future__ import annotations

import re
from numbers import Integral
from typing import NamedTuple

from dtoss.errors import InputError

END_OF_BATCH = (1 << 63) - 1
"""The number of a cursor behind all events of its batch."""
_TEXT = re.compile(r"(\d{1,18})(?:-(\d{1,19}|end))?\Z", re.ASCII)


class Cursor(NamedTuple):
    """A place in the order of all events: those up to it have been told, those behind it have not."""

    batch: int  # The number of a commit
    number: int  # Of an event in it: the file's place shifted by 32 bits, and the row in the file

    def __str__(self) -> str:
        return f"{self.batch}-{'end' if self.number == END_OF_BATCH else self.number}"

    @classmethod
    def of(cls, text: str | int) -> Cursor:
        """Return the cursor that a text means: ``12-34``, or ``12-end`` or ``12`` for behind all events of a batch.

        The number of a batch may be a number, too.

        Examples
        --------
        >>> Cursor.of("12-34")
        Cursor(batch=12, number=34)
        """
        said = str(int(text)) if isinstance(text, Integral) and not isinstance(text, bool) else text
        found = _TEXT.match(said.strip()) if isinstance(said, str) else None
        if found is None or (found[2] not in (None, "end") and int(found[2]) > END_OF_BATCH):
            raise InputError(
                f"{text!r} is no cursor: the id of an event is wanted, such as 12-34, or the number of a batch"
            )
        return cls(int(found[1]), END_OF_BATCH if found[2] in (None, "end") else int(found[2]))


BEGINNING = Cursor(0, END_OF_BATCH)
"""Before the events of the first batch."""
