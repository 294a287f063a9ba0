"""Server types: what a server can do, hold and cost, read from a TOML catalogue."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CATALOGUES = ("m3-2015", "m7g-2026")
"""Names of the catalogues that ship with ceps."""

_NEEDED = ("name", "requests_per_second", "bytes", "dollars_per_hour")
_KNOWN = (*_NEEDED, "source", "date")


@dataclass(frozen=True)
class ServerType:
    """One kind of server that can be rented.

    Parameters
    ----------
    name
        Name in the provider's list.
    requests_per_second
        Requests/s it answers when fully busy, above 0. Plans load it to `utilisation` times this.
    bytes
        Bytes of partitions it can hold, above 0; `inf` where storage is no limit.
    dollars_per_hour
        List price, dollars an hour, 0 or more.
    source, date
        Where the price comes from, and of what day (ISO 8601). Reports print both.

    Raises
    ------
    ValueError
        A capacity is not positive, or a number is NaN, or the price is negative or infinite.
    """

    name: str
    requests_per_second: float
    bytes: float
    dollars_per_hour: float
    source: str = ""
    date: str = ""

    def __post_init__(self) -> None:
        if not self.name:
            raise ValueError('a server type needs a name: write name = "..." in its [[server]] block')
        for field in ("requests_per_second", "bytes"):
            value = getattr(self, field)
            if not value > 0:
                raise ValueError(f"server {self.name!r}: {field} = {value}; it must be above 0")
        if not 0 <= self.dollars_per_hour < math.inf:
            raise ValueError(
                f"server {self.name!r}: dollars_per_hour = {self.dollars_per_hour}; it must be 0 or more and finite"
            )
        if math.isinf(self.requests_per_second):
            raise ValueError(f"server {self.name!r}: requests_per_second is infinite; give what you measured")


def load_servers(path: str | Path) -> tuple[ServerType, ...]:
    """Server types of a TOML catalogue, in the order of the file.

    Each `[[server]]` block has `name`, `requests_per_second`, `bytes` and `dollars_per_hour`, and may have
    `source` and `date`; those two at the top of the file hold for every block without its own.

    Parameters
    ----------
    path
        A TOML file, or the name of a catalogue that ships with ceps (`CATALOGUES`).

    Raises
    ------
    ValueError
        The file is not TOML, holds no server, lacks a key, has an unknown one, repeats a name, or a number is
        out of range; the message names the file.
    FileNotFoundError
        There is no such file.

    Examples
    --------
    >>> from ceps import load_servers
    >>> [(s.name, s.dollars_per_hour) for s in load_servers("m3-2015")][:2]
    [('m3.medium', 0.067), ('m3.large', 0.133)]
    """
    file = Path(path)
    if str(path) in CATALOGUES and not file.exists():
        file = Path(__file__).parent / "catalogues" / f"{path}.toml"
    elif not file.exists():
        raise FileNotFoundError(f"{path}: no such file; catalogues that ship with ceps: {', '.join(CATALOGUES)}")
    try:
        content = tomllib.loads(file.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: not a TOML file: {error}") from error
    blocks = content.get("server", [])
    if not isinstance(blocks, list) or not blocks:
        raise ValueError(f"{path}: holds no server type; add a [[server]] block with {', '.join(_NEEDED)}")
    common = {key: str(content.get(key, "")) for key in ("source", "date")}
    return checked_servers((_server(block, common, path) for block in blocks), str(path))


def checked_servers(servers: Iterable[ServerType], where: str = "servers") -> tuple[ServerType, ...]:
    """`servers` as a tuple, once it is known to be usable: at least one, each name once.

    Raises
    ------
    ValueError
        There is none, or a name is repeated.
    """
    found = tuple(servers)
    if not found:
        raise ValueError(f"{where}: no server type given; at least one is needed")
    names = [server.name for server in found]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"{where}: server type {twice[0]!r} appears {names.count(twice[0])} times; names must differ")
    return found


def _server(block: Mapping[str, Any], common: Mapping[str, str], path: str | Path) -> ServerType:
    label = block.get("name", "without a name")
    missing = [key for key in _NEEDED if key not in block]
    if missing:
        raise ValueError(f"{path}: server {label!r} lacks {', '.join(missing)}")
    unknown = sorted(set(block) - set(_KNOWN))
    if unknown:
        raise ValueError(f"{path}: server {label!r} has unknown key {unknown[0]!r}; known: {', '.join(_KNOWN)}")
    for key in _NEEDED[1:]:
        if isinstance(block[key], bool) or not isinstance(block[key], int | float):
            raise ValueError(f"{path}: server {label!r}: {key} = {block[key]!r}; it must be a number")
    try:
        return ServerType(
            name=str(block["name"]),
            requests_per_second=float(block["requests_per_second"]),
            bytes=float(block["bytes"]),
            dollars_per_hour=float(block["dollars_per_hour"]),
            source=str(block.get("source", common["source"])),
            date=str(block.get("date", common["date"])),
        )
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
