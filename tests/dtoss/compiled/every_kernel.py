"""Fixed worlds, built and asked everything: what a process prints of them shows whether its compiled code is another.

Run as a script: one line of JSON with the processor that code was compiled for, the hash of each answer and each file,
and the kernels that were not used. With the name of a file that holds a pickled index, only what is named after it, of
:func:`a_few`.
With ``--small``, worlds of some dozen objects, for kernels that run as Python; those alone that are named after it.
"""

from __future__ import annotations

import hashlib
import json
import pickle
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa

import dtoss
from dtoss.buckets import hashes_of
from dtoss.cells.changed_cells import Before, changed_cells
from dtoss.cells.voronoi import voronoi
from dtoss.compiled.kernel import DECLARED
from dtoss.compiled.mode import CHECKED
from dtoss.export_files import write
from dtoss.geometry.distance import distance
from dtoss.geometry.hilbert import curve_keys, radix_order, take_rows
from dtoss.geometry.point_in_polygon import inside
from dtoss.geometry.polygons import as_polygons
from dtoss.partitioning.partition_bounds import reads_of, shares_that_suffice
from dtoss.queries.covered import shape_of
from dtoss.queries.find_by_id import Lookup
from dtoss.snapshots.partition_file import decode, encode, encode_border
from dtoss.snapshots.structure import Claims, check_partition
from dtoss.snapshots.xxh64 import xxh64

SMALL = 0.06
"""Of the objects of each world so many are left where kernels run as Python."""
POLYGON = [[-20.0, -15.0], [30.0, -12.0], [25.0, 40.0], [5.0, 10.0], [-18.0, 35.0]]


def worlds(share):
    """(name, positions, how to build them): the sphere with poles and a crowd, a line, and the plane."""
    rng = np.random.default_rng(0)
    crowd = np.array([10.0, 50.0]) + rng.uniform(-1e-5, 1e-5, (int(60 * share), 2))
    poles = [[0.0, 90.0], [0.0, -90.0], [180.0, 0.0], [-180.0, 0.0]]
    wide = rng.uniform([-180.0, -90.0], [180.0, 90.0], (int(700 * share), 2))
    yield "sphere", np.concatenate([wide, wide[: int(20 * share)], crowd, poles]), {"partitions": 5}
    lat = np.linspace(-60.0, 60.0, int(300 * share))
    line = np.stack([np.full(len(lat), 7.0), lat], axis=1)
    yield "line", line, {"partitions": 3}
    square = rng.uniform(-50.0, 50.0, (int(600 * share), 2)).round(1)
    yield "plane", square, {"partitions": 4, "crs": "none", "metric": "plane"}
    yield "few", wide[:3], {"partitions": 1}


