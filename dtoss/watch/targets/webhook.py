"""Events as POST requests to a web server at a public address, signed as Standard Webhooks 1.0 has it."""

from __future__ import annotations

import base64
import binascii
import hmac
import http.client
import select
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from hashlib import sha256
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dtoss.client.endpoint import Access, Place, printable
from dtoss.client.http_connections import SAID, Later, seconds_asked
from dtoss.errors import InputError
from dtoss.watch.events.event_lines import Lines, json_values
from dtoss.watch.events.readers import Cursor
from dtoss.watch.targets.target import USUAL_BATCH, Batch, Refused

GONE_STATUS = 410
SECRET_PREFIX = "whsec_"
KEY_BYTES = (24, 64)
"""Of a secret, at least and at most."""
MOST_SECRETS = 8
_BUSY = (408, 425, 429)
"""Answers beside 5xx after which the same is sent again."""


def keys_of(secret: str | None) -> tuple[bytes, ...]:
    """Return the keys that lines say; no message shows one."""
    lines = [line.strip() for line in (secret or "").splitlines() if line.strip()]
    keys = []
    for number, line in enumerate(lines, 1):
        try:
            key = base64.b64decode(line.removeprefix(SECRET_PREFIX), validate=True)
        except (binascii.Error, ValueError):
            key = b""
        if not line.startswith(SECRET_PREFIX) or not KEY_BYTES[0] <= len(key) <= KEY_BYTES[1]:
            raise InputError(f"line {number} of the secret is not {SECRET_PREFIX} and 24 to 64 bytes in base64")
        keys.append(key)
    if not 1 <= len(keys) <= MOST_SECRETS:
        raise InputError(
            f"a webhook is signed: --secret-file FILE has a line, {MOST_SECRETS} at most, of {SECRET_PREFIX} and 24 to "
            "64 bytes in base64"
        )
    return tuple(keys)


def signatures(keys: Sequence[bytes], name: str, seconds: int, body: bytes) -> str:
    """Return what the header ``webhook-signature`` says; ``name``: of the message, without a dot."""
    signed = b"%b.%d.%b" % (name.encode(), seconds, body)
    made = (base64.b64encode(hmac.digest(key, signed, sha256)).decode() for key in keys)
    return " ".join(f"v1,{one}" for one in made)


def body_of(lines: Lines) -> bytes:
    """Return the document of a batch: it depends on its events alone."""
    events = b"".join(lines.pieces).removesuffix(b"\n").replace(b"\n", b",\n")
    return b'{"type":"dtoss.events","timestamp":%b,"data":[\n%b\n]}\n' % (_latest(lines).encode(), events)


def _latest(lines: Lines) -> str:
    """Return the latest time of events as JSON; null where none has any."""
    times = [latest for table in lines.tables if (latest := pc.max(table.column("t"))).is_valid]
    if not times:
        return "null"
    latest = max(times, key=lambda one: one.as_py()).cast(pa.timestamp("us", "UTC"))
    text: str = json_values(pa.repeat(latest, 1))[0].as_py()
    return text


