"""A server of a few lines that answers from an index in process, as the wire is agreed upon."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from urllib.parse import parse_qsl, unquote, urlsplit

import numpy as np
import pyarrow as pa

ARROW = "application/vnd.apache.arrow.stream"


class Wrong(Exception):
    pass


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1

    def log_message(self, *args):
        pass

    def do_GET(self):
        self.answer(b"")

    def do_POST(self):
        self.answer(self.rfile.read(int(self.headers["Content-Length"])))

    def problem(self, status, detail, **more):
        body = json.dumps({"status": status, "detail": detail, **more}).encode()
        self.send(status, "application/problem+json", body)

    def send(self, status, kind, body):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("X-Dtoss-Snapshot", self.server.town.now)
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()

    def answer(self, body):
        town = self.server.town
        town.requests.append((threading.get_ident(), self.command, self.path, dict(self.headers)))
        if town.before:
            town.before(self)
        parts = urlsplit(self.path)
        asked = dict(parse_qsl(parts.query))
        name = asked.pop("snapshot", None) or town.now
        if name not in town.indexes:
            return self.problem(410, f"snapshot {name!r} is not open any more")
        index = town.indexes[name]
        try:
            self.ask(index, name, parts.path, asked, body)
        except ValueError as error:
            self.problem(400, str(error))
        except KeyError as error:
            self.problem(404, str(error))
        except Wrong as error:
            self.problem(413, error.args[0], **error.args[1])

    def ask(self, index, name, path, asked, body):
        space = index.space
        names = ("lon", "lat") if space.geographic else ("x", "y")
        common = {key: asked[key] for key in ("where", "having") if key in asked}
        if "columns" in asked:
            common["columns"] = asked["columns"].split(",")
        places = radius = None
        if body and self.headers["Content-Type"] == ARROW:
            table = pa.ipc.open_stream(body).read_all()
            places = np.stack([table[n].to_numpy() for n in names], axis=1)
            radius = table["radius"].to_numpy() if "radius" in table.column_names else None
            if len(places) > self.server.town.most:
                raise Wrong("too many", {"limit": "bulk_queries", "value": len(places), "bound": self.server.town.most})
        if path == "/snapshot":
            told = {
                "snapshot": name, "objects": len(index), "sites": index.sites, "partitions": len(index.parts),
                "crs": index.crs, "metric": space.metric, "bounds": index.bounds,
                "id_type": "string" if index.string_ids else "int64",
                "columns": {n: str(c.type) for n, c in index.parts[0].attributes.items()}, "version": "0",
            }  # fmt: skip
            return self.send(200, "application/json", json.dumps(told).encode())
        if path.startswith("/objects/"):
            text = unquote(path.removeprefix("/objects/"))
            key = text if index.string_ids else int(text)
            found = index[key]
            if self.headers["Accept"] == ARROW:
                columns = {n: [found[n]] for n in ("id", *names)}
                place = index.place_of(key)
                columns |= {n: c.slice(place.item, 1) for n, c in place.partition.attributes.items()}
                return self.stream(name, columns)
            told = {"neighbours": index.neighbours(key).tolist()}
            if "cell" in asked:
                corners = index.cell(key).tolist()
                told["cell"] = {"type": "Polygon", "coordinates": [[*corners, corners[0]]] if corners else []}
                told["area"] = index.area(key)
            return self.send(200, "application/json", json.dumps(told).encode())
        if self.command == "GET" and path == "/knn":
            far = float(asked["max_distance"]) if "max_distance" in asked else None
            hits = index.knn([float(asked[n]) for n in names], int(asked["k"]), max_distance=far)
            told = [{"id": i, "distance": d} for _, i, d in hits]
            return self.send(200, "application/json", json.dumps({"hits": told}).encode())
        if path == "/knn":
            far = float(asked["max_distance"]) if "max_distance" in asked else radius
            return self.hits(name, index.knn(places, int(asked.get("k", 8)), max_distance=far, **common), len(places))
        if path == "/range":
            count = int(index.count(places, radius, where=asked.get("where")).sum())
            if count > self.server.town.hits:
                raise Wrong("too many hits", {"limit": "hits", "value": count, "bound": self.server.town.hits})
            return self.hits(name, index.range(places, radius, **common), len(places))
        if path == "/reverse_nearest":
            return self.hits(name, index.reverse_nearest(places), len(places))
        if path == "/count":
            return self.stream(name, {"count": index.count(places, radius, **common)})
        if path == "/locate":
            return self.stream(name, {"id": index.locate(places)})
        if path not in ("/box", "/within"):
            raise KeyError(path)
        document = json.loads(body)
        shapes = document["boxes"] if path == "/box" else [document]
        if "count" in asked:
            ask = index.count_box if path == "/box" else index.count_within
            return self.stream(name, {"count": ask(shapes, **common)})
        return self.hits(name, (index.box if path == "/box" else index.within)(shapes, **common), len(shapes))

    def hits(self, name, hits, queries):
        per = np.bincount(hits.query, minlength=queries)
        every = int(per[0]) if queries and (per == per[0]).all() and self.server.town.every else None
        columns = {} if every is not None else {"query": hits.query}
        ids = pa.array(hits.id, pa.large_string() if hits.id.dtype == object else pa.int64())
        columns |= {"id": ids, "distance": hits.distance, **hits.columns}
        self.stream(name, columns, every)

    def stream(self, name, columns, every=None):
        arrays = {n: c if isinstance(c, pa.Array) else pa.array(c) for n, c in columns.items()}
        table = pa.table(arrays)
        table = table.replace_schema_metadata({"snapshot": name} | ({} if every is None else {"every": str(every)}))
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as stream:
            stream.write_table(table, max_chunksize=1000)
        self.send(200, ARROW, sink.getvalue().to_pybytes())


@contextmanager
def answering(index, name="a", *, port=0):
    """A server's URL and what it does, with an index open."""
    town = SimpleNamespace(
        indexes={name: index}, now=name, requests=[], before=None, most=100_000, hits=1_000_000, every=True
    )

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 128

    server = Server(("127.0.0.1", port), Handler)
    server.town = town
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    town.url = f"http://127.0.0.1:{server.server_port}"
    town.port = server.server_port
    try:
        yield town
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
