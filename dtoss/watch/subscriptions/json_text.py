"""JSON as files of subscriptions hold it, and as it is kept: strict, in one line, the same wherever it is made."""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable
from functools import cache
from typing import Any, NoReturn


def _refused(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no value of JSON")


def _plain(value: Any) -> Any:
    if isinstance(value, datetime.datetime | datetime.date):
        return value.isoformat()
    if hasattr(value, "tolist"):
        return value.tolist()  # of numpy
    raise TypeError(f"a value of type {type(value).__name__}")


_DECODER = json.JSONDecoder(parse_constant=_refused)
_ENCODER = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, allow_nan=False, default=_plain)


def read_json(data: bytes | str) -> Any:
    """Return what JSON says; NaN and infinities are none. Several times as fast where orjson is installed."""
    if (fast := _fast()) is not None:
        try:
            return fast(data)
        except ValueError:
            pass  # the decoder that everybody has judges, and says what is wrong
    try:
        return _DECODER.decode(data.decode() if isinstance(data, bytes) else data)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}" if error.lineno > 1 else f"column {error.colno}"
        raise ValueError(f"it is not JSON: {error.msg} at {place}") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"it is not JSON: it is not in UTF-8 at byte {error.start + 1}") from None
    except ValueError as error:
        raise ValueError(f"it is not JSON: {error}") from None
    except RecursionError:
        raise ValueError("it is not JSON that can be read: it nests too deep") from None


@cache
def _fast() -> Callable[[bytes | str], Any] | None:
    try:
        import orjson
    except ImportError:
        return None
    found: Callable[[bytes | str], Any] = orjson.loads
    return found


def json_text(value: Any) -> str:
    """Return a value as JSON in a line without blanks; times as ISO 8601, numbers and arrays of numpy as their own."""
    text = _ENCODER.encode(value)
    text.encode()  # half a character cannot be written
    return text
