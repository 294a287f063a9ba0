"""The folder ``asked/`` of a history: what readers noted, gathered to one ring of the last questions.

A reader writes small files, whenever it likes, and needs no lease. Gathering numbers their questions in the order of
the files' names, keeps the last ones in a new ring, and removes what the ring holds. A ring names the files that went
into it, so one that was not removed, because somebody died meanwhile, counts once all the same. Where two gather at
once one of them may win with fewer questions: then cuts are late, and nothing else.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dtoss.commits.folder import Folder
from dtoss.history.questions import REMEMBERED, Questions, joined_questions, no_questions
from dtoss.history.versions import Home

ASKED = "asked"
"""The name of the folder."""
_RING = "ring-"
_ABOUT = b"dtoss"


@dataclass(frozen=True)
class Gathered:
    """What is known of questions."""

    questions: Questions  # The last ones, numbered
    looks: Mapping[str, Any] = field(default_factory=dict)  # What adapting keeps for the next time, as JSON
    ring: str | None = None  # The name of the newest ring; None where there is none
    files: tuple[str, ...] = ()  # Names of the files that are in no ring yet
    # Names of files that may go once there is another ring: older rings, and what the ring holds already
    stale: tuple[str, ...] = ()
    unreadable: int = 0  # How many files could not be read: they are left out


def note(home: Home, questions: Questions) -> None:
    """Write what was asked, as one small file."""
    home.folder.make(ASKED)
    name = f"{time.time_ns():020d}-{secrets.token_hex(4)}.parquet"
    home.folder.write(_bytes(questions.as_table()), ASKED, name)


def gather(home: Home, dimension: int) -> Gathered:
    """Return what was asked, oldest first; nothing is written."""
    names = [name for name in home.folder.files(ASKED) if name.endswith(".parquet")]
    rings = [name for name in names if name.startswith(_RING)]
    unreadable = 0
    held, ring = no_questions(dimension), None
    about: dict[str, Any] = {}
    for name in reversed(rings):
        found = _read(home.folder, name, dimension)
        if found is not None:
            (held, about), ring = found, name
            break
        unreadable += 1
    included = set(about.get("files", []))
    files = [name for name in names if name not in included and not name.startswith(_RING)]
    parts = [held]
    last = int(held.number[-1]) if len(held) else int(about.get("last", 0))
    for name in files:
        found = _read(home.folder, name, dimension)
        if found is None:
            unreadable += 1
            continue
        parts.append(found[0].numbered(last))
        last += len(found[0])
    questions = joined_questions(parts)
    if len(questions) > REMEMBERED:
        questions = questions.take(np.arange(len(questions) - REMEMBERED, len(questions)))
    stale = [name for name in rings if name != ring] + sorted(included & set(names))
    return Gathered(questions, about.get("looks", {}), ring, tuple(files), tuple(stale), unreadable)


def keep(home: Home, gathered: Gathered, looks: Mapping[str, Any] | None = None) -> None:
    """Write a new ring of what was gathered, and remove what it holds; nothing where it would be the old one.

    ``looks``: to be kept in place of those that were there; those when None.
    """
    looks = dict(gathered.looks if looks is None else looks)
    if not gathered.files and looks == dict(gathered.looks):
        return
    last = int(gathered.questions.number[-1]) if len(gathered.questions) else 0
    left = [name for name in gathered.stale if not name.startswith(_RING)]
    about = {"files": [*left, *gathered.files], "looks": looks, "last": last}
    table = gathered.questions.as_table().replace_schema_metadata({_ABOUT: json.dumps(about, sort_keys=True)})
    data = _bytes(table)
    # of rings of one number the newest sorts last
    name = f"{_RING}{last:020d}-{time.time_ns():020d}-{hashlib.sha256(data).hexdigest()[:8]}.parquet"
    home.folder.make(ASKED)
    home.folder.write(data, ASKED, name)
    for old in (*gathered.files, *gathered.stale, *([] if gathered.ring is None else [gathered.ring])):
        home.folder.remove(ASKED, old)


def _bytes(table: pa.Table) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd", write_page_checksum=True)
    return sink.getvalue()


def _read(folder: Folder, name: str, dimension: int) -> tuple[Questions, dict[str, Any]] | None:
    """Return the questions of a file and what it says of itself; None where it is gone or damaged."""
    data = folder.read(ASKED, name)
    if data is None:
        return None
    try:
        table = pq.ParquetFile(pa.BufferReader(data), page_checksum_verification=True).read()
        about = json.loads((table.schema.metadata or {}).get(_ABOUT, b"{}"))
        return Questions.of_table(table, dimension), about
    except (pa.ArrowInvalid, OSError, ValueError):
        return None
