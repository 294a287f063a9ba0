"""How people write a field of an object: the annotation from which options of a command come."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Option:
    """How a field is written on a command line."""

    help: str
    metavar: str | None = None
    name: str | None = None  # Of the option; ``--`` and that of the field when None
    written: Any = None  # The type of what is written, such as a Literal; the field's, or a text to parse, when None
    parse: Callable[[str], Any] | None = None  # Makes the field's value of a text; it is what is written when None
    shown: str | None = None  # The text of the default, where a text is parsed
    more: Mapping[str, Any] = field(default_factory=dict)  # For the parser of options: min, max, parser, autocompletion


def check_count(name: str, value: Any, least: int) -> None:
    """Check that a number is whole and large enough; None stands for what is not said."""
    if value is None or (isinstance(value, numbers.Integral) and not isinstance(value, bool) and int(value) >= least):
        return
    wanted = "that is not negative" if least == 0 else f"of at least {least}"
    raise ValueError(f"{name} is {value!r}: a whole number {wanted} is wanted")
