"""Where results go: looked at before any work begins."""

from __future__ import annotations

import uuid
from pathlib import Path

from dtoss.errors import InputError


def check_file(option: str, path: str) -> None:
    """Check that a local file can be made or replaced; URIs are not looked at."""
    if "://" in path:
        return
    target = Path(path).absolute()
    if target.is_dir():
        raise InputError(f"{option} {path} is a folder: name a file in it")
    if not target.parent.is_dir():
        raise InputError(f"{option} {path}: there is no folder {Path(path).parent}; make it first")
    if target.exists() and not target.is_file():
        raise InputError(f"{option} {path} is no file that can be replaced: name another one")
    _try(option, path, target.with_name(f".{target.name}.{uuid.uuid4().hex}"))


def check_folder(option: str, path: str) -> None:
    """Check that files can be made in a local folder, which need not be there yet."""
    place = Path(path).absolute()
    while not place.exists() and place != place.parent:
        place = place.parent
    if not place.is_dir():
        raise InputError(f"{option} {path}: {place} is no folder; name another one")
    _try(option, path, place / f".{uuid.uuid4().hex}")


def _try(option: str, path: str, probe: Path) -> None:
    try:
        probe.touch(exist_ok=False)
        probe.unlink()
    except OSError as error:
        raise InputError(f"{option} {path} cannot be written: {error.strerror}") from None
