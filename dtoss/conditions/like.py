"""Patterns of `like`, matched by plain searches where the pattern is plain, and else as regular expressions."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dtoss.conditions.language import Mismatch, short
from dtoss.conditions.program import Step

LONGEST = 1_000
"""Characters of a pattern that has to be a regular expression: of longer ones the library complains on stderr."""


def matching(texts: Any, pattern: str, escape: str, ignore_case: bool, step: Step) -> Any:
    """Return which texts are like a pattern: `%` is any text, `_` any one character, the escaped one itself."""
    pieces = _pieces(pattern, escape, step)
    if ignore_case:
        texts = pc.utf8_lower(texts)
        pieces = [piece if isinstance(piece, bool) else _lower(piece) for piece in pieces]
    inner = [piece for piece in pieces if isinstance(piece, str)]
    front, back = pieces[:1] == [True], pieces[-1:] == [True]
    if False not in pieces and len(inner) <= 1 and len(pieces) <= 3:
        if not inner:
            return pc.equal(texts, pa.scalar("", texts.type)) if not pieces else pc.equal(texts, texts)
        if front and back:
            return pc.match_substring(texts, pattern=inner[0])
        if front:
            return pc.ends_with(texts, pattern=inner[0])
        if back:
            return pc.starts_with(texts, pattern=inner[0])
        return pc.equal(texts, pa.scalar(inner[0], texts.type))
    if len(pattern) > LONGEST:
        raise Mismatch(
            f"{step}: the pattern of {len(pattern):,} characters has wildcards inside: at most {LONGEST:,} are possible"
        )
    wild = {True: ".*", False: "."}
    expression = "".join(wild[piece] if isinstance(piece, bool) else _quoted(piece) for piece in pieces)
    return pc.match_substring_regex(texts, pattern=rf"(?s)\A{expression}\z")


def _pieces(pattern: str, escape: str, step: Step) -> list[str | bool]:
    """Return texts between wildcards, True for any text, False for any one character."""
    pieces: list[str | bool] = []
    kept: list[str] = []
    characters = iter(pattern)
    for one in characters:
        if one == escape:
            escaped = next(characters, None)
            if escaped is None:
                raise Mismatch(f"{step}: the pattern ends with {short(escape)}, which makes the next character plain")
            kept.append(escaped)
        elif one in "%_":
            if kept:
                pieces.append("".join(kept))
                kept = []
            if one == "_" or pieces[-1:] != [True]:
                pieces.append(one == "%")
        else:
            kept.append(one)
    return [*pieces, "".join(kept)] if kept else pieces


def _lower(text: str) -> str:
    # by the same table as the texts
    return pc.utf8_lower(pa.scalar(text)).as_py()


def _quoted(text: str) -> str:
    return "".join(c if c.isalnum() or ord(c) > 127 else rf"\x{{{ord(c):x}}}" for c in text)
