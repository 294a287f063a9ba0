"""Servers that answer the same bytes to everything: ``python -m bench.serve.empty bare|framework BYTES``."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import uvloop
from litestar import Litestar, get
from litestar.response.base import ASGIResponse
from uvicorn.config import Config
from uvicorn.server import Server

from dtoss.serve.answers.responses import Ready


def headers(length: int) -> list[tuple[bytes, bytes]]:
    """Return the headers that answers to questions have."""
    return [
        (b"content-type", b"application/json"),
        (b"content-length", b"%d" % length),
        (b"etag", b'"20260101T000000.000000Z-00000000"'),
        (b"x-dtoss-snapshot", b"20260101T000000.000000Z"),
        (b"cache-control", b"no-cache"),
        (b"vary", b"accept"),
        (b"x-request-id", b"000000-0"),
    ]


def application(kind: str, length: int) -> Any:
    """Return bare ASGI or the framework with one route for everything."""
    body, sent = b"x" * length, headers(length)

    async def bare(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": sent})
        await send({"type": "http.response.body", "body": body})

    @get(["/", "/knn"])
    async def empty() -> ASGIResponse:
        return Ready(body, sent)

    return bare if kind == "bare" else Litestar([empty], openapi_config=None, logging_config=None)


async def main(kind: str, length: int) -> None:
    """Answer until told to end."""
    config = Config(
        application(kind, length), port=0, access_log=False, log_level="warning", lifespan="off", server_header=False,
        ws="none", proxy_headers=False,
    )  # fmt: skip
    server = Server(config)
    running = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    print(f"listening on http://127.0.0.1:{port}", file=sys.stderr, flush=True)
    await running


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1], int(sys.argv[2])))
