"""Places in delimited text, as batches of texts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from dtoss.delimited.record_batches import FLAW, Layout, read_text_rows
from pipelines.rows.file_splits import blocks_of, reading
from pipelines.rows.inputs import Inputs


def text_batches(inputs: Inputs, layout: Layout, wanted: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yield some columns, each once, as strings, and the flaw behind them; null where a value is empty, in order."""
    for place in inputs.places:
        with reading(place[1], inputs.kind):
            for part in read_text_rows(blocks_of(place), layout, wanted, file=place[1]):
                yield part.rows.select([*wanted, FLAW])


def flawless(values: pa.Array, flaws: pa.Array) -> pa.Array:
    """Return values, none where the text has a flaw: such a row is nobody, and nowhere."""
    return values if flaws.null_count == len(flaws) else pc.if_else(flaws.is_null(), values, None)
