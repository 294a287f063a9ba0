"""Whether a chain of commits is whole: every number once, every byte as it was written, each parent's hash."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from dtoss.commits.chain import COMMITS, HINT, RESTORE, Chain, decode, file_of, log_of
from dtoss.errors import StoreError


def verify_chain(chain: Chain, first: int = 1) -> Iterator[str | OSError]:
    """Yield what is wrong with a chain, a line for each, which names the file; nothing where it is whole.

    Of a commit or a log that could not be read, which may be whole, it is the error of the system.

    ``first``: the first commit that has to be there: those before it were removed on purpose.

    Checked are all commits from the first to the highest: that each is there, in its file or its log, that its bytes
    are canonical and have its hash, and that it names the hash of the one before. A hint may lag, but not be ahead.
    Cost O(commits).
    """
    files, logs = chain.listed()
    there = set(files)
    highest = max([*files, *(last for _, last in logs)], default=0)
    hint = chain.hint()
    if chain.kept and hint is not None and hint > highest:
        yield f"{chain.path(hint)} is missing: {chain.folder.path(HINT)} says that it was committed; {RESTORE}"
    elif highest and (hint is None or hint > highest):
        why = "does not hold the number of a commit" if hint is None else f"says {hint}, the highest is {highest}"
        yield f"{chain.folder.path(HINT)} is missing or damaged: it {why}; the next commit mends it"
    before: str | None = None
    lines: dict[int, bytes] = {}
    unread = 0
    firsts = dict(logs)
    for number in range(first, highest + 1):
        path = chain.path(number)
        if number in firsts:
            try:
                lines, complaints = _lines(chain, number, firsts[number])
                yield from complaints
            except OSError as error:
                yield error
                lines, unread = {}, firsts[number]
        line = lines.pop(number, None)
        try:
            data = chain.folder.read(COMMITS, file_of(number)) if number in there else None
        except OSError as error:
            yield error
            before = None
            continue
        if line is not None:
            if data not in (None, line):
                yield f"{path} is damaged: it is not what its log holds; dtoss gc removes it"
            data, path = line, _log_path(chain, number, logs)
        if data is None:
            if number > unread:
                yield f"{path} is missing: commit {number} of {highest}"
            before = None
            continue
        digest = hashlib.sha256(data).hexdigest()
        try:
            commit = decode(data, number, path)
        except StoreError as error:
            yield str(error)
        else:
            if number == 1 and commit.parent is not None:
                yield f"{path} is damaged: the first commit has no parent"
            if number > 1 and before is not None and commit.parent != before:
                yield f"{path} is damaged: its parent is not commit {number - 1} as it stands there"
        before = digest


def _lines(chain: Chain, first: int, last: int) -> tuple[dict[int, bytes], list[str]]:
    path = chain.folder.path(COMMITS, log_of(first, last))
    data = chain.folder.read(COMMITS, log_of(first, last)) or b""
    lines = data.splitlines(keepends=True)
    wrong = []
    if len(lines) != last - first + 1:
        wrong.append(f"{path} is damaged: it has {len(lines)} lines, {last - first + 1} are wanted")
    return dict(zip(range(first, last + 1), lines, strict=False)), wrong


def _log_path(chain: Chain, number: int, logs: list[tuple[int, int]]) -> str:
    first, last = next((first, last) for first, last in logs if first <= number <= last)
    return chain.folder.path(COMMITS, log_of(first, last))
