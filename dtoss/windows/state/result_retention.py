"""How long results are kept: an option of a run, which changes no answer but says which ends have one."""

from __future__ import annotations

from dtoss.errors import InputError
from dtoss.windows.durations import duration_of, duration_text
from dtoss.windows.spec import Spec


def retained_of(text: str | None, spec: Spec) -> int | None:
    """Return for how long results are kept, in microseconds; None where all are.

    ``text``: A duration such as ``7d``, or None.
    """
    if text is None:
        return None
    try:
        found = duration_of(text, "--retain")
    except ValueError as error:
        raise InputError(str(error)) from None
    if found < spec.late:
        raise InputError(
            f"--retain is {text.strip()} and --late {duration_text(spec.late)}: an end may change until then; keep "
            f"{duration_text(spec.late)} or more"
        )
    return found
