"""What was asked of a history: shapes and intervals, nobody's name; by it the layout adapts.

The folder ``asked/`` of a history: what readers noted, gathered to one ring of the last questions.

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
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from dtoss.column_rows import begin_of, join_rows, take_rows
from dtoss.commits.columnar_files import encode_parquet
from dtoss.commits.folder import Folder
from dtoss.history.versions import Home
from dtoss.row_runs import offsets

HALVED_AFTER = 200
"""Questions after which the weight of one is half of what it was: T of the paper's section 4.2.4."""
REMEMBERED = 4096
"""Questions that are remembered: the weight of an older one is below a millionth."""
_PLAIN: tuple[str, ...] = ("number", "kind", "version", "ids", "first", "last")


@dataclass(frozen=True)
class Questions:
    """Questions, oldest first; of m questions and p pieces.

    A piece is all places nearer than ``reach`` to a box of vectors: a disc is a box without extent, a box has no reach.
    A question without pieces asks about everywhere.
    """

    number: NDArray[np.int64]  # int64 (m,), ascending. The first question ever asked is 1
    kind: NDArray[np.int8]  # int8 (m,). Its place in :data:`dtoss.history.query.scan_blocks.QUESTIONS`
    version: NDArray[np.int64]  # int64 (m,). Of the history, which it read
    ids: NDArray[np.int32]  # int32 (m,). How many objects it was about; 0 where about all
    first: NDArray[np.float64]  # first, last: float64 (m,). Its interval as times are stored; both ends belong to it
    last: NDArray[np.float64]
    # int64 (m + 1,). Where the pieces of each begin
    begin: NDArray[np.int64] = field(metadata=begin_of("low", "high", "reach"))
    low: NDArray[np.float64]  # low, high: float64 (p, dimension). The boxes of the pieces
    high: NDArray[np.float64]
    reach: NDArray[np.float64]  # float64 (p,). A distance of vectors

    def __len__(self) -> int:
        return len(self.number)

    take = take_rows

    def numbered(self, after: int) -> Questions:
        """Return them with the numbers that follow one."""
        number = after + 1 + np.arange(len(self), dtype=np.int64)
        return replace(self, number=number)

    def weights(self) -> NDArray[np.float64]:
        """Return what each counts, float64 (m,): 1 for the newest, half of it :data:`HALVED_AFTER` questions before."""
        if not len(self):
            return np.zeros(0)
        return np.asarray(0.5 ** ((self.number[-1] - self.number) / HALVED_AFTER))

    def as_table(self) -> pa.Table:
        """Return a table of a row for each question; its pieces are lists of coordinates."""
        lists = {}
        for side in ("low", "high"):
            begin = pa.array(self.begin * self.low.shape[1], pa.int32())
            lists[side] = pa.ListArray.from_arrays(begin, pa.array(getattr(self, side).reshape(-1)))
        lists["reach"] = pa.ListArray.from_arrays(pa.array(self.begin, pa.int32()), pa.array(self.reach))
        plain = {name: pa.array(getattr(self, name)) for name in _PLAIN}
        return pa.table(plain | lists)

    @classmethod
    def of_table(cls, table: pa.Table, dimension: int) -> Questions:
        """Return the questions of a table."""
        try:
            plain = [table.column(name).to_numpy() for name in _PLAIN]
            reaches = table.column("reach").combine_chunks()
            sides = [table.column(side).combine_chunks().flatten().to_numpy() for side in ("low", "high")]
        except (KeyError, pa.ArrowInvalid, AttributeError) as error:
            raise ValueError(f"that is no table of questions: {error}") from None
        flat = reaches.flatten().to_numpy()
        begin = offsets(reaches.value_lengths().to_numpy())
        if any(len(side) != dimension * len(flat) for side in sides) or begin[-1] != len(flat):
            raise ValueError(f"that is no table of questions in {dimension} dimensions")
        low, high = (side.reshape(-1, dimension).astype(np.float64) for side in sides)
        number, kind, version, ids, first, last = plain
        return cls(number, kind, version, ids, first, last, begin, low, high, flat.astype(np.float64))


def no_questions(dimension: int) -> Questions:
    """Return none."""
    none, boxes = np.zeros(0), np.zeros((0, dimension))
    whole, kinds, ids = np.zeros(0, np.int64), np.zeros(0, np.int8), np.zeros(0, np.int32)
    return Questions(whole, kinds, whole, ids, none, none, np.zeros(1, np.int64), boxes, boxes, none)


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
    home.folder.write(encode_parquet(questions.as_table(), write_page_checksum=True), ASKED, name)


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
    questions = join_rows(parts)
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
    data = encode_parquet(table, write_page_checksum=True)
    # of rings of one number the newest sorts last
    name = f"{_RING}{last:020d}-{time.time_ns():020d}-{hashlib.sha256(data).hexdigest()[:8]}.parquet"
    home.folder.make(ASKED)
    home.folder.write(data, ASKED, name)
    for old in (*gathered.files, *gathered.stale, *([] if gathered.ring is None else [gathered.ring])):
        home.folder.remove(ASKED, old)


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
