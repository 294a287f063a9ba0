"""Who is forgotten, a keyed hash for each id which every writer asks, and which texts speak of whom.

::

    FOLDER/forgotten/
      KEY                    32 random bytes in hexadecimal digits, which only its owner can read
      CURRENT, commits/      the chain of commits: each names the file of all who are forgotten
      ids/<hash>.txt         a line for each: the HMAC-SHA256 of the id's UTF-8, and its quick hash under a mask

FOLDER is a store or a history. Whole numbers are hashed as their digits. A quick hash spares rows the slow one: it is
that of Spark, of a salt and the id. Salt and masks are made from the key, so who has the files without it learns
nothing, and who has the key can ask of one id at a time.

Files of rows that were set aside, without those that speak of somebody.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import secrets
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dtoss.buckets import hashes_of
from dtoss.commits.chain import Chain, Commit, check_document, path_in
from dtoss.commits.columnar_files import encode_rejected, read_rejected
from dtoss.commits.file_entry import FileEntry, checked_bytes, write_entry
from dtoss.commits.folder import Folder
from dtoss.commits.table import NamedFile, Table, commit_change, tidy
from dtoss.commits.verify_report import Look
from dtoss.errors import StoreError
from dtoss.snapshots.store_location import folder_of

_ROOM, _KEY, _IDS = "forgotten", "KEY", "ids"
"""The folder, the file of the key in it, and the folder of the ids."""
_KIND, _FORMAT = "forgotten", 1
_KEY_BYTES = 32
_WORD = 8


@dataclass(frozen=True)
class ForgottenIds:
    """Those who are forgotten in a folder."""

    key: bytes
    tags: dict[str, int]  # HMAC-SHA256 of each id, in hexadecimal digits, with its quick hash

    def __len__(self) -> int:
        return len(self.tags)

    @cached_property
    def salt(self) -> str:
        """What stands before an id in its quick hash."""
        return _digest(self.key, b"salt").hex()

    @cached_property
    def quick(self) -> NDArray[np.int64]:
        """The quick hashes, rising."""
        return np.sort(np.array(list(self.tags.values()), np.int64))

    def mask(self, ids: pa.Array) -> NDArray[np.bool_]:
        """Return which ids are forgotten, bool (n,). Cost O(n log m) for m who are."""
        if not len(self.tags) or not len(ids):
            return np.zeros(len(ids), np.bool_)
        texts = ids.cast(pa.large_string())
        salt, nothing = (pa.scalar(text, pa.large_string()) for text in (self.salt, ""))
        found = hashes_of(pc.binary_join_element_wise(salt, texts, nothing))
        at = np.minimum(np.searchsorted(self.quick, found), len(self.quick) - 1)
        mask = np.asarray(self.quick[at] == found)
        rows = np.flatnonzero(mask)
        mask[rows] = [tag_of(self.key, text) in self.tags for text in texts.take(pa.array(rows)).to_pylist()]
        return mask


def tag_of(key: bytes, text: str) -> str:
    """Return the keyed hash of an id, in hexadecimal digits."""
    return _digest(key, b"id:" + text.encode()).hex()


def forgotten_in(path: str) -> ForgottenIds | None:
    """Return who is forgotten in a store or a history; None where nobody is. Cost: one look where nobody ever was."""
    chain = _chain(path)
    if not chain.folder.there():
        return None
    head = chain.head()
    found = None if head is None else _read(chain, head)
    return found if found is not None and len(found) else None


def forget_ids(path: str, texts: Iterable[str]) -> int:
    """Remember that ids are forgotten, and return how many were not before."""
    return _commit_change(path, set(texts), there=True)


def allow_ids(path: str, texts: Iterable[str]) -> int:
    """Let ids come again, and return how many were forgotten. See :func:`forget_ids`."""
    return _commit_change(path, set(texts), there=False)


def _commit_change(path: str, texts: set[str], *, there: bool) -> int:
    chain = _chain(path)
    if not there and not chain.folder.there():
        return 0
    anew = 0

    def change(head: Commit | None) -> dict[str, Any] | None:
        nonlocal anew
        known = _begin(chain) if head is None else _read(chain, head)
        tags = dict(known.tags)
        if there:
            tags |= {tag_of(known.key, text): quick for text, quick in _quick_hashes(known, texts).items()}
        else:
            for text in texts:
                tags.pop(tag_of(known.key, text), None)
        anew = abs(len(tags) - len(known.tags))
        if not anew:
            return None
        lines = sorted(f"{tag} {_mask_word(known.key, tag, quick):016x}\n" for tag, quick in tags.items())
        file = write_entry(chain.folder, "".join(lines).encode(), len(lines), "txt", _IDS)
        return {"kind": _KIND, "format": _FORMAT, "key": _sign(known.key), "file": file, "ids": len(lines)}

    if commit_change(chain, change) is not None:
        tidy(table_of(path), 0.0)
    return anew


def table_of(path: str) -> Table:
    """Return the table of those who are forgotten in a store or a history."""
    chain = _chain(path)
    return Table(
        _ROOM,
        chain,
        (_IDS,),
        partial(_named_files, chain),
        said=lambda one: {"what": "forget", "ids": one.document["ids"]},
    )


def _named_files(chain: Chain, look: Look | None, numbers: range) -> Iterator[NamedFile]:
    for number in numbers[-1:]:
        commit = chain.read(number)
        yield NamedFile(_IDS, FileEntry.of(commit.document["file"]))
        known = _read(chain, commit)
        if look is not None:
            look.found.hold("ids", len(known))


def _chain(path: str) -> Chain:
    return Chain(folder_of(path_in(path, _ROOM)), kept=True)


def _begin(chain: Chain) -> ForgottenIds:
    """Return that nobody is forgotten, with a key that is there from now on."""
    chain.folder.make()
    chain.folder.create(secrets.token_hex(_KEY_BYTES).encode() + b"\n", _KEY, private=True)
    return ForgottenIds(_key(chain), {})


def _key(chain: Chain) -> bytes:
    data, path = chain.folder.read(_KEY), chain.folder.path(_KEY)
    try:
        key = bytes.fromhex((data or b"").decode())
    except ValueError:
        key = b""
    if len(key) != _KEY_BYTES:
        what = "is missing" if data is None else "is damaged"
        raise StoreError(f"{path} {what}: without it nobody knows who is forgotten; restore it from a copy")
    return key


def _read(chain: Chain, head: Commit) -> ForgottenIds:
    said, path = head.document, chain.path(head.number)
    check_document(path, said, _KIND, (_FORMAT,))
    key = _key(chain)
    if said.get("key") != _sign(key):
        raise StoreError(f"{chain.folder.path(_KEY)} is not the key of {path}; restore it from a copy")
    try:
        file = FileEntry.of(said.get("file"))
        lines = checked_bytes(chain.folder, _IDS, file).decode().splitlines()
        pairs = [line.split(" ") for line in lines]
        return ForgottenIds(key, {tag: _as_int64(_mask_word(key, tag, int(masked, 16))) for tag, masked in pairs})
    except ValueError as error:
        raise StoreError(f"{path} is damaged: {error}; restore it from a copy") from None


def _quick_hashes(known: ForgottenIds, texts: set[str]) -> dict[str, int]:
    ordered = sorted(texts)
    hashes = hashes_of(pa.array([known.salt + text for text in ordered], pa.large_string()))
    return dict(zip(ordered, hashes.tolist(), strict=True))


def _mask_word(key: bytes, tag: str, word: int) -> int:
    """Return a word under the mask of a tag; of a masked one the word."""
    mask = int.from_bytes(_digest(key, b"mask:" + tag.encode())[:_WORD])
    return (word & (1 << 64) - 1) ^ mask


def _as_int64(word: int) -> int:
    return word - (1 << 64) if word >> 63 else word


def _sign(key: bytes) -> str:
    """Return what tells a key from another one, and nothing of it."""
    return _digest(key, b"key").hex()[:16]


def _digest(key: bytes, data: bytes) -> bytes:
    return hmac.new(key, data, hashlib.sha256).digest()


@dataclass(frozen=True)
class Mentions:
    """Ids that are looked for in rows as they were read."""

    ids: frozenset[str]  # As texts; whole numbers as their digits
    # The column of ids in JSON; where None, or where a row has none of this name, each of its values may be one
    column: str | None = None

    @cached_property
    def _words(self) -> re.Pattern[str]:
        some = "|".join(re.escape(one) for one in sorted(self.ids, key=len, reverse=True))
        return re.compile(rf"(?<!\w)(?:{some})(?!\w)")

    def mask(self, rows: pa.Array | pa.ChunkedArray) -> NDArray[np.bool_]:
        """Return which rows speak of one of the ids, bool (n,); a null speaks of nobody."""
        return np.array([text is not None and self.found_in(text) for text in rows.to_pylist()], np.bool_)

    def stands_in(self, text: str) -> bool:
        """Return whether one of the ids stands in a text as a word."""
        return bool(self.ids) and self._words.search(text) is not None

    def found_in(self, text: str) -> bool:
        """Return whether a row speaks of one: its id is one, or, in what is no JSON, one stands as a word."""
        if not self.ids:
            return False
        try:
            row = json.loads(text)
        except (ValueError, RecursionError):
            return self.stands_in(text)
        if isinstance(row, dict):
            said = row.get(self.column) if self.column is not None else None
            if said is not None and not isinstance(said, (dict, list)):
                return _text(said) in self.ids
        # a line that could not be read stands in a text of its own
        return any(one in self.ids or self.stands_in(one) for one in _texts(row))


def among(column: pa.Array | pa.ChunkedArray, ids: pa.Array) -> NDArray[np.bool_]:
    """Return which values of a column are some ids, bool (n,): none where the one has numbers and the other texts."""
    if pa.types.is_integer(column.type) != pa.types.is_integer(ids.type):
        return np.zeros(len(column), np.bool_)
    return np.asarray(pc.is_in(column, value_set=ids.cast(column.type)), np.bool_)


def _texts(value: Any) -> Iterable[str]:
    if isinstance(value, dict):
        for one in value.values():
            yield from _texts(one)
    elif isinstance(value, list):
        for one in value:
            yield from _texts(one)
    elif value is not None:
        yield _text(value)


def _text(value: Any) -> str:
    return value.strip() if isinstance(value, str) else json.dumps(value)


def without_mentions(rows: pa.Table, mentions: Mentions) -> pa.Table:
    """Return the rows that speak of nobody who is looked for."""
    return rows.filter(pa.array(~mentions.mask(rows.column("row"))))


def clear_rejected(folder: Folder, room: str, mentions: Mentions, *, dry: bool = False) -> int:
    """Remove rows that speak of somebody from the files of a folder that nothing lists; return how many went.

    ``folder``, ``room``: where the files are, each named by its bytes.

    What stays of a file is written before it goes: rows stand in two for a moment, and never in none.
    """
    gone = 0
    for name in folder.files(room):
        rows = read_rejected(folder, room, name)
        kept = without_mentions(rows, mentions)
        gone += len(rows) - len(kept)
        if dry or len(kept) == len(rows):
            continue
        if len(kept):
            write_entry(folder, encode_rejected(kept), len(kept), "parquet", room, digits=len(name.partition(".")[0]))
        folder.remove(room, name)
    return gone
