"""JSON as Spark reads it: quotes may be single, NaN and INF are numbers, and what follows a value is not looked at."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from dtoss.rows.raw_json import json_text, number_text

_SPACE = re.compile(r"[ \t\r\n]*")
_TEXTS = {
    quote: re.compile(
        rf"{quote}([^{quote}\\\x00-\x1f\udc80-\udcff]*(?:\\.[^{quote}\\\x00-\x1f\udc80-\udcff]*)*){quote}"
    )
    for quote in "\"'"
}
"""Bytes that are no UTF-8 stand in a text as surrogates, and in no value."""
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_SHORT = dict(zip("bfnrt\"'\\/", "\b\f\n\r\t\"'\\/", strict=True))
_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")
_NUMBER = re.compile(r"(-?(?:0|[1-9][0-9]*))(\.[0-9]+)?([eE][+-]?[0-9]+)?(?![0-9.eE])")
_WORD = re.compile(r"(true|false|null|NaN|[+-]?Infinity|[+-]INF)(?![\w$])")
_WORDS = {"true": True, "false": False, "null": None, "NaN": float("nan")}
_LONGEST = 1000
"""Digits of a number."""
DEEPEST_JSON = 100
"""Levels of lists and objects; Spark takes a thousand, and its types then cost it its life."""


class NoJson(ValueError):
    """A text that holds no JSON."""


@dataclass(frozen=True)
class Written:
    """A value that is no text, with how it was written."""

    value: Any  # None is never written; objects are dicts, of these and texts
    text: str


class LenientReader:
    """Reads one value of a text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.twice: str | None = None  # A name that an object has twice

    def read(self) -> Any:
        """Return the first value of the text, a :class:`Written` where it is no text; raises :class:`NoJson`."""
        return self._value(self._next(), 0)

    def ended(self) -> bool:
        """Return whether nothing but space is left."""
        return self._next() == ""

    def _next(self) -> str:
        self.at = _SPACE.match(self.text, self.at).end()  # type: ignore[union-attr]
        return self.text[self.at : self.at + 1]

    def _value(self, first: str, depth: int) -> Any:
        if first in _TEXTS:
            return self._text(first)
        begin = self.at
        if first == "{" or first == "[":
            if depth >= DEEPEST_JSON:
                raise NoJson(begin)
            self.at += 1
            value: Any = self._object(depth + 1) if first == "{" else self._list(depth + 1)
        elif (word := _WORD.match(self.text, begin)) is not None:
            self.at = word.end()
            if word[1] == "null":
                return None
            value = _WORDS[word[1]] if word[1] in _WORDS else float(word[1].replace("INF", "Infinity"))
        else:
            number = _NUMBER.match(self.text, begin)
            if number is None or sum(map(str.isdigit, number[0])) > _LONGEST:
                raise NoJson(begin)
            self.at = number.end()
            value = float(number[0]) if number[2] or number[3] else int(number[0])
        return Written(value, self.text[begin : self.at])

    def _object(self, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        first = self._next()
        while first != "}":
            if first not in _TEXTS:
                raise NoJson(self.at)
            name = self._text(first)
            if self._next() != ":":
                raise NoJson(self.at)
            self.at += 1
            if name in found:
                self.twice = name
            found[name] = self._value(self._next(), depth)
            first = self._behind("}")
        self.at += 1
        return found

    def _list(self, depth: int) -> list[Any]:
        found: list[Any] = []
        first = self._next()
        while first != "]":
            found.append(self._value(first, depth))
            first = self._behind("]")
        self.at += 1
        return found

    def _behind(self, end: str) -> str:
        """Return the character that begins what follows a value of a list or an object."""
        found = self._next()
        if found == ",":
            self.at += 1
            found = self._next()
            if found != end:
                return found
            raise NoJson(self.at)
        if found != end:
            raise NoJson(self.at)
        return found

    def _text(self, quote: str) -> str:
        found = _TEXTS[quote].match(self.text, self.at)
        if found is None:
            raise NoJson(self.at)
        self.at = found.end()
        return _unescape(found[1]) if "\\" in found[1] else found[1]


def plain_of(value: Any) -> Any:
    """Return a value with all that is in it as Python has it."""
    value = value.value if isinstance(value, Written) else value
    if isinstance(value, dict):
        return {name: plain_of(one) for name, one in value.items()}
    return [plain_of(one) for one in value] if isinstance(value, list) else value


def rewritten(value: Any) -> str:
    """Return a value as JSON that is written anew, as Spark does where it does not hold the bytes."""
    value = value.value if isinstance(value, Written) else value
    if isinstance(value, dict):
        return f"{{{','.join(f'{json_text(name)}:{rewritten(one)}' for name, one in value.items())}}}"
    if isinstance(value, list):
        return f"[{','.join(map(rewritten, value))}]"
    if isinstance(value, float):
        text = number_text(value)
        return text if text[-1].isdecimal() else json_text(text)
    if isinstance(value, str):
        return json_text(value)
    return "null" if value is None else str(value).lower()


def _unescape(text: str) -> str:
    def one(found: re.Match[str]) -> str:
        if found[1] is not None:
            return chr(int(found[1], 16))
        if found[2] not in _SHORT:
            raise NoJson(found[0])
        return _SHORT[found[2]]

    plain = _PAIR.sub(lambda found: found[0].encode("utf-16", "surrogatepass").decode("utf-16"), _ESCAPE.sub(one, text))
    # half of a pair is a question mark to Java
    return plain.encode("utf-8", "replace").decode()
