"""The pages for people: the map at ``/``, what can be asked at ``/docs``, and their files below ``/static/``."""

from __future__ import annotations

from typing import Annotated

from litestar import get
from litestar.handlers import HTTPRouteHandler
from litestar.params import PathParameter
from litestar.response.base import ASGIResponse

from dtoss.serve.answers.responses import Asker, Ready
from dtoss.serve.core.problems import Problem
from dtoss.serve.map.static_files import StaticFile, load_static_files, policies_of, takes_gzip
from dtoss.serve.routes.schemas import sent_as
from dtoss.serve.state.worker_state import WorkerState

FILE = sent_as("text/html", "The file.", text=True) | {
    304: {"description": "The file that the browser has is still right."}
}


def handlers(state: WorkerState) -> list[HTTPRouteHandler]:
    """Return the routes of pages and their files, which need no token: they hold nothing of the store."""
    kept, basemap = load_static_files(), state.showing.files.basemap
    policies = policies_of(None if basemap is None else basemap.origin)

    @get("/", opt={"responses": FILE})
    async def page(request: Asker) -> ASGIResponse:
        """Return the map, a page for people."""
        return sent(request, kept["index.html"], policies)

    @get("/docs", opt={"responses": FILE})
    async def docs(request: Asker) -> ASGIResponse:
        """Return what can be asked, as a page for people."""
        return sent(request, kept["docs.html"], policies_of())

    @get("/static/{path:path}", opt={"responses": FILE})
    async def static(
        request: Asker, path: Annotated[str, PathParameter(description="Of a file of the pages, such as map.js.")]
    ) -> ASGIResponse:
        """Return a file of the pages."""
        if (file := kept.get(path.removeprefix("/"))) is None:
            raise Problem(404, f"there is no file {path.removeprefix('/')[:200]!r} of the pages")
        return sent(request, file, policies)

    return [page, docs, static]


def sent(request: Asker, file: StaticFile, policies: list[tuple[bytes, bytes]]) -> Ready:
    """Return a file as an answer under policies, or that the browser's own is still right."""
    headers = [*file.headers, *policies, (b"etag", file.tag), (b"vary", b"accept-encoding")]
    known = request.headers.get("if-none-match", "")
    if file.tag.decode() in (one.strip().removeprefix("W/") for one in known.split(",")):
        return Ready(b"", [header for header in headers if header[0] != b"content-type"], 304)
    zipped = takes_gzip(request.headers.get("accept-encoding", ""))
    body = file.zipped if zipped else file.body
    if zipped:
        headers.append((b"content-encoding", b"gzip"))
    return Ready(body, [*headers, (b"content-length", b"%d" % len(body))])
