"""The pages for people: the map at ``/``, what can be asked at ``/docs``, and their files below ``/static/``.

The report of the plan in force: files of the folder that ``--report`` names, at ``/report/``.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Annotated

from litestar import get, post
from litestar.handlers import HTTPRouteHandler
from litestar.params import PathParameter
from litestar.response.base import ASGIResponse

from dtoss.serve.answers.json_out import JSON_TYPE
from dtoss.serve.answers.responses import Asker, Ready
from dtoss.serve.auth.tokens import COOKIE, PASS_SECONDS, write_pass
from dtoss.serve.core.problems import Problem
from dtoss.serve.map.map_files import REPORT
from dtoss.serve.map.static_files import (
    CONTENT_TYPES,
    SAFE,
    StaticFile,
    ending,
    load_static_files,
    policies_of,
    takes_gzip,
)
from dtoss.serve.routes.schemas import NATURAL, fields, responses, sent_as
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

    return [page, docs, static, *report_handlers(state)]


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


REPORT_POLICY = (
    b"default-src 'none'; style-src 'unsafe-inline'; img-src data:; "
    b"frame-ancestors 'none'; base-uri 'none'; form-action 'none'; sandbox"
)
"""The page of a report is one file with its style inside and no script: it may load and run nothing."""
LARGEST_FILE = 64_000_000
"""Bytes of a file of a report."""
PASS = responses(fields("Pass", seconds={**NATURAL, "description": "For which a cookie opens the report."}), kept=False)


def report_handlers(state: WorkerState) -> list[HTTPRouteHandler]:
    """Return the routes of the report; none without ``--report``."""
    if state.settings.report is None:
        return []
    folder = Path(state.settings.report)
    secure = b"" if state.settings.tls_cert is None else b"; Secure"

    @get(["/report", "/report/{name:path}"], opt={"responses": FILE})
    async def report(
        request: Asker,
        name: Annotated[str, PathParameter(description="Of a file of the report; its page if empty.")] = "",
    ) -> ASGIResponse:
        """Return the report of the plan in force, or one of its files."""
        wanted = name.strip("/") or REPORT
        body = await state.pool.run(request, lambda stop: file_of(folder, wanted))
        if body is None:
            raise Problem(404, f"the report has no file {wanted[:200]!r}")
        headers = [(b"content-type", CONTENT_TYPES[ending(wanted)]), (b"cache-control", b"no-cache"), *SAFE]
        return Ready(
            body, [*headers, (b"content-security-policy", REPORT_POLICY), (b"content-length", b"%d" % len(body))]
        )

    @post("/report/pass", opt={"responses": PASS}, status_code=200)
    async def letting(request: Asker) -> ASGIResponse:
        """Let the browser that has sent a token read the report, where it sends none, for an hour."""
        host = request.headers.get("host", "").encode("latin-1")
        given = write_pass(host, state.doors.mark)
        cookie = f"{COOKIE}={given}; Max-Age={PASS_SECONDS}; Path=/report; HttpOnly; SameSite=Strict"
        body = b'{"seconds":%d}' % PASS_SECONDS
        headers = [
            (b"content-type", JSON_TYPE),
            (b"content-length", b"%d" % len(body)),
            (b"cache-control", b"no-store"),
        ]
        return Ready(body, [*headers, (b"set-cookie", cookie.encode() + secure)])

    return [report, letting]


def file_of(folder: Path, name: str) -> bytes | None:
    """Return the bytes of a file that lies in a folder itself; None if there is none that may be sent."""
    if "/" in name or "\\" in name or "\0" in name or name.startswith(".") or ending(name) not in CONTENT_TYPES:
        return None
    path = folder / name
    with suppress(OSError):
        # a link may lead to a file of the folder, and to no other
        inside = path.resolve().parent == folder.resolve()
        if inside and path.is_file() and path.stat().st_size <= LARGEST_FILE:
            return path.read_bytes()
    return None
