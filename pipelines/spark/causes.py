"""Errors of Spark's in one line: what was raised in a task or in Java, out of pages of text."""

from __future__ import annotations

import re

from dtoss.errors import DtossError


def cause_of(error: BaseException) -> str | None:
    """Return what an error of ours says, raised here or in a task of Spark's; None of an error of others."""
    if isinstance(error, DtossError):
        return str(error)
    ours = re.search(r"^\s*dtoss\.errors\.\w+: (.*)", str(error), re.MULTILINE)
    return ours[1] if ours else None


def said(error: BaseException) -> str:
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
