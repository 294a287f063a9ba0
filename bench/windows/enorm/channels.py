"""Connections: first in, first out; pickled between components and nodes, by reference inside of one."""

from __future__ import annotations

import pickle
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from bench.windows.enorm.placing import Configuration


@dataclass(frozen=True)
class Timestamp:
    """A punctuation: no row of an earlier time comes any more."""

    time: int


@dataclass(frozen=True)
class Modification:
    """A punctuation: from here on another configuration counts."""

    after: Configuration
    how: str


@dataclass(frozen=True)
class Moved:
    """State of an operator from another node, as bytes."""

    states: bytes


Carry = Callable[[bytes], bytes]
Message = Any
"""A row, which is a tuple, or one of the above."""


class Receiver(Protocol):
    """What is at the end of a connection."""

    def receive(self, channel: Channel, message: Message) -> None:
        """Handle a message."""


class Channel:
    """A connection from a node's operator to another one's.

    Parameters
    ----------
    receiver, node : what is at its end, and where.
    ready : channels with messages, which the run goes through.
    carry : what brings the bytes of a row to another component; None where rows go as they are.
    """

    __slots__ = ("blocked", "carry", "listed", "messages", "node", "ready", "receiver", "sent", "time")

    def __init__(self, receiver: Receiver, node: int, ready: list[Channel], carry: Carry | None) -> None:
        self.receiver, self.node, self.ready, self.carry = receiver, node, ready, carry
        self.messages: deque[Message] = deque()
        self.blocked = self.listed = False
        self.sent = 0
        """Rows that went through it as another component's."""
        self.time = -(1 << 60)
        """Of the last timestamp that was received."""

    def put(self, message: Message, near: bool = False) -> None:
        """Send a message; ``near`` inside of a component, where it is handled at once unless others wait."""
        if near:
            if not self.blocked and not self.messages:
                self.receiver.receive(self, message)
                return
            self.messages.append(message)
        elif type(message) is tuple:
            self.sent += 1
            self.messages.append(message if self.carry is None else self.carry(pickle.dumps(message, -1)))
        else:
            self.messages.append(message)
        self.list()

    def list(self) -> None:
        """Be among those that are ready, if there is anything."""
        if self.messages and not self.blocked and not self.listed:
            self.listed = True
            self.ready.append(self)

    def handle(self, most: int) -> None:
        """Hand over messages, until it is blocked or as many are."""
        while most and self.messages and not self.blocked:
            message = self.messages.popleft()
            if type(message) is bytes:
                message = pickle.loads(message)
            self.receiver.receive(self, message)
            most -= 1

    def block(self) -> None:
        """Hand over nothing more."""
        self.blocked = True

    def unblock(self) -> None:
        """Hand over again, when its turn comes."""
        self.blocked = False
        self.list()
