"""Commits of a chain in their order, each log read once."""

from __future__ import annotations

from collections.abc import Iterator

from dtoss.commits.chain import COMMITS, Chain, Commit, decode, file_of, log_of
from dtoss.commits.file_entry import Missing


def commits_from(chain: Chain, first: int, last: int, lines: dict[int, bytes] | None = None) -> Iterator[Commit]:
    """Yield commits in their order, each log read once.

    ``lines``: the lines of the log that was read last, by number; who asks again hands on the same ones.
    """
    lines = {} if lines is None else lines
    for number in range(max(first, 1), last + 1):
        data = lines.get(number)
        if data is None:
            data = chain.folder.read(COMMITS, file_of(number))
        if data is None:  # whoever folds writes the log before files go
            end = -(-number // chain.block) * chain.block
            log = chain.folder.read(COMMITS, log_of(end - chain.block + 1, end)) or b""
            lines.clear()
            lines.update(enumerate(log.splitlines(keepends=True), end - chain.block + 1))
            data = lines.get(number)
        if data is None:
            raise Missing(f"{chain.path(number)} is missing; roll back or restore it from a copy")
        yield decode(data, number, chain.path(number))
