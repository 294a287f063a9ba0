"""What columns of text hold: whole numbers, numbers, or just text, and how these are written."""

from __future__ import annotations

import re

AS_WHOLE = "whole"
MOSTLY = "mostly whole"
AS_NUMBER = "number"
AS_TEXT = "text"
MOST_VALUES = 0.9
"""Ids and times are numbers when this share of them are; the others are bad rows then."""

# numbers that are written back as they were read, without the leading zeros and plus signs of codes and telephones
WHOLE_NUMBER = r"^(0|-?[1-9][0-9]{0,18})\z"
PLAIN_NUMBER = r"^(-?(0|[1-9][0-9]{0,14})(\.[0-9]+)?([eE][-+]?[0-9]{1,3})?|NaN|-?Infinity)$"
# numbers as people write coordinates and times; Java alone would take 1.5f and 0x1p3 too
LOOSE = r"^\s*([-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?|(?i:nan|[-+]?inf(inity)?))\s*$"
KINDS_OF_TYPES = {"bigint": AS_WHOLE, "double": AS_NUMBER, "string": AS_TEXT, "timestamp": AS_TEXT}
"""What text of a column of this type is."""


def plain_pattern(decimal: str) -> str:
    """Return how numbers are written that are written back as they were read."""
    return PLAIN_NUMBER if decimal == "." else PLAIN_NUMBER.replace(r"\.", re.escape(decimal))
