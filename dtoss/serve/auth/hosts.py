"""Names that a server answers to where it knows nobody, so that no web page reads what is on loopback.

A page of any site may have its own name lead to 127.0.0.1 (DNS rebinding). Its browser then takes the server for that
site, and tells so in the header ``Host``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from ipaddress import ip_address

from dtoss.errors import InputError
from dtoss.serve.core.problems import Problem

HEADER = b"host"
MOST_KNOWN = 256
"""Values of the header that are known to be good."""
_VALUE = re.compile(rb"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(:[0-9]{1,5})?")
_NAME = re.compile(r"[A-Za-z0-9._-]+")


class Hosts:
    """Which hosts are asked for here.

    ``allowed``: names beside ``localhost`` and IP addresses; None answers to all, where a token says who asks.
    """

    def __init__(self, allowed: Sequence[str] | None = None) -> None:
        for name in allowed or ():
            if not is_name(name):
                raise InputError(f"--allow-host {name!r} is no name of a host: map.example.org is one, without a port")
        self._allowed = None if allowed is None else frozenset(map(_plain, allowed))
        self.known: set[bytes] = set()  # values of the header that were found to be good

    def check(self, headers: Iterable[tuple[bytes, bytes]], version: str) -> None:
        """Refuse a request for another host."""
        given = [value for name, value in headers if name == HEADER]
        if not given and version == "1.0":
            return
        if len(given) != 1:
            raise Problem(400, f"there are {len(given)} headers Host: a request names the host once", limit="host")
        if (problem := self._problem_of(given[0])) is not None:
            raise problem

    def takes(self, value: bytes) -> bool:
        """Return whether a header names a host that is answered to."""
        return value in self.known or self._problem_of(value) is None

    def _problem_of(self, value: bytes) -> Problem | None:
        """Return what is wrong with a header; one that is good is remembered."""
        if value in self.known:
            return None
        found = _VALUE.fullmatch(value)
        if found is None:
            return Problem(400, f"Host is {_shown(value)}: a name or an address is wanted, and a port", limit="host")
        name = _plain(found[1].decode())
        if self._allowed is not None and name not in self._allowed and not _is_local(name):
            return Problem(
                403,
                f"{_shown(value)} is not answered to without tokens: ask by an IP address or localhost, or start the "
                f"server with --allow-host {name[:100]} or --token-file",
                limit="host",
            )
        if len(self.known) < MOST_KNOWN:
            self.known.add(value)
        return None


def is_name(host: str) -> bool:
    """Return whether a host may be asked for by this name; one of an address of IPv6 needs none."""
    return _NAME.fullmatch(host) is not None


def _plain(name: str) -> str:
    return name.lower().removesuffix(".")


def _is_local(name: str) -> bool:
    """Return whether no name server can lead a name elsewhere: it is an address, or one of this machine."""
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        ip_address(name.removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    return True


def _shown(value: bytes) -> str:
    return repr(value[:100].decode("latin-1"))
