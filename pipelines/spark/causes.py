"""Errors of Spark's in one line: what was raised in a task or in Java, out of pages of text."""

from __future__ import annotations

import re

from dtoss import errors
from dtoss.errors import DtossError, InputError

_OURS = re.compile(r"^\s*dtoss\.errors\.(\w+): (.*)", re.MULTILINE)
MOST_TOLD = "spark.driver.maxResultSize"
"""The option of Spark's that bounds what tasks send to the driver."""


def cause_of(error: BaseException) -> str | None:
    """Return what an error of ours says, raised here or in a task of Spark's; None of an error of others."""
    if isinstance(error, DtossError):
        return str(error)
    ours = raised_in_task(error)
    return None if ours is None else str(ours)


def raised_in_task(error: BaseException) -> DtossError | None:
    """Return the error of ours that a task of Spark's has raised, or of too much for the driver; None of any other."""
    if MOST_TOLD in str(error):
        return InputError(
            f"tasks send more to the driver than {MOST_TOLD} allows: give spark-submit --conf {MOST_TOLD}=4g and "
            "--driver-memory to match, or fewer partitions (--partitions)"
        )
    found = None if isinstance(error, DtossError) else _OURS.search(str(error))
    kind = getattr(errors, found[1], None) if found else None
    return kind(found[2]) if found and isinstance(kind, type) and issubclass(kind, DtossError) else None


def cause_text(error: BaseException) -> str:
    """Return the line of any error that says most."""
    return cause_of(error) or first_cause(type(error).__name__, str(error).strip())


def first_cause(kind: str, text: str) -> str:
    """Return the line of an error's text that says most: of Spark's, what was raised in a task or in Java."""
    raised = re.findall(r"^(?:[\w.]*\.)?(\w+(?:Error|Exception|Interrupt)): (.+)", text, re.MULTILINE)
    if raised and kind in ("PythonException", "Py4JJavaError", "SparkException"):
        return ": ".join(raised[-1] if kind == "PythonException" else raised[0])
    if java := re.search(r"^: (.+)", text, re.MULTILINE):
        return java[1]
    return f"{kind}: {(text.splitlines() or [''])[0]}"
