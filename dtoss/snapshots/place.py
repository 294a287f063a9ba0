"""Where a store is: from a path or URI to its file system and its folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from dtoss.commits.folder import Folder, LocalFolder, RemoteFolder
from dtoss.errors import StoreError

if TYPE_CHECKING:
    from pyarrow import fs


def filesystem_of(path: str) -> tuple[fs.FileSystem, str]:
    """Return the file system of a path or URI, and the path on it.

    Raises
    ------
    StoreError
        If the URI's scheme is not one that pyarrow reaches.
    """
    import pyarrow as pa
    from pyarrow import fs

    if "://" not in path:
        return fs.LocalFileSystem(), str(Path(path).absolute())
    try:
        found: tuple[fs.FileSystem, str] = fs.FileSystem.from_uri(path)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError) as error:
        raise StoreError(f"{path} is not on a file system that can be reached: {error}") from None
    return found


def folder_of(path: str) -> Folder:
    """Return the folder of a path or URI; pyarrow is loaded for URIs only.

    Raises
    ------
    StoreError
        If the URI's scheme is not one that pyarrow reaches.
    """
    if "://" not in path:
        return LocalFolder(str(Path(path).absolute()))
    filesystem, root = filesystem_of(path)
    from pyarrow import fs

    return LocalFolder(root) if isinstance(filesystem, fs.LocalFileSystem) else RemoteFolder(filesystem, root)
