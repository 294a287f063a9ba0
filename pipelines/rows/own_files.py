"""Files of the user's that speak of somebody: looked through as text or Parquet, and left as they are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from dtoss.erasure.mentions import Mentions
from dtoss.errors import InputError

_PACKED = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}
_LINES = 1 << 16


def files_with(paths: Sequence[str], mentions: Mentions) -> Iterator[str]:
    """Yield the files among some, and in folders among them, in which an id stands."""
    for path in paths:
        place = Path(path)
        if not place.exists():
            raise InputError(f"{path} is not there: a file or a folder is wanted")
        files = sorted(one for one in place.rglob("*") if one.is_file()) if place.is_dir() else [place]
        for file in files:
            try:
                found = _in_parquet(file, mentions) if file.suffix == ".parquet" else _in_text(file, mentions)
            except (pa.ArrowException, OSError) as error:
                raise InputError(f"{file} cannot be looked through: {str(error).splitlines()[0]}") from None
            if found:
                yield str(file)


def _in_parquet(file: Path, mentions: Mentions) -> bool:
    with pq.ParquetFile(file) as parquet:
        for batch in parquet.iter_batches(_LINES):
            named = [batch.column(mentions.column)] if mentions.column in batch.schema.names else batch.columns
            for column in named:
                kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
                if pa.types.is_integer(kind) or pa.types.is_string(kind) or pa.types.is_large_string(kind):
                    texts = column.cast(kind).cast(pa.large_string()).unique()
                    if not mentions.ids.isdisjoint(texts.to_pylist()):
                        return True
    return False


def _in_text(file: Path, mentions: Mentions) -> bool:
    with pa.input_stream(str(file), compression=_PACKED.get(file.suffix)) as stream:
        rest = b""
        while data := stream.read(1 << 20):
            lines, _, rest = (rest + data).rpartition(b"\n")
            if mentions.stands_in(lines.decode(errors="replace")):
                return True
    return mentions.stands_in(rest.decode(errors="replace"))
