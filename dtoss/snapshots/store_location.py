"""Where a store is: from a path or URI to its file system and its folder.

The only place that reads options of object stores, so that pyarrow, which reads and writes files, and obstore, which
makes commits, see the same ones. Those of S3 stand in the URI, as in
``s3://bucket/store?endpoint_override=127.0.0.1:9000&scheme=http&region=eu-central-1``, or in the environment as
``AWS_...``. What stands in neither is left to the credentials that both find by themselves, such as a machine's role.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, unquote, urlsplit

from dtoss.commits.folder import Folder, LocalFolder, RemoteFolder
from dtoss.errors import InputError, StoreError

if TYPE_CHECKING:
    from pyarrow import fs

OBJECT_STORES = ("s3", "gs", "gcs", "abfs", "abfss")
"""Schemes where only obstore can put a file that is absent."""
_QUERY = {"endpoint_override", "scheme", "region", "anonymous", "force_virtual_addressing", "allow_bucket_creation"}
_SWITCHES = {"anonymous", "force_virtual_addressing", "allow_bucket_creation"}


@dataclass(frozen=True)
class S3Place:
    """A folder on S3 and how it is reached; what is None is for the libraries to find."""

    bucket: str
    prefix: str
    endpoint: str | None = None
    scheme: str = "https"
    region: str | None = None
    access_key: str | None = None
    secret_key: str | None = None
    session_token: str | None = None
    switches: frozenset[str] = frozenset()

    @classmethod
    def of(cls, uri: str) -> S3Place:
        """Return what a URI and the environment say; the URI counts first."""
        parts = urlsplit(uri)
        options = dict(parse_qsl(parts.query, keep_blank_values=True))
        if unknown := sorted(set(options) - _QUERY):
            known = ", ".join(sorted(_QUERY))
            raise StoreError(f"{hide_keys(uri)} has the option {unknown[0]}: known are {known}")
        for name in sorted(_SWITCHES & set(options)):
            if options[name] not in ("true", "false"):
                raise StoreError(f"{hide_keys(uri)} says {name}={options[name]}: true or false is wanted")
        said = options.get("endpoint_override") or _environment("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
        scheme, found, endpoint = (said or "").rpartition("://")
        keys = [_environment(f"AWS_{name}") for name in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY", "SESSION_TOKEN")]
        if parts.username:
            keys = [unquote(parts.username), unquote(parts.password or ""), None]
        if not parts.hostname:
            raise StoreError(f"{hide_keys(uri)} names no bucket: s3://bucket/store is wanted")
        return cls(
            # urlsplit's hostname is in lower case, as names of buckets are
            parts.hostname,
            unquote(parts.path).strip("/"),
            endpoint.rstrip("/") or None,
            options.get("scheme") or (scheme if found else "https"),
            options.get("region") or _environment("AWS_REGION", "AWS_DEFAULT_REGION"),
            keys[0],
            keys[1],
            keys[2],
            frozenset(name for name in _SWITCHES if options.get(name) == "true"),
        )

    @property
    def path(self) -> str:
        """The path on pyarrow's file system."""
        return f"{self.bucket}/{self.prefix}".rstrip("/")

    def filesystem(self) -> fs.FileSystem:
        """Return pyarrow's file system."""
        from pyarrow import fs

        options: dict[str, Any] = {
            "endpoint_override": self.endpoint, "region": self._region(), "access_key": self.access_key,
            "secret_key": self.secret_key, "session_token": self.session_token, "scheme": self.scheme,
            "allow_delayed_open": True,  # a small file is one request, not three
        }  # fmt: skip
        options |= dict.fromkeys(self.switches, True)
        return fs.S3FileSystem(**{name: value for name, value in options.items() if value is not None})

    def objects(self) -> Any:
        """Return obstore's store of the same folder."""
        from obstore.store import S3Store

        options: dict[str, Any] = {
            "endpoint": None if self.endpoint is None else f"{self.scheme}://{self.endpoint}",
            "region": self._region(),
            "access_key_id": self.access_key,
            "secret_access_key": self.secret_key,
            "session_token": self.session_token,
            "skip_signature": "anonymous" in self.switches or None,
            "virtual_hosted_style_request": "force_virtual_addressing" in self.switches or None,
            "client_options": {"allow_http": True} if self.scheme == "http" else None,
        }
        given = {name: value for name, value in options.items() if value is not None}
        return S3Store(self.bucket, prefix=self.prefix or None, **given)

    def _region(self) -> str:
        if self.region is not None:
            return self.region
        if self.endpoint is not None:
            return "us-east-1"
        from pyarrow import fs

        return str(fs.resolve_s3_region(self.bucket))


def filesystem_of(path: str, *, files: bool = False) -> tuple[fs.FileSystem, str]:
    """Return the file system of a path or URI, and the path on it.

    ``files``: whether files are only read, one by one: then HTTP is one too.
    """
    import pyarrow as pa
    from pyarrow import fs

    if "://" not in path:
        return fs.LocalFileSystem(), str(Path(path).absolute())
    try:
        if _scheme(path) == "s3":
            place = S3Place.of(path)
            return place.filesystem(), place.path
        if files and _scheme(path) in ("http", "https"):
            return _on_http(path)
        found: tuple[fs.FileSystem, str] = fs.FileSystem.from_uri(path)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError, ValueError) as error:
        raise StoreError(f"{hide_keys(path)} is not on a file system that can be reached: {error}") from None
    return found


def _on_http(uri: str) -> tuple[fs.FileSystem, str]:
    from pyarrow import fs

    from dtoss.snapshots.http_files import HttpFiles

    parts = urlsplit(uri)
    if not parts.hostname or parts.username is not None:
        raise InputError(f"{hide_keys(uri)} names a user, or no host: {parts.scheme}://host/file is wanted")
    return fs.PyFileSystem(HttpFiles(parts.scheme, parts.query)), parts.netloc + parts.path


def folder_of(path: str) -> Folder:
    """Return the folder of a path or URI; pyarrow is loaded for URIs only.

    Object stores can be read without obstore; then nothing can be committed there.
    """
    if "://" not in path:
        return LocalFolder(str(Path(path).absolute()))
    filesystem, root = filesystem_of(path)
    from pyarrow import fs

    if isinstance(filesystem, fs.LocalFileSystem):
        return LocalFolder(root)
    if _scheme(path) not in OBJECT_STORES:
        return RemoteFolder(filesystem, root)
    try:
        if _scheme(path) == "s3":
            return RemoteFolder(filesystem, root, S3Place.of(path).objects())
        from obstore.store import from_url

        return RemoteFolder(filesystem, root, from_url(path.partition("?")[0].replace("gcs://", "gs://", 1)))
    except ImportError:
        missing = f"{hide_keys(path)} can be read, but not written without obstore: pip install 'dtoss[cloud]'"
        return RemoteFolder(filesystem, root, read_only=missing)


def _scheme(path: str) -> str:
    return path.partition("://")[0].lower()


def _environment(*names: str) -> str | None:
    return next((os.environ[name] for name in names if os.environ.get(name)), None)


def hide_keys(path: str) -> str:
    """Return a path or URI without its keys, for messages."""
    scheme, found, rest = path.partition("://")
    return f"{scheme}://{rest.rpartition('@')[2]}" if found else path
