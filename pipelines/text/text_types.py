"""What columns of text hold: whole numbers, numbers, or just text. How these are written, and columns of Spark's."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column

WHOLE = "whole"
MOSTLY = "mostly whole"
NUMBER = "number"
TEXT = "text"
MOST = 0.9
"""Ids and times are numbers when this share of them are; the others are bad rows then."""

# numbers that are written back as they were read, without the leading zeros and plus signs of codes and telephones
WHOLE_NUMBER = r"^(0|-?[1-9][0-9]{0,18})\z"
PLAIN = r"^(-?(0|[1-9][0-9]{0,14})(\.[0-9]+)?([eE][-+]?[0-9]{1,3})?|NaN|-?Infinity)$"
# numbers as people write coordinates and times; Java alone would take 1.5f and 0x1p3 too
LOOSE = r"^\s*([-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?|(?i:nan|[-+]?inf(inity)?))\s*$"
KINDS_OF_TYPES = {"bigint": WHOLE, "double": NUMBER, "string": TEXT, "timestamp": TEXT}
"""What text of a column of this type is."""


def plain_pattern(decimal: str) -> str:
    """Return how numbers are written that are written back as they were read."""
    return PLAIN if decimal == "." else PLAIN.replace(r"\.", re.escape(decimal))


def exactly(name: str) -> Column:
    """Return the column of a name, whatever characters are in it."""
    from pyspark.sql import functions as F

    return F.col(f"`{name.replace('`', '``')}`")


def number(value: Column) -> Column:
    """Return the number in a text, null where there is none."""
    from pyspark.sql import functions as F

    return F.when(value.rlike(LOOSE), value.try_cast("double"))
