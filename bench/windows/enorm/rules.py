"""Where the paper's words allow more than one reading: as it is written, and as it is right."""

from __future__ import annotations

from dataclasses import dataclass

from bench.windows.enorm.spans import Span


@dataclass(frozen=True)
class Rules:
    """What is followed.

    Parameters
    ----------
    closes_at : a window is complete at a punctuation of its "end" and later; as 4.2 writes it, of its "begin".
    slack : added to that. 4.2 has it at the consumer and 6.2 a grace at the source: one of both is enough.
    aligned : a modification counts once it has come over all connections, like a barrier; as 6.2 writes it, over one.
    resent : what consolidates may lack is kept by whoever sent it, and sent again; Table 1 needs it, nothing says so.
    on_arrival : consolidates merge what arrives; else they keep a list until the window ends.
    """

    closes_at: str = "end"
    slack: int = 0
    aligned: bool = True
    resent: bool = True
    on_arrival: bool = True

    def closes(self, span: Span) -> int:
        """Return the time of the punctuation at which an instance is complete."""
        return (span[1] if self.closes_at == "end" else span[0]) + self.slack
