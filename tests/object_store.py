"""An object store on a loopback port, for tests: moto's server in a process of its own."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.request
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from urllib.error import URLError

from pyarrow import fs

KEYS = {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing", "AWS_REGION": "us-east-1"}
SERVE = """
import sys
from moto.moto_server.werkzeug_app import create_backend_app
from werkzeug.serving import run_simple
run_simple("127.0.0.1", int(sys.argv[1]), create_backend_app("s3"), threaded=True)
"""
"""S3 alone: moto's own server looks for the service of each request among all that it knows, half of its time."""


@dataclass(frozen=True)
class ObjectStore:
    """A server with one bucket, ``dtoss``."""

    port: int

    def uri(self, path: str | None = None, *, keys: bool = False) -> str:
        """Return the URI of a folder in the bucket; of one of its own where no name is given.

        With ``keys`` it holds them, for processes that do not have the environment of this one.
        """
        who = "testing:testing@" if keys else ""
        return f"s3://{who}dtoss/{path or uuid.uuid4().hex}?endpoint_override=127.0.0.1:{self.port}&scheme=http"


@contextmanager
def object_store() -> Iterator[ObjectStore]:
    """Start a server, and end it; its keys are in the environment meanwhile."""
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    process = subprocess.Popen(
        [sys.executable, "-c", SERVE, str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    before = {name: os.environ.get(name) for name in KEYS}
    os.environ.update(KEYS)
    try:
        ends = time.monotonic() + 120.0
        while True:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=5).close()
                break
            except (URLError, OSError):
                assert process.poll() is None, "the object store has ended"
                assert time.monotonic() < ends, "the object store does not answer"
                time.sleep(0.05)
        files = fs.S3FileSystem(endpoint_override=f"127.0.0.1:{port}", scheme="http", allow_bucket_creation=True)
        files.create_dir("dtoss")
        yield ObjectStore(port)
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value
        process.terminate()
        process.wait(60)
