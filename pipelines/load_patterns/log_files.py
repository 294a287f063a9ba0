"""Files of an access log that are not counted, in groups that a commit takes, and their rows as Spark reads them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from dtoss.commits.offsets import Ledger
from dtoss.errors import InputError
from dtoss.geometry.space import Space
from dtoss.rows.input_columns import REASON
from dtoss.snapshots.store import on_stderr
from dtoss.snapshots.store_location import filesystem_of, hide_keys
from pipelines.loop.arriving import Patience, list_arrivals
from pipelines.rows.access_rows import Asks, access_columns, requests_of
from pipelines.rows.position_frame import screen_positions
from pipelines.rows.read_files import positions_of_table

FILES_AT_ONCE = 8
"""Files that are read at a time: they are small."""
GROUP_BYTES, GROUP_FILES = 32 << 20, 4096
"""Bytes and number of files of a group, about: what is more makes several."""


@dataclass(frozen=True)
class Group:
    """Files that are added by one commit."""

    names: dict[str, int]  # Their bytes, by their names below the log's folder
    rows: pa.Table  # Their good rows, in the columns of :data:`pipelines.load_patterns.log_files.KEPT`
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


KEPT = pa.schema(
    [
        ("t", pa.timestamp("us", "UTC")),
        ("x", pa.float64()),
        ("y", pa.float64()),
        ("k", pa.int32()),
        ("radius", pa.float64()),
        ("weight", pa.int64()),
    ]
)
"""Good rows as live patterns keep them: a place and not a partition, and the weight in whole millionths."""
_ASKS = Asks(weight="weight", k="k", radius="radius")


@dataclass(frozen=True)
class LogRows:
    """Rows of some files."""

    good: pa.Table  # Those that count, in the columns of :data:`KEPT`
    bad: dict[str, int]  # How many were set aside, by reason


def read_log_file(filesystem: fs.FileSystem, file: str, names: tuple[str, str]) -> pa.Table:
    """Return a file of a log: t, the coordinates as x and y, k, radius and weight, as numbers."""
    columns = {"t": "t", names[0]: "x", names[1]: "y", "k": "k", "radius": "radius", "weight": "weight"}
    try:
        with filesystem.open_input_file(file) as stream, pq.ParquetFile(stream) as parquet:
            missing = [name for name in columns if name not in parquet.schema_arrow.names]
            if missing:
                raise InputError(
                    f"{file} has no column {missing[0]}: it is no file of an access log of this store; move it away"
                )
            found = parquet.read(list(columns))
    except FileNotFoundError:
        raise
    except (OSError, pa.ArrowException) as error:
        raise InputError(
            f"{file} is damaged, and its requests cannot be counted: {str(error).splitlines()[0]}; restore it or move "
            "it away"
        ) from None
    arrays = []
    for name, inner in columns.items():
        column = found.column(name)
        is_time = pa.types.is_timestamp(column.type)
        number = pa.types.is_integer(column.type) or pa.types.is_floating(column.type)
        if not (is_time if inner == "t" else number):
            what = "timestamps are" if inner == "t" else "numbers are"
            raise InputError(f"column {name} of {file} is {column.type}: {what} wanted; move the file away")
        kind = pa.timestamp("us", "UTC") if is_time else pa.float64()
        if is_time and column.type.tz is None:
            column = column.cast(pa.timestamp("us"), safe=False)
        arrays.append(column.cast(kind, safe=False))
    return pa.table(arrays, names=list(columns.values()))


def screened_rows(table: pa.Table, space: Space) -> LogRows:
    """Return which rows of files count, and why others do not, as :func:`pipelines.patterns.patterns` judges them."""
    positions = positions_of_table(table, access_columns(_ASKS, x="x", y="y", time="t"))
    frame = screen_positions(positions, space).frame
    kept: list[pa.RecordBatch] = []
    bad: Counter[str] = Counter()
    for batch in frame.all_rows().table(frame.schema).to_batches():
        requests = requests_of(_ASKS, None, batch)
        reasons = requests.column(REASON)
        bad.update(reasons.drop_null().to_pylist())
        columns = [batch.column("t"), *(requests.column(name) for name in KEPT.names[1:])]
        good = pa.record_batch(columns, names=KEPT.names).filter(reasons.is_null())
        kept.append(good.cast(KEPT))
    return LogRows(pa.Table.from_batches(kept, KEPT).combine_chunks(), dict(bad))
