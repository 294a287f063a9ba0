"""Files of HTTP servers as a file system of Arrow's: they are read one by one; nothing is listed or written."""

from __future__ import annotations

import io
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from http.client import HTTPException
from typing import Any, NoReturn
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pyarrow as pa
from pyarrow import fs

from dtoss.errors import InputError

_SECONDS = 60.0
"""For which a server may be silent."""
_BLOCK = 4 << 20
"""Bytes that are asked for at least."""
_NOT_THERE = (HTTPStatus.NOT_FOUND, HTTPStatus.GONE)


@dataclass(frozen=True)
class HttpFiles(fs.FileSystemHandler):
    """The files of servers; a path is a host and what stands behind it."""

    scheme: str
    query: str = ""  # Of the address: it may hold a key, and stands in no message

    def get_type_name(self) -> str:
        """Return the scheme."""
        return self.scheme

    def normalize_path(self, path: str) -> str:
        """Return the path."""
        return path

    def get_file_info(self, paths: Sequence[str]) -> list[fs.FileInfo]:
        """Return the size of each file, and when it was last written where the server says it."""
        return [self._info(path) for path in paths]

    def get_file_info_selector(self, selector: fs.FileSelector) -> list[fs.FileInfo]:
        """Return nothing where a folder may be missing, as none is there."""
        if selector.allow_not_found:
            return []
        raise InputError(f"{self.scheme}://{selector.base_dir} is no folder that can be listed: name its files")

    def open_input_file(self, path: str) -> pa.PythonFile:
        """Return a file that is read by ranges, or that is in memory where the server knows none."""
        with closing(self.ask(path, 0, 0)) as answer:
            if answer.status != HTTPStatus.PARTIAL_CONTENT:
                return pa.PythonFile(io.BytesIO(_body(answer)), mode="r")
            ranges = _Ranges(self, path, _size(answer))
        return pa.PythonFile(io.BufferedReader(ranges, _BLOCK), mode="r")

    # of an answer that is cut short, only what is asked for by ranges or at once is known to be
    open_input_stream = open_input_file

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise InputError(f"nothing is written over {self.scheme}://: files there are only read")

    create_dir = delete_dir = delete_dir_contents = delete_root_dir_contents = delete_file = _refuse
    move = copy_file = open_output_stream = open_append_stream = _refuse

    def _info(self, path: str) -> fs.FileInfo:
        # not HEAD, which a signed address does not allow
        try:
            with closing(self.ask(path, 0, 0)) as answer:
                said = answer.headers.get("Last-Modified")
                written = None if said is None else parsedate_to_datetime(said)
                return fs.FileInfo(path, fs.FileType.File, size=_size(answer), mtime=written)
        except FileNotFoundError:
            return fs.FileInfo(path, fs.FileType.NotFound)

    def ask(self, path: str, first: int = 0, last: int | None = None) -> Any:
        """Return the answer for a file, or for its bytes from the first to the last one, both included."""
        asked = {} if last is None else {"Range": f"bytes={first}-{last}"}
        address = f"{self.scheme}://{path}"
        try:
            return urlopen(Request(address + (self.query and f"?{self.query}"), headers=asked), timeout=_SECONDS)
        except HTTPError as error:
            error.close()
            if error.code in _NOT_THERE:
                raise FileNotFoundError(f"nothing is at {address}") from None
            if error.code == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE and first == 0:
                return self.ask(path)  # an empty file has no first byte
            raise InputError(f"{address} cannot be read: the server says {error.code} {error.reason}") from None
        except (OSError, HTTPException, ValueError) as error:
            why = getattr(error, "reason", error)
            raise InputError(f"{address} cannot be read: {why}") from None


class _Ranges(io.RawIOBase):
    """A file that is read by ranges."""

    def __init__(self, files: HttpFiles, path: str, size: int) -> None:
        self._files, self._path, self._size, self._at = files, path, size, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        return self._at

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: Any) -> int:
        wanted = min(len(buffer), self._size - self._at)
        if wanted <= 0:
            return 0
        with closing(self._files.ask(self._path, self._at, self._at + wanted - 1)) as answer:
            if answer.status != HTTPStatus.PARTIAL_CONTENT or _size(answer) != self._size:
                raise OSError("it has changed while it was read")
            data = _body(answer)
        if len(data) != wanted:
            raise OSError(f"{wanted:,} bytes were asked for, and {len(data):,} came")
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)


def _body(answer: Any) -> bytes:
    """Return the bytes of an answer; fewer than the server has promised are an error."""
    try:
        return bytes(answer.read())
    except HTTPException as error:
        raise OSError(f"it was cut short: {error}") from None


def _size(answer: Any) -> int:
    """Return the bytes of a whole file, of which an answer is a part or all."""
    whole = (answer.headers.get("Content-Range") or "").rpartition("/")[2]
    said = whole if whole.isdecimal() else answer.headers.get("Content-Length") or ""
    return int(said) if said.isdecimal() else len(_body(answer))
