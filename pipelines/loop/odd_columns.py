"""Files that cannot be read as the others of their batch: which they are and why, so that the others go on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

from dtoss.errors import InputError
from dtoss.rows.input_columns import Unfitting
from pipelines.rows.screened_frame import ScreenedFrame

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pipelines.rows.inputs import Inputs

REFUSE, FAIL = "refuse", "fail"
"""What an odd file does: it is set aside by name, or ends the batch."""


def check_words(on_odd_file: str, missing: str | None = None) -> None:
    """Check what is to be done with odd files, and with columns that they lack."""
    if on_odd_file not in (REFUSE, FAIL):
        raise ValueError(f"on_odd_file is {on_odd_file!r}: {REFUSE} or {FAIL} is wanted")
    if missing not in (None, "error", "null", "keep"):
        raise ValueError(f"missing is {missing!r}: error, null or keep is wanted")


@dataclass(frozen=True)
class Apart:
    """Files that do not go together."""

    # Bytes by name, of files that can be read together; the groups in the order of the files
    groups: tuple[dict[str, int], ...] = ()
    odd: Mapping[str, str] = field(default_factory=dict)  # Why files cannot be read, each by itself
    doubtful: frozenset[str] = frozenset()  # Odd ones for which options may be to blame, and not they


def take_apart(files: Mapping[str, int], check: Callable[[dict[str, int]], None]) -> Apart:
    """Return which files cannot be read, and groups of the others, of which each can.

    ``files``: bytes by name, that cannot be read together.

    Calls ``check`` some 2 log2(files) times for each odd file: halves are looked at, and halves of those.
    """
    odd: dict[str, str] = {}
    doubtful: set[str] = set()

    def parts(some: dict[str, int]) -> list[dict[str, int]]:
        try:
            check(some)
        except InputError as error:
            if len(some) == 1:
                odd.update({name: " ".join(str(error).split()).removeprefix(f"{name} ") for name in some})
                doubtful.update(some if isinstance(error, Unfitting) else ())
                return []
            half = len(some) // 2
            names = list(some)
            return [
                part for part_names in (names[:half], names[half:]) for part in parts({n: some[n] for n in part_names})
            ]
        return [some]

    groups = parts(dict(files)) if files else []
    if len(groups) > 1 and odd:
        together = {name: size for group in groups for name, size in group.items()}
        try:
            check(together)
            groups = [together]
        except InputError:
            pass  # of two kinds, each of which can be read
    return Apart(tuple(groups), odd, frozenset(doubtful))


def may_refuse(apart: Apart, stands: bool, has_read: bool) -> bool:
    """Return whether odd files may be set aside: it is they that are wrong, and not what they are held to.

    ``stands``: whether there are types that files are held to, of what was committed before; ``has_read``: whether this
    run has read other files with the same options.
    """
    if not apart.odd:
        return len(apart.groups) > 1
    if apart.groups or has_read:
        return True
    return stands and not apart.doubtful


def session_of(sessions: Callable[[], SparkSession | None]) -> SparkSession | None:
    """Return the session that is to look at files; one that cannot be had is no fault of theirs, and no InputError."""
    try:
        return sessions()
    except InputError as error:
        raise RuntimeError(str(error)) from error


def refusal(why: str) -> str:
    """Return what is told of a file that is set aside."""
    return f"refused, none of its rows counts: {why}; the others go on (--on-odd-file fail ends instead)"


def check_ids(inputs: Inputs, column: str | None, id_type: str | None, what: str) -> None:
    """Check that the ids of Parquet files are of the type at hand: of text and numbers one never stands for the other.

    ``column``: of the ids; None where there are none; ``id_type``: "int64" or "string"; None where nothing is at hand;
    ``what``: whose type it is, such as "watch taxis".
    """
    if inputs.schema is None or id_type is None or column not in inputs.schema.names:
        return
    kind = inputs.schema.field(column).type
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    if pa.types.is_integer(kind) != (id_type == "int64"):
        raise InputError(f"column {column!r} is {kind}, and the ids of {what} are {id_type}: write them as such")


def check_rows(frame: ScreenedFrame, max_bad: float) -> None:
    """Read all of some rows, and check how many are bad. An action. ``max_bad``: the share that is borne."""
    bad, rows = frame.tally.bad, frame.tally.read
    if sum(bad.values()) > max_bad * rows:
        worst = ", ".join(f"{count:,} {reason}" for reason, count in sorted(bad.items(), key=lambda x: -x[1])[:3])
        raise Unfitting(
            f"{sum(bad.values()):,} of {rows:,} rows are bad ({worst}), more than --max-bad {100 * max_bad:g}% allows"
        )
