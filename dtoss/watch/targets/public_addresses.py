"""Addresses that a webhook may go to: a name may lead anywhere, so that each address of it is judged."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Any

Address = IPv4Address | IPv6Address
Found = tuple[int, Any]
"""The family of an address, and the address as a socket wants it."""
Resolve = Callable[..., list[Any]]
"""As ``socket.getaddrinfo``."""

PRIVATE = tuple(
    ip_network(text)
    for text in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "127.0.0.0/8", "::1/128", "fc00::/7")
)
"""Where an operator may let a webhook go."""
_SITE_LOCAL = ip_network("fec0::/10")
"""What IPv6 had before fc00::/7; Python takes it for public."""
_TRANSLATED = (ip_network("64:ff9b::/96"), ip_network("64:ff9b:1::/48"))
"""Addresses of IPv6 that lead to the one of IPv4 in their last 32 bits (RFC 6052, RFC 8215)."""


class Forbidden(Exception):
    """No address of a host may be asked."""


def open_addresses(host: str, port: int, private: bool, resolve: Resolve = socket.getaddrinfo) -> list[Found]:
    """Return the addresses of a host that may be asked, as it is looked up now.

    ``private``: whether they may be of :data:`PRIVATE`. What cannot be looked up is an OSError.
    """
    found = [(family, where) for family, _, _, _, where in resolve(host, port, type=socket.SOCK_STREAM)]
    good = [one for one in found if why_not(one[1][0], private) is None]
    if not good:
        why = next(filter(None, (why_not(where[0], private) for _, where in found)), "it has no address")
        raise Forbidden(why)
    return good


def why_not(text: str, private: bool) -> str | None:
    """Return why an address may not be asked; None where it may."""
    for address in _destinations(ip_address(text)):
        if any(address in network for network in PRIVATE):
            if not private:
                return f"its address {text} is private: --allow-host lets it"
        elif (
            address.is_link_local
            or address.is_multicast
            or address.is_reserved
            or not address.is_global
            or address in _SITE_LOCAL
        ):
            return f"its address {text} is none that is ever asked: link-local, multicast or reserved"
    return None


def _destinations(address: Address) -> Iterator[Address]:
    """Yield the addresses that an address leads to: itself, unless it is one of IPv4 in other clothes."""
    if isinstance(address, IPv4Address):
        yield address
        return
    inner = [address.ipv4_mapped, address.sixtofour, *(address.teredo or ())]
    if any(address in network for network in _TRANSLATED):
        inner.append(IPv4Address(int(address) & 0xFFFFFFFF))
    clothed = [one for one in inner if one is not None]
    yield from clothed or [address]
