"""Commits of a chain in their order, each log read once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

from dtoss.commits.chain import COMMITS, Chain, Commit, decode, file_of, log_of
from dtoss.commits.file_entry import Missing
from dtoss.commits.verify_report import Look
from dtoss.errors import StoreError

T = TypeVar("T")


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


def whole_ones(
    chain: Chain, read: Callable[[Commit], T], first: int, last: int, look: Look | None = None
) -> Iterator[T]:
    """Yield what ``read`` makes of commits in their order; a look is told of those that are not whole.

    Without one the first of these is an error.
    """
    lines: dict[int, bytes] = {}
    for number in range(max(first, 1), last + 1):
        try:
            (commit,) = commits_from(chain, number, number, lines)
            found = read(commit)
        except (StoreError, OSError) as error:
            if look is None:
                raise
            look.wrong(error)
            continue
        yield found
