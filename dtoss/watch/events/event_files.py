"""One file of events: opened with a check of its bytes, read as far as a question needs it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dtoss.commits.columnar_files import decoding
from dtoss.commits.file_entry import FileEntry, open_entry
from dtoss.watch.events.readers import Cursor
from dtoss.watch.processing.event_table import CROSS_COLUMNS, OTHER_COLUMN, OTHER_PLACE
from dtoss.watch.watch_folder import EVENTS, Home

if TYPE_CHECKING:
    import pyarrow.dataset as ds

EVENT_COLUMNS = (
    "batch",
    "number",
    "subscription",
    "version",
    "kind",
    "object",
    "t",
    "x",
    "y",
    "distance",
    "reason",
    "meta",
    *CROSS_COLUMNS,
    OTHER_COLUMN,
    *OTHER_PLACE,
)
"""Of files of events, the last five only where a subscription wanted crosses or pairs; others are carried along."""
PLACE_COLUMNS = ("x", "y", "distance", *OTHER_PLACE)
"""Those that say where objects are."""


@dataclass(frozen=True)
class Asked:
    """Which events are wanted."""

    after: Cursor  # Events behind this one
    until: Cursor | None = None  # Events up to this one; all when None
    subscription: str | None = None  # Of this subscription; of all when None
    kinds: tuple[str, ...] | None = None  # Of these kinds; of all when None

    def filter(self, after: Cursor, first: Cursor | None, last: Cursor) -> ds.Expression | None:
        """Return what rows of a file must satisfy; None for all.

        ``first``, ``last``: bounds of the file's events; the first is None where it is not known.
        """
        batch, number = pc.field("batch"), pc.field("number")
        parts = []
        if first is None or first <= after:
            parts.append((batch > after.batch) | ((batch == after.batch) & (number > after.number)))
        if self.until is not None and self.until < last:
            parts.append((batch < self.until.batch) | ((batch == self.until.batch) & (number <= self.until.number)))
        if self.subscription is not None:
            parts.append(pc.field("subscription") == self.subscription)
        if self.kinds is not None:
            parts.append(pc.field("kind").isin(list(self.kinds)))
        if not parts:
            return None
        found = parts[0]
        for part in parts[1:]:
            found = found & part
        return found


def read_events(
    home: Home, file: FileEntry, wanted: ds.Expression | None = None, columns: Sequence[str] | None = None
) -> Iterator[pa.Table]:
    """Yield the rows of a file of events in their order, a row group or less at a time.

    ``wanted``: what rows must satisfy; groups whose statistics exclude it are not read; ``columns``: those to read; all
    when None.
    """
    path = home.folder.path(EVENTS, file.name)
    source = open_entry(home.folder, EVENTS, file)
    with decoding(path):
        footer = pq.read_metadata(source)
        if footer.num_rows != file.rows:
            raise ValueError(f"it has {footer.num_rows:,} rows, its commit says {file.rows:,}")
        if footer.num_rows == 0:
            return
        source.seek(0)
        if wanted is None:
            reader = pq.ParquetFile(source, metadata=footer, page_checksum_verification=True)
            for group in range(footer.num_row_groups):
                yield reader.read_row_group(group, columns=columns, use_threads=False)
            return
        import pyarrow.dataset as ds  # it loads pandas

        form = ds.ParquetFileFormat(
            default_fragment_scan_options=ds.ParquetFragmentScanOptions(page_checksum_verification=True)
        )
        fragment = form.make_fragment(source)
        kept = fragment.subset(filter=wanted)
        if not kept.row_groups:
            return
        found = kept.scanner(
            schema=fragment.physical_schema,
            columns=None if columns is None else list(columns),
            filter=wanted,
            use_threads=False,
        )
        for batch in found.to_batches():
            if batch.num_rows:
                yield pa.Table.from_batches([batch])
