"""Requests that several servers answer: what each says of that, asked again of another snapshot, and what lacks."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs

from dtoss.serve.answers.open_snapshots import GIVEN, ClusterOptions
from dtoss.serve.auth.tokens import ADMITTED, EVERYBODY
from dtoss.serve.requests.front import App, Message, Receive, Scope, Send
from dtoss.serve.state.worker_state import WorkerState

PARTIAL = "partial"
"""The parameter that takes what the others have for an answer; routes of every server know it."""
OTHERS_HAVE = "dtoss.others_have"
"""Of a scope: the snapshots that a server has which has not the one that was asked for."""
MISSING_HEADER = b"x-dtoss-missing"
"""Numbers of the partitions that an answer lacks."""
GENERATION_SECONDS = 0.5
"""For which the next generation is waited for, where two servers have none in common."""
SNAPSHOTS_TRIED = 3
"""Snapshots that a request is answered from, one after another, until all servers have one."""


class AnsweredTogether:
    """Stands before the framework where a server holds a share only."""

    def __init__(self, state: WorkerState, app: App) -> None:
        self._state, self._app = state, app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        query = parse_qs(scope["query_string"].decode("latin-1"))
        given = ClusterOptions(partial=query.get(PARTIAL) == ["ok"], asker=scope.get(ADMITTED, EVERYBODY).name)
        read, least = _Read(receive), self._state.serving.now.seq
        for left in reversed(range(SNAPSHOTS_TRIED)):
            scope.pop(OTHERS_HAVE, None)
            given.missing.clear()
            token = GIVEN.set(given)
            sent = _Sent(scope, send, given, last=left == 0 or "snapshot" in query or "cursor" in query)
            try:
                await self._app(scope, read, sent)
            finally:
                GIVEN.reset(token)
            if not sent.dropped:
                return
            given.snapshot = await self._another(scope[OTHERS_HAVE], least)
            read.again()

    async def _another(self, snapshots: tuple[str, ...], least: int | None) -> str | None:
        """Return the newest snapshot that both have; None for the one that answers by then.

        Of generations it has the rows up to ``least``, which who asks may have seen, and none beyond what answers here.
        """
        serving = self._state.serving
        mine = {name: served.seq for name in serving.names() if (served := serving.open_one(name)) is not None}
        both = [name for name in sorted(snapshots, reverse=True) if name in mine]
        if least is None:
            return next(iter(both), None)
        last = serving.now.seq or least
        found = next((name for name in both if least <= (mine[name] or 0) <= last), None)
        if found is None:
            # one of the two is about to open what the other has
            await serving.reach(last + 1, GENERATION_SECONDS)
        return found


class _Read:
    """A request's body, which can be read again."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._kept: list[Message] = []
        self._at = 0

    async def __call__(self) -> Message:
        if self._at < len(self._kept):
            self._at += 1
            return self._kept[self._at - 1]
        message = await self._receive()
        if message["type"] == "http.request":
            self._kept.append(message)
            self._at += 1
        return message

    def again(self) -> None:
        """Begin at the beginning."""
        self._at = 0


class _Sent:
    """An answer on its way: held back where it will be given again, marked where it lacks something."""

    def __init__(self, scope: Scope, send: Send, given: ClusterOptions, last: bool) -> None:
        self._scope, self._send, self._given, self._last = scope, send, given, last
        self._start: Any = None
        self.dropped = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            if OTHERS_HAVE in self._scope and not self._last:
                self.dropped = True
            elif self._given.missing:
                self._start = message
            else:
                await self._send(message)
        elif not self.dropped:
            if self._start is not None:
                message = await self._marked(message)
            await self._send(message)

    async def _marked(self, message: Message) -> Message:
        """Send the beginning, and return the first piece of the body: both say what the answer lacks."""
        start, self._start = self._start, None
        missing = ",".join(map(str, sorted(self._given.missing))).encode()
        body = message.get("body", b"")
        headers = dict(start["headers"])
        if headers.get(b"content-type", b"").startswith(b"application/json") and body.startswith(b"{"):
            said = b'{"missing":[%b],' % missing
            message = {**message, "body": said + body[1:]}
            if b"content-length" in headers:
                headers[b"content-length"] = b"%d" % (int(headers[b"content-length"]) + len(said) - 1)
        headers.pop(b"etag", None)
        await self._send({**start, "headers": [*headers.items(), (MISSING_HEADER, missing)]})
        return message
