"""Arrow streams as clients send them, and as nobody should."""

import struct

import numpy as np
import pyarrow as pa

ARROW = "application/vnd.apache.arrow.stream"


def stream_of(table, rows=None, **options):
    """Return a table as a stream, so many rows a batch."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(table, max_chunksize=rows)
    return sink.getvalue().to_pybytes()


def table_in(body):
    """Return the table in a stream, checked."""
    table = pa.ipc.open_stream(body).read_all()
    table.validate(full=True)
    return table


def places_of(positions, names=("lon", "lat"), **more):
    """Return positions as a table of two columns."""
    columns = {name: positions[:, i] for i, name in enumerate(names)}
    return pa.table(columns | more)


def broken(stream, rng):
    """Return a stream with some things changed: bytes, whole numbers, pieces cut out, put twice or in another order."""
    body = bytearray(stream)
    for _ in range(int(rng.choice([1, 1, 1, 2, 4]))):
        at = int(rng.integers(0, max(len(body), 1)))
        kind = int(rng.choice([0, 0, 0, 1, 1, 2, 2, 3, 4, 5, 6]))
        if kind == 0 and body:
            body[min(at, len(body) - 1)] = int(rng.integers(0, 256))
        elif kind == 1 and len(body) > 8:
            at = min(at, len(body) - 8) & ~3
            value = int(rng.choice([-1, 0, 1, 2**31 - 1, -(2**31), 2**30, 255, 65_535]))
            body[at : at + 4] = struct.pack("<i", value)
        elif kind == 2 and len(body) > 8:
            at = min(at, len(body) - 8) & ~7
            value = int(rng.choice([-1, 2**63 - 1, -(2**63), 2**40, 2**32, 7]))
            body[at : at + 8] = struct.pack("<q", value)
        elif kind == 3:
            del body[at:]
        elif kind == 4:
            del body[at : at + int(rng.integers(1, 64))]
        elif kind == 5:
            some = body[at : at + int(rng.integers(1, 200))]
            body[at:at] = some
        else:
            body[at:at] = bytes(rng.integers(0, 256, int(rng.integers(1, 16)), dtype=np.uint8))
    return bytes(body)


def seeds(rng):
    """Return streams that are mutated: some that are read, some that are refused."""
    n = 40
    lon, lat = rng.uniform(-180, 180, n), rng.uniform(-90, 90, n)
    plain = pa.table({"lon": lon, "lat": lat, "radius": np.abs(lat)})
    whole = pa.table({"lon": lon.astype(np.int32), "lat": lat.astype(np.int16)})
    return [
        stream_of(plain),
        stream_of(plain, 7),
        stream_of(whole, 13),
        stream_of(plain, compression="zstd"),
        stream_of(pa.table({"lon": pa.array(lon).dictionary_encode(), "lat": lat})),
        stream_of(pa.table({"lon": pa.array([[1.0]] * n), "lat": ["a"] * n})),
        stream_of(pa.table({"lon": pa.array([1.0, None] * (n // 2)), "lat": lat})),
    ]
