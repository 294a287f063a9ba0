"""What has commits of its own under a name, in a folder of a store: watches, windows."""

from __future__ import annotations

import re

from dtoss.commits.folder import Folder
from dtoss.errors import InputError

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z")


def check_name(kind: str, name: str) -> None:
    """Check that a name is one that a folder of every system can have."""
    if not _NAME.match(name):
        raise InputError(
            f"{kind} {name!r} cannot be a name: up to 64 letters, digits, '.', '_' and '-' are wanted, the first a "
            "letter or digit"
        )


def path_in(place: str, *parts: str) -> str:
    """Return the path or URI of a folder in another one, whose options stay behind it.

    Examples
    --------
    >>> path_in("s3://bucket/store?region=eu", "watch", "default")
    's3://bucket/store/watch/default?region=eu'
    """
    base, mark, options = place.partition("?")
    return "/".join([base.rstrip("/"), *parts]) + mark + options


def names_in(folder: Folder) -> list[str]:
    """Return the names of the folders in a folder, sorted; of none where there is no such folder."""
    return [name for name in folder.folders() if _NAME.match(name)]
