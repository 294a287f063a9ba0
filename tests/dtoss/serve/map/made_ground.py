"""PMTiles files that tests make: a writer of a few lines, pictures of one colour, and a made-up ground of a city."""

from __future__ import annotations

import gzip
import json
import struct
import zlib
from functools import partial

import mapbox_vector_tile
import numpy as np

from dtoss.serve.map.pmtiles import tile_number

MVT, PNG = 1, 2
PLAIN, GZIP = 1, 2
BAY = (-122.60, 37.65, -122.30, 37.90)
CREDIT = 'Made up. &copy; <a href="https://example.org/data">nobody</a><script>document.title=1</script>'
COAST = [
    (-122.60, 37.60), (-122.515, 37.60), (-122.505, 37.70), (-122.515, 37.785), (-122.487, 37.790), (-122.475, 37.810),
    (-122.445, 37.806), (-122.410, 37.809), (-122.390, 37.793), (-122.387, 37.770), (-122.375, 37.745),
    (-122.372, 37.725), (-122.392, 37.707), (-122.385, 37.690), (-122.375, 37.660), (-122.36, 37.60),
]  # fmt: skip
PARK = [(-122.511, 37.771), (-122.454, 37.774), (-122.454, 37.766), (-122.511, 37.764)]


def number(value):
    """A whole number as a varint."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def directory(entries):
    """A directory of (first tile, run, length, offset), which are in order."""
    ids = np.diff([0, *(one[0] for one in entries)]).tolist() if entries else []
    columns = [ids, *([one[i] for one in entries] for i in (1, 2)), [one[3] + 1 for one in entries]]
    return number(len(entries)) + b"".join(number(value) for column in columns for value in column)


def archive(tiles, kind=MVT, *, zipped=True, metadata=None, bounds=(-180.0, -85.0, 180.0, 85.0), leaf=None, **more):
    """The bytes of a PMTiles file of tiles by (z, x, y); `leaf` entries stand in a directory below the root."""
    pack = partial(gzip.compress, mtime=0) if zipped else bytes
    found, data, entries = {}, b"", []
    for first, body in sorted((tile_number(*place), body) for place, body in tiles.items()):
        body = pack(body) if kind == MVT else body
        if body not in found:
            found[body] = len(data)
            data += body
        entries.append((first, 1, len(body), found[body]))
    leaves, root = b"", entries
    if leaf is not None:
        root = []
        for at in range(0, len(entries), leaf):
            some = pack(directory(entries[at : at + leaf]))
            root.append((entries[at][0], 0, len(some), len(leaves)))
            leaves += some
    said = metadata if isinstance(metadata, bytes) else pack(json.dumps(metadata or {}).encode())
    zooms = [place[0] for place in tiles] or [0]
    parts = {"root": pack(directory(root)), "metadata": said, "leaves": leaves, "data": data} | more
    return header(parts, kind, zipped, (min(zooms), max(zooms)), bounds) + b"".join(parts.values())


def header(parts, kind=MVT, zipped=True, zooms=(0, 0), bounds=(-180.0, -85.0, 180.0, 85.0)):
    """The header of a file whose parts follow it."""
    sections, at = [], 127
    for part in parts.values():
        sections += [at, len(part)]
        at += len(part)
    inner = GZIP if zipped else PLAIN
    sides = [round(side * 1e7) for side in bounds]
    fixed = (1, inner, inner if kind == MVT else PLAIN, kind, *zooms, *sides, zooms[0], 0, 0)
    return struct.pack("<7sB11Q6B4iB2i", b"PMTiles", 3, *sections, 0, 0, 0, *fixed)


def picture(colour, side=8):
    """A PNG of one colour, red, green, blue."""

    def chunk(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    rows = (b"\0" + bytes(colour) * side) * side
    about = struct.pack(">2I5B", side, side, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", about) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def vector_tile(layers):
    """A vector tile of (name, [(WKT, properties)]) in units of 4096 a side, from the lower left."""
    told = [
        {"name": name, "features": [{"geometry": shape, "properties": of} for shape, of in shapes]}
        for name, shapes in layers
    ]
    return mapbox_vector_tile.encode(told)


def city(zooms=range(8, 15)):
    """The tiles of a made-up ground of San Francisco as Protomaps calls its layers, by (z, x, y)."""
    import shapely

    coast, park = shapely.Polygon(COAST), shapely.Polygon(PARK)
    roads = [(shapely.LineString([(-122.47, 37.6), (-122.40, 37.75), (-122.39, 37.79)]), {"kind": "highway"})]
    for i in range(60):
        kind, lon, lat = "major_road" if i % 6 == 0 else "minor_road", -122.52 + i * 0.0025, 37.70 + i * 0.0021
        avenue = shapely.LineString([(lon, 37.6), (lon + 0.01, 37.82)])
        street = shapely.LineString([(-122.53, lat), (-122.36, lat + 0.004)])
        for road, name in ((avenue, f"Avenue {i + 1}"), (street, f"Street {i + 1}")):
            roads.append((road.intersection(coast.difference(park)), {"kind": kind, "name": name}))
    places = [((-122.42, 37.773), "San Francisco", "city"), ((-122.48, 37.755), "Sunset", "neighbourhood"),
              ((-122.415, 37.759), "Mission", "neighbourhood"), ((-122.45, 37.692), "Daly City", "town")]  # fmt: skip
    layers = [
        ("water", [(shapely.box(*BAY).difference(coast), {"kind": "ocean"})]),
        ("landuse", [(park, {"kind": "park"})]),
        ("roads", roads),
        ("places", [(shapely.Point(at), {"name": name, "kind": kind}) for at, name, kind in places]),
    ]
    found = {}
    for z in zooms:
        (west, south), (east, north) = (np.floor(tile_of(z, *corner)).astype(int) for corner in (BAY[:2], BAY[2:]))
        flat = [(name, [(_flat(shape, z), of) for shape, of in shapes]) for name, shapes in layers]
        for x, y in ((x, y) for x in range(west, east + 1) for y in range(north, south + 1)):
            around = shapely.box(x - 0.02, y - 0.02, x + 1.02, y + 1.02)
            cut = [
                (name, [(part, of) for one, of in shapes for part in shapely.get_parts(one.intersection(around))])
                for name, shapes in flat
            ]
            found[z, x, y] = vector_tile([
                (name, [(shapely.transform(part, lambda at, x=x, y=y: (at - [x, y + 1]) * [4096, -4096]), of)
                        for part, of in shapes if not part.is_empty])
                for name, shapes in cut
            ])  # fmt: skip
    return found


def _flat(shape, z):
    """A shape of degrees in tiles of a zoom."""
    import shapely

    return shapely.transform(shape, lambda lonlat: np.stack(tile_of(z, *lonlat.T), axis=1))


def tile_of(z, lon, lat):
    """Where a place lies among the tiles of a zoom, from the north-west."""
    y = 0.5 - np.arcsinh(np.tan(np.radians(lat))) / (2 * np.pi)
    return (lon / 360 + 0.5) * 2**z, y * 2**z
