"""Aircraft: ADS-B tracks as JSON, the form in which the Python package `traffic` ships its samples.

`python -m datasets.aircraft noisy_spoofing.json.gz --out aircraft.parquet` reads them. A file is a list of
records, or an object of columns, with timestamp (milliseconds since 1970), icao24, latitude, longitude, and
often altitude (feet), groundspeed (knots) and callsign. Source: the samples of `traffic` (Olive, JOSS 2019).
"""

import gzip
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from datasets.tables.command import BadInput, expand, run
from datasets.tables.format_source import command_of
from datasets.tables.legal_positions import Numbers
from datasets.tables.standard_rows import Part, assemble, number_rows, standard_schema
from datasets.tables.time_notations import parse_times

NEEDED = ("timestamp", "icao24", "longitude", "latitude")
SCHEMA = standard_schema(
    uid_type=pa.string(),
    columns={"altitude_ft": pa.float64(), "groundspeed_kn": pa.float64(), "text": pa.string()},
)


def aircraft(files: Iterable[str | Path]) -> Iterator[Part]:
    """Yield the rows of JSON files: id, uid (icao24), t, lon, lat, altitude_ft, groundspeed_kn, text.

    The text is the callsign. A file is held in memory as a whole: JSON of this form cannot be cut.

    Raises
    ------
    BadInput
        A file that does not exist, is no JSON of this form or lacks a column.
    """
    return number_rows(map(_read, expand(files, "*.json*")), SCHEMA)


def _read(path: Path) -> Part:
    frame = _frame(path)
    lacking = [name for name in NEEDED if name not in frame]
    if lacking:
        raise BadInput(f"{path}: {', '.join(lacking)} is missing; there is {', '.join(map(str, frame))}")
    lon, lat = _numbers(frame["longitude"]), _numbers(frame["latitude"])
    columns = {
        "uid": _texts(frame["icao24"]),
        "altitude_ft": _floats(frame, "altitude"),
        "groundspeed_kn": _floats(frame, "groundspeed"),
        "text": _texts(frame["callsign"]) if "callsign" in frame else pa.nulls(len(frame), pa.string()),
    }
    raw = pa.record_batch([_texts(frame[name]) for name in NEEDED], names=list(NEEDED))
    nobody = {"no uid": columns["uid"].is_null().to_numpy(zero_copy_only=False)}
    return assemble(SCHEMA, path, raw, lon, lat, parse_times(raw["timestamp"]), columns, nobody, {})


def _frame(path: Path) -> Any:
    opened = gzip.open if path.suffix == ".gz" else open
    try:
        with opened(path, "rt", encoding="utf-8") as file:
            content = json.load(file)
    except (OSError, EOFError, ValueError) as error:
        raise BadInput(f"{path}: {error}") from error
    if not isinstance(content, list | dict):
        raise BadInput(f"{path} holds neither a list of records nor an object of columns")
    try:
        return pd.DataFrame(content)
    except (ValueError, TypeError, AttributeError) as error:
        raise BadInput(f"{path} holds neither a list of records nor an object of columns") from error


def _numbers(series: Any) -> Numbers:
    value = pd.to_numeric(series, errors="coerce").to_numpy(dtype=np.float64)
    missing = series.isna().to_numpy()
    return Numbers(value, missing, ~missing & ~np.isfinite(value))


def _floats(frame: Any, name: str) -> pa.Array:
    if name not in frame:
        return pa.nulls(len(frame), pa.float64())
    value = pd.to_numeric(frame[name], errors="coerce").to_numpy(dtype=np.float64)
    return pa.array(value, mask=~np.isfinite(value))


def _texts(series: Any) -> pa.Array:
    if pd.api.types.is_float_dtype(series) and (series.dropna() % 1 == 0).all():
        series = series.astype("Int64")
    return pa.array(series.astype("string"), pa.string())


main = command_of(aircraft, SCHEMA, "Read tracks of aircraft.", "JSON files, .gz or not, or folders of them.")

if __name__ == "__main__":
    run(main)
