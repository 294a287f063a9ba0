"""Secrets that a command is given: in a file or in the environment, never among its arguments."""

from __future__ import annotations

import os
from pathlib import Path

from dtoss.errors import InputError


def read_secret(file: str | None, variable: str) -> str | None:
    """Return what a file holds, or a variable of the environment; None where neither says anything."""
    if file is None:
        return os.environ.get(variable) or None
    try:
        return Path(file).read_text(encoding="utf-8").rstrip("\r\n")
    except UnicodeDecodeError:
        raise InputError(f"--secret-file {file} is no text in UTF-8") from None
    except OSError as error:
        raise InputError(f"--secret-file {file} cannot be read: {error.strerror or error}") from None
