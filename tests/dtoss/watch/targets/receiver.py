"""A web server on loopback that takes webhooks, or does what a test says instead, and keeps what it was sent."""

from __future__ import annotations

import base64
import json
import socketserver
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler

KEY = bytes(range(32))
SECRET = "whsec_" + base64.b64encode(KEY).decode()


@dataclass
class Receiver:
    """What was sent, and what is answered: each answer takes the handler; the last one stays."""

    port: int = 0
    answers: list = field(default_factory=lambda: [answer(200)])
    got: list = field(default_factory=list)  # The headers, in small letters, and the body of each request
    connections: int = 0

    @property
    def url(self):
        """Where it is asked."""
        return f"http://127.0.0.1:{self.port}/hook?x=1"

    @property
    def told(self):
        """The ids of the events of each request."""
        return [[one["id"] for one in json.loads(body)["data"]] for _, body in self.got]


def answer(status, body=b"", **headers):
    """An answer, whole."""

    def give(handler):
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    return give


def raw(data):
    """Bytes in place of an answer, and the end of the connection."""

    def give(handler):
        handler.wfile.write(data)
        handler.close_connection = True

    return give


@contextmanager
def receiving(*answers, tls=None):
    """A receiver, as long as the ``with`` lasts."""
    receiver = Receiver()
    if answers:
        receiver.answers = list(answers)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def setup(self):
            receiver.connections += 1
            super().setup()

        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            receiver.got.append(({name.lower(): value for name, value in self.headers.items()}, body))
            give = receiver.answers.pop(0) if len(receiver.answers) > 1 else receiver.answers[0]
            give(self)

        def log_message(self, *_):
            pass

    class Server(socketserver.ThreadingTCPServer):
        allow_reuse_address = daemon_threads = True

        def handle_error(self, *_):
            pass

    with Server(("127.0.0.1", 0), Handler) as server:
        receiver.port = server.server_address[1]
        if tls is not None:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, args=[0.01])
        thread.start()
        try:
            yield receiver
        finally:
            server.shutdown()
            thread.join()
