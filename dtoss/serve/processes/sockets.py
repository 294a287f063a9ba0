"""The port of a server: one listening socket for each worker, so that the kernel shares connections out evenly.

Of one socket that several loops wait on, one of them takes nearly all connections. A socket ends with its worker, and
with it the connections that nobody has accepted yet; the port stays with the parent.
"""

from __future__ import annotations

import ipaddress
import socket
from dataclasses import dataclass

from dtoss.errors import InputError


@dataclass(frozen=True, eq=False)
class Port:
    """A port that is held, by a socket that is bound and does not listen."""

    family: socket.AddressFamily
    address: tuple[str | int, ...]  # As sockets of the family take it: host and port first
    held: socket.socket  # Keeps the port while no worker listens

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine reaches it."""
        return is_loopback(str(self.address[0]))

    def url(self, scheme: str) -> str:
        """Return the address as a client writes it."""
        host = f"[{self.address[0]}]" if self.family == socket.AF_INET6 else self.address[0]
        return f"{scheme}://{host}:{self.address[1]}"

    def another(self) -> socket.socket:
        """Return one more socket that is bound to the port; it takes connections once somebody listens."""
        return _bound(self.family, self.address, shared=True)

    def close(self) -> None:
        """Give the port back."""
        self.held.close()


def is_loopback(host: str) -> bool:
    """Return whether an address, without a name, is one of this machine alone."""
    return ipaddress.ip_address(host.partition("%")[0]).is_loopback


def resolved(host: str, port: int) -> tuple[socket.AddressFamily, tuple[str | int, ...]]:
    """Return the family and the first address of a host."""
    if not 0 <= port < 1 << 16:
        raise InputError(f"--port is {port}: 0 to 65535 is wanted, 0 takes a free one")
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        raise InputError(f"--host {host!r} is no address of this machine: {error.strerror or error}") from None
    family, _, _, _, address = found[0]
    return family, tuple(part for part in address if isinstance(part, str | int))


def hold(host: str, port: int) -> Port:
    """Return the port, held for the workers; port 0 takes a free one."""
    family, address = resolved(host, port)
    # one that shares the port with nobody: sockets that share it would be let in beside those of another server
    alone = _bound(family, address, shared=False)
    address = (address[0], alone.getsockname()[1], *address[2:])
    alone.close()
    return Port(family, address, _bound(family, address, shared=True))


def _bound(family: socket.AddressFamily, address: tuple[str | int, ...], *, shared: bool) -> socket.socket:
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shared:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if family == socket.AF_INET6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, int(address[0] != "::"))
        made.bind(address)
        made.setblocking(False)
    except OSError as error:
        made.close()
        raise InputError(
            f"port {address[1]} of {address[0]} cannot be had: {error.strerror or error}; choose another one, or 0 for "
            "any that is free"
        ) from None
    return made