class Webhook:
    """A web server that takes batches.

    ``resolve``: what looks a name up; ``wall``: the time, in seconds since 1970; ``tls``: whom it trusts; those whom
    this machine does when None.
    """

    batch = USUAL_BATCH

    def __init__(
        self,
        place: Place,
        access: Access,
        resolve: Resolve = socket.getaddrinfo,
        wall: Callable[[], float] = time.time,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        if len(place.hosts) != 1 or place.user is not None:
            raise InputError(f"--to {place} is none: {place.scheme}://HOST/PATH is wanted, without a user")
        self._place, self._timeout = place, access.timeout
        self._port = place.port(443 if place.scheme == "https" else 80)
        self._private = place.host.lower().removesuffix(".") in access.allowed
        if place.scheme == "http" and not self._private:
            raise InputError(
                f"--to {place} would tell everybody on the way: https:// is wanted, or --allow-host {place.host} where "
                "the way is yours"
            )
        self._keys = keys_of(access.secret)
        self._resolve, self._wall = resolve, wall
        self._mark = ""
        self._link: http.client.HTTPConnection | None = None
        self._tls = (tls or ssl.create_default_context()) if place.scheme == "https" else None

    def __str__(self) -> str:
        return str(self._place)

    def begin(self, mark: str) -> Cursor | None:
        """Check where requests would go, if that is known already."""
        self._mark = mark
        try:
            self._addresses()
        except Forbidden as error:
            raise InputError(f"--to {self}: {error}") from None
        except OSError:  # whoever is away may come back
            return None
        return None

    def take(self, batch: Batch) -> None:
        """Send a batch, and return where the answer is good."""
        name, body, now = f"{self._mark}_{batch.name}", body_of(batch.lines), int(self._wall())
        headers = {
            "Host": str(self._place).partition("://")[2],
            "Content-Type": "application/json",
            "User-Agent": "dtoss",
            "webhook-id": name,
            "webhook-timestamp": str(now),
            "webhook-signature": signatures(self._keys, name, now, body),
        }
        status, after, said = self._ask(body, headers)
        if 200 <= status < 300:
            return
        why = f"answers {status}" + (f" ({said})" if said else "")
        if status == GONE_STATUS:
            raise InputError(f"{self} answers 410: it wants no more events; dtoss events --as NAME --forget ends it")
        if status in _BUSY or status >= 500:
            raise Later(why, seconds_asked(after, now))
        raise Refused(why)

    def close(self) -> None:
        """Close the connection."""
        held, self._link = self._link, None
        if held is not None:
            held.close()

    def _ask(self, body: bytes, headers: dict[str, str]) -> tuple[int, str, str]:
        """Send a request; return the status of its answer, when to come again, and how its text begins."""
        try:
            link = self._open_link()
            watch = threading.Timer(self._timeout, _hang_up, [link.sock])
            watch.daemon = True
            watch.start()
            try:
                return self._exchange(link, body, headers)
            finally:
                watch.cancel()
        except BaseException as error:
            self.close()
            if isinstance(error, Forbidden):
                raise Later(f"may not be asked: {error}") from None
            if isinstance(error, ssl.SSLCertVerificationError):
                raise Later(f"has a certificate that is not trusted ({error.verify_message})") from None
            if isinstance(error, (OSError, http.client.HTTPException)):
                raise Later(f"does not answer ({printable(str(error)) or type(error).__name__})") from None
            raise

    def _exchange(self, link: http.client.HTTPConnection, body: bytes, headers: dict[str, str]) -> tuple[int, str, str]:
        target = (self._place.path or "/") + (f"?{self._place.query}" if self._place.query else "")
        with suppress(BrokenPipeError, ConnectionResetError):  # it may refuse a body before it has read it, and say why
            link.request("POST", target, body, headers)
        answer = link.getresponse()
        found = answer.status, answer.headers.get("Retry-After", "")
        said = b""
        with suppress(OSError, http.client.HTTPException):  # what it has said of the batch counts, whatever follows
            said = answer.read(SAID)
        if not answer.isclosed() or answer.will_close:
            self.close()
        return *found, printable(said.decode("ascii", "replace")) if found[0] >= 300 else ""

    def _open_link(self) -> http.client.HTTPConnection:
        """Return a connection to an address that was judged; no name is looked up again."""
        if self._link is not None and self._link.sock is not None:
            if not select.select([self._link.sock], [], [], 0)[0]:
                return self._link
            self.close()  # the server has closed it, or says what nobody has asked
        link = http.client.HTTPConnection(self._place.host, self._port, timeout=self._timeout)
        link.auto_open = 0
        link.sock = self._connect()
        self._link = link
        return link

    def _connect(self) -> socket.socket:
        ends = time.monotonic() + self._timeout
        error: OSError = OSError("it has no address")
        for family, where in self._addresses():
            made = socket.socket(family, socket.SOCK_STREAM)
            try:
                made.settimeout(max(ends - time.monotonic(), 0.001))
                made.connect(where)
                made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                if self._tls is None:
                    return made
                return self._tls.wrap_socket(made, server_hostname=self._place.host)
            except OSError as failed:
                made.close()
                error = failed
        raise error

    def _addresses(self) -> list[tuple[int, Any]]:
        try:
            return open_addresses(self._place.host, self._port, self._private, self._resolve)
        except UnicodeError:
            raise OSError("its name is none") from None


def _hang_up(sock: socket.socket) -> None:
    """End whatever waits for a connection: an answer may come letter by letter, for ever."""
    with suppress(OSError):
        socket.socket.shutdown(sock, socket.SHUT_RDWR)  # that of TLS would change what the other thread uses


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
