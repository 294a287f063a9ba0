"""An answer over HTTP as it comes in pieces."""

from __future__ import annotations


class Answers:
    """The bytes of answers of one connection, one after another."""

    def __init__(self) -> None:
        self._left = b""

    def status(self, data: bytes) -> int | None:
        """Return the status of the answer that a piece completes, None where more of it is to come."""
        self._left += data
        head, mark, body = self._left.partition(b"\r\n\r\n")
        if not mark:
            return None
        length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        if len(body) < length:
            return None
        self._left = b""
        return int(head[9:12])