def answers(index, asked):
    """Everything that an index answers about some places, a name at a time."""
    for k in (1, 8, 40):
        yield f"knn {k}", index.knn(asked, k)
    reach = 3e6 if index.space.dimension == 3 else 9.0
    yield "knn near", index.knn(asked, 8, max_distance=reach)
    for row, place in enumerate(asked[::5]):
        yield f"knn of one {row}", index.knn(place, 1 + 7 * (row % 2))
        yield f"range of one {row}", index.range(place, reach)
    yield "knn where", index.knn(asked, 8, where="grade < 3")
    yield "range", index.range(asked, reach)
    yield "range where", index.range(asked, reach, where="grade > 90")
    yield "count", index.count(asked, reach)
    manifest = {"partitions": [{"furthest": part.furthest} for part in index.parts.all()], "reach": index.reach}
    vectors = index.space.vectors(asked)
    far = np.full(len(asked), reach)
    yield "reads", reads_of(manifest, index.partitioning, vectors, index.partitioning.nearest(vectors), far)
    yield "box", index.box([-30.0, -20.0, 25.0, 30.0])
    yield "within", index.within(np.array(POLYGON))
    yield "reverse", index.reverse_nearest(asked[: len(asked) // 4])
    for i in list(index)[: len(asked) // 7]:
        yield f"cell {i}", (index.cell(i), index.neighbours(i), np.float64(index.area(i)))


def less_asked(index, asked):
    """What servers of a plan and histories ask of the same kernels."""
    vectors = index.space.vectors(asked)
    furthest = np.array([part.furthest for part in index.parts.all()])
    held, far = np.arange(len(furthest)) % 2 == 0, np.full(len(asked), 1e6 if index.space.dimension == 3 else 3.0)
    yield "suffice", shares_that_suffice(index.partitioning, vectors, far, 2 * far, furthest, index.reach, held)
    yield "places of numbers", Lookup(index.parts, False).find_all(np.arange(-2, len(index) + 2))
    (polygon,) = as_polygons(np.array(POLYGON), index.space)
    yield "held by strips", shape_of(polygon, worth_tables=0).holds(asked, vectors)
    yield "held by edges", inside(vectors, polygon)
    sites = max((part.sites for part in index.parts.all()), key=len)
    bounds = None if index.space.dimension == 3 else np.array([-60.0, -60.0, 60.0, 60.0])
    stays = np.arange(len(sites)) % 17 != 3
    made = voronoi(sites[stays], bounds)
    before = Before(made.first, made.neighbours, made.area, made.radius, made.compact)
    stood = np.where(stays, np.cumsum(stays) - 1, -1).astype(np.int32)
    made, cut = changed_cells(sites, bounds, before, stood, fewest=0, most=np.inf)
    yield "changed cells", (made.first, made.neighbours, made.area, made.radius, cut)
    yield "hashes of numbers", hashes_of(pa.array(np.arange(-2, len(index))))


def bytes_of(answer):
    """An answer's content, to the last bit."""
    if isinstance(answer, dtoss.Hits):
        answer = (answer.query, answer.id, answer.distance)
    parts = answer if isinstance(answer, tuple) else (answer,)
    return b"".join(np.ascontiguousarray(part).tobytes() for part in parts)


def files(index, folder):
    """The bytes of everything that would be written of an index."""
    for partition in index.parts.all():
        data = encode(partition)
        again = decode(data, "a partition")
        check_partition(again, _claims(index, again), "a partition")
        yield f"partition {partition.number}", bytes(data)
        yield f"checksum {partition.number}", xxh64(data).encode()
    yield "border", bytes(encode_border(index.border))
    for what in ("objects", "cells", "regions"):
        path = folder / f"{what}.parquet"
        write(index, what, str(path))
        yield f"export {what}", path.read_bytes()


def a_few(index, names):
    """Hashes of what the kernels in which a process spends its time make: cells of the plane, kNN and ranges."""
    asked = np.random.default_rng(2).uniform(-60.0, 60.0, (200, 2))

    def cells():
        made = voronoi(index.parts[0].sites, np.array([-60.0, -60.0, 60.0, 60.0]))
        return made.first, made.neighbours, made.area, made.radius

    questions = {
        "cells": cells,
        "knn": lambda: index.knn(asked, 8),
        "knn near": lambda: index.knn(asked, 40, max_distance=7.0),
        "range": lambda: index.range(asked, 9.0),
        "knn of one": lambda: tuple(index.knn(place, 8).distance for place in asked),
        "range of one": lambda: tuple(index.range(place, 9.0).id for place in asked),
    }
    return {name: hashlib.sha256(bytes_of(questions[name]())).hexdigest() for name in names}


def plane():
    """An index of one partition in the plane, a row of whose objects lies on a lattice."""
    rng = np.random.default_rng(3)
    places = np.concatenate([rng.uniform(-50.0, 50.0, (400, 2)), rng.integers(-20, 21, (300, 2)).astype(float)])
    return dtoss.build(np.arange(len(places)), places, partitions=1, crs="none")


def _claims(index, partition):
    size = index.space.dimension == 3
    box = (-180.0, -90.0, 180.0, 90.0) if size else (-1e99, -1e99, 1e99, 1e99)
    return Claims(
        partition.number, partition.owned_objects, partition.owned_sites,
        len(partition.positions) - partition.owned_objects, len(partition.uncertified), partition.furthest,
        index.space.dimension, len(index.parts), box, index.string_ids, frozenset(partition.attributes),
    )  # fmt: skip


def hashes(share, names=()):
    """Hashes of all answers and files of worlds of such a size, of those with these names or of all."""
    found = {}
    for name, places, how in worlds(share):
        if names and name not in names:
            continue
        grade = pa.array((np.arange(len(places)) * 7 % 100).astype(np.int32))
        index = dtoss.build(np.arange(len(places)), places, columns={"grade": grade}, **how)
        rng = np.random.default_rng(1)
        asked = np.concatenate([places[: int(30 * share)], rng.uniform(-89.0, 89.0, (int(150 * share), 2))])
        for question, answer in answers(index, asked):
            found[f"{name}: {question}"] = hashlib.sha256(bytes_of(answer)).hexdigest()
        with tempfile.TemporaryDirectory() as folder:
            for file, data in files(index, Path(folder)):
                found[f"{name}: {file}"] = hashlib.sha256(data).hexdigest()
        for question, answer in less_asked(index, asked):
            found[f"{name}: {question}"] = hashlib.sha256(bytes_of(answer)).hexdigest()
        vectors = index.space.vectors(asked)
        vectors = take_rows(vectors, radix_order(curve_keys(vectors)))
        found[f"{name}: distance"] = hashlib.sha256(distance(vectors, vectors[::-1]).tobytes()).hexdigest()
    lattice = dtoss.build(np.arange(16), [[x, y] for x in range(4) for y in range(4)], crs="none")
    found["lattice"] = hashlib.sha256(repr([lattice.neighbours(i).tolist() for i in range(16)]).encode()).hexdigest()
    texts = dtoss.build(np.array(["a", "é", "b"], object), places[:3], partitions=1)
    found["texts"] = hashlib.sha256(repr([texts[one] for one in ("b", "é", "a")]).encode()).hexdigest()
    named = np.array(["é", "c", "a"], object)
    found["places of texts"] = hashlib.sha256(bytes_of(Lookup(texts.parts, True).find_all(named))).hexdigest()
    (part,) = texts.parts.all()
    check_partition(decode(encode(part), "a partition"), _claims(texts, part), "a partition")
    return found


def main(arguments):
    """Print the line."""
    if "--small" in arguments:
        say(hashes(SMALL, arguments[arguments.index("--small") + 1 :]))
    elif arguments:
        say(a_few(pickle.loads(Path(arguments[0]).read_bytes()), arguments[1:]))
    else:
        say(hashes(1.0))


def say(found):
    """Print hashes, the processor and the kernels that were not used."""
    unused = [name for name, kernel in DECLARED.items() if name.startswith("dtoss.") and not kernel.overloads]
    processor = (
        "none"
        if CHECKED
        else DECLARED["dtoss.queries.kernels.knn_kernel.knn_kernel"].targetctx.codegen().magic_tuple()[1]
    )
    print(json.dumps({"processor": processor, "found": found, "unused": unused}))


if __name__ == "__main__":
    main(sys.argv[1:])
