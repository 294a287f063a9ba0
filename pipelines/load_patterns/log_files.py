"""Files of an access log that are not counted yet, in groups of a size that one commit takes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import pyarrow as pa
from pyarrow import fs

from dtoss.commits.offsets import Ledger
from dtoss.errors import InputError
from dtoss.geometry.space import Space
from dtoss.snapshots.store import on_stderr
from dtoss.snapshots.store_location import filesystem_of, hide_keys
from pipelines.load_patterns.log_rows import read_log_file, screened_rows
from pipelines.loop.arriving import Patience, list_arrivals

FILES_AT_ONCE = 8
"""Files that are read at a time: they are small."""
GROUP_BYTES, GROUP_FILES = 32 << 20, 4096
"""Bytes and number of files of a group, about: what is more makes several."""


@dataclass(frozen=True)
class Group:
    """Files that are added by one commit."""

    names: dict[str, int]  # Their bytes, by their names below the log's folder
    rows: pa.Table  # Their good rows, in the columns of :data:`pipelines.load_patterns.log_rows.KEPT`
    bad: dict[str, int]  # How many others there are, by reason


@dataclass(frozen=True)
class LogFolder:
    """The folder of a log."""

    path: str
    needed: bool = False  # Whether it has to be there already
    patient: bool = False  # Leave out files that cannot be read, and tell of each once, instead of failing
    warn: Callable[[str], None] = on_stderr  # Is told what looks wrong
    _patience: Patience = field(default_factory=Patience)

    def groups(self, ledger: Ledger, space: Space) -> Iterator[Group]:
        """Yield what is not in a ledger yet, in the order of the files' names."""
        filesystem, root = filesystem_of(self.path)
        root = root.rstrip("/")
        if filesystem.get_file_info(root).type == fs.FileType.NotFound:
            if self.needed:
                raise InputError(
                    f"nothing is at {hide_keys(self.path)}: name the folder that a server has as --access-log"
                )
            return
        known = {f"{root}/{name}": size for name, size in ledger.files.items()}
        found = list_arrivals(self.path, Ledger(known), self._patience, self.warn)
        for file in found.waiting:
            self._wrong(file, f"{file} has no footer: it is damaged, or still being written; it is not counted")
        for file in found.fresh.keys() & known.keys():
            self._wrong(
                file,
                f"{file} had {known[file]:,} bytes when it was counted and has {found.fresh[file]:,} now: servers "
                "never change a file; give it a name of its own to count it as well",
            )
        fresh = {file: size for file, size in found.fresh.items() if file not in known}
        axes = ("lon", "lat") if space.geographic else ("x", "y")

        def read(file: str) -> pa.Table | None:
            try:
                return read_log_file(filesystem, file, axes)
            except FileNotFoundError:
                return None  # it has gone since it was listed
            except InputError as error:
                self._wrong(file, str(error))
                return None

        with ThreadPoolExecutor(FILES_AT_ONCE) as pool:
            for files in _grouped(fresh):
                tables = dict(zip(files, pool.map(read, files), strict=True))
                some = {file: table for file, table in tables.items() if table is not None}
                if some:
                    rows = screened_rows(pa.concat_tables(some.values()), space)
                    yield Group({file.removeprefix(f"{root}/"): fresh[file] for file in some}, rows.good, rows.bad)

    def _wrong(self, file: str, why: str) -> None:
        if not self.patient:
            raise InputError(why)
        self._patience.tell(file, why.removeprefix(f"{file} "), self.warn)


def _grouped(files: Mapping[str, int]) -> Iterator[list[str]]:
    """Yield files in groups, in the order of their names."""
    group: list[str] = []
    size = 0
    for file in sorted(files):
        group.append(file)
        size += files[file]
        if size >= GROUP_BYTES or len(group) >= GROUP_FILES:
            yield group
            group, size = [], 0
    if group:
        yield group
