"""Files of GeoJSON and of JSON lines as their members: of a collection, of a list, one a line, or the only one.

JSON is read strictly, the same wherever it is read.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from io import BytesIO
from typing import Any, NoReturn

from dtoss.errors import InputError

_MARK = b"\xef\xbb\xbf"
_BLANKS = b"\x1e \t\r\n"
"""What may stand round a line; a separator stands before each feature of a sequence (RFC 8142)."""
_WHOLE = (".json", ".geojson")
"""Endings of files whose members seldom stand on a line each: what is wrong is said of the whole."""
_COLLECTION = "FeatureCollection"


@dataclass(frozen=True)
class Members:
    """The members of a file."""

    name: str  # Of the file, in messages
    crs: Any  # What it states, as GDAL writes it: the name of a CRS; None where it states none
    word: str  # What the number of a member counts: "line" or "feature"
    each: Iterator[tuple[int, Any, str | None]]  # Number, from 1; what JSON says; why it is no JSON, None where it is

    def objects(self) -> Iterator[tuple[int, Mapping[str, Any]]]:
        """Yield the numbers of members and these, which are JSON objects; the first that is none is an error."""
        for number, value, wrong in self.each:
            if wrong is None and not isinstance(value, Mapping):
                wrong = f"it is of type {type(value).__name__}, and an object of GeoJSON is wanted"
            if wrong is not None:
                raise InputError(f"{self.place(number)}: {wrong}")
            yield number, value

    def place(self, number: int) -> str:
        """Return the file and the place of a member, for messages."""
        return f"{self.name}, {self.word} {number}"


def members_of(data: bytes, name: str) -> Members:
    """Return the members of a file. Cost O(bytes); lines are read as they are taken."""
    data = data.removeprefix(_MARK)
    first = next((line for line in BytesIO(data) if line.strip(_BLANKS)), None)
    if first is None:
        raise InputError(f"{name} is empty: GeoJSON, or an object of JSON on each line, is wanted")
    found, _ = _load(first.strip(_BLANKS))
    if isinstance(found, dict) and found.get("type") != _COLLECTION:
        return Members(name, _stated_crs(found, name), "line", _lines(data))
    whole, wrong = _load(data)
    if wrong is not None:
        if name.lower().endswith(_WHOLE):
            raise InputError(f"{name}: {wrong}")
        return Members(name, None, "line", _lines(data))
    crs = _stated_crs(whole, name) if isinstance(whole, dict) else None
    if isinstance(whole, dict) and whole.get("type") == _COLLECTION:
        whole = whole.get("features")
        if not isinstance(whole, list):
            raise InputError(f"{name} is a {_COLLECTION} without a list of features")
    several = whole if isinstance(whole, list) else [whole]
    return Members(name, crs, "feature", ((number, one, None) for number, one in enumerate(several, 1)))


def _lines(data: bytes) -> Iterator[tuple[int, Any, str | None]]:
    for number, line in enumerate(BytesIO(data), 1):
        if not (text := line.strip(_BLANKS)):
            continue
        value, wrong = None, None
        try:
            value = read_json(text)
        except ValueError as error:
            wrong = str(error)
        yield number, value, wrong


def _load(data: bytes) -> tuple[Any, str | None]:
    """Return what JSON says, and why it is none."""
    try:
        return read_json(data), None
    except ValueError as error:
        return None, str(error)


def _stated_crs(stated: Mapping[str, Any], name: str) -> Any:
    said = stated.get("crs") if "type" in stated else None
    properties = said.get("properties") if isinstance(said, Mapping) else None
    found = properties.get("name") if isinstance(properties, Mapping) else None
    if said is not None and found is None:
        raise InputError(
            f'{name}: its "crs" has no name: {{"type": "name", "properties": {{"name": "EPSG:..."}}}} is wanted'
        )
    return found


def _refuse_constant(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no value of JSON")


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)


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
