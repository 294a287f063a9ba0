"""Servers with tokens that may see some objects and columns, and questions whose condition is said by hand."""

from __future__ import annotations

import json

import numpy as np

from dtoss.serve.auth.admission import Doors
from tests.dtoss.serve.cluster.several import EARTH, box_of, place_of

OWN = "speed < 20 and name is not null"
"""What the token ``some`` sees."""
COLUMNS = ("speed", "free")
FILE = f"""\
all      t-all
some     t-some     where="{OWN}"
narrow   t-narrow   where="{OWN}"  columns={",".join(COLUMNS)}
columns  t-columns  columns={",".join(COLUMNS)}
nothing  t-nothing  where="speed < -1"
sums     t-sums     where="{OWN}"  aggregates
editor   t-editor   where="{OWN}"  subscribe
painter  t-painter  columns={",".join(COLUMNS)} subscribe
writer   t-writer   write
peers    t-peers    peer
boss     t-boss     admin
"""


def doors_of(folder, text=FILE, **given):
    """The doors of a file of tokens."""
    file = folder / "tokens"
    file.write_text(text)
    return Doors(str(file), **given)


def bearer(name):
    """The header of a token."""
    return {"Authorization": f"Bearer t-{name}"}


def both_said(where):
    """The condition that stands for the token and a question."""
    return OWN if where is None else f"({OWN}) and ({where})"


def asked(index, rng, columns=("speed", "share", "name", "free", "lat", "lon")):
    """Method, path, parameters and body of a question of any route and kind that takes a condition."""
    x, y = place_of(index, rng)
    geographic = index.space.geographic
    names = ("lon", "lat") if geographic else ("x", "y")
    columns = [name for name in columns if geographic or name not in ("lon", "lat")]
    at = dict(zip(names, (x, y), strict=True))
    radius = round(float(rng.choice([0.0, 300.0, 3e3, 3e4, EARTH])) * float(rng.uniform(0.5, 1)), 3)
    where = rng.choice([None, None, "speed > 5", "free", "speed + 1 > 10 or free", "id % 2 = 0"])
    having = rng.choice([None, None, "speed < 15"])
    more = {
        "having": having, "ids": rng.choice([None, "string"]),
        "columns": rng.choice([None, ",".join(rng.permutation(columns)[: int(rng.integers(1, 4))])]),
    }  # fmt: skip
    more = {name: None if value is None else str(value) for name, value in more.items()}
    where = None if where is None else str(where)
    k = int(rng.choice([1, 2, 3, 8, 40, 100, 900]))
    places = [place_of(index, rng) for _ in range(int(rng.integers(1, 20)))]
    box = box_of(index, x, y, rng)
    kind = int(rng.integers(14))
    if kind < 2:
        return "GET", "/knn", {**at, "k": k, "where": where}, None
    if kind == 2:
        return "GET", "/knn", {**at, "k": k, "where": where, "max_distance": radius, **more}, None
    if kind == 3:
        return "GET", "/range", {**at, "radius": radius, "where": where}, None
    if kind == 4:
        return "GET", "/range", {**at, "radius": radius, "where": where, **more}, None
    if kind == 5:
        return "GET", "/count", {**at, "radius": radius, "where": where}, None
    if kind == 6:
        sides = ("west", "south", "east", "north") if geographic else ("xmin", "ymin", "xmax", "ymax")
        count = "true" if rng.random() < 0.3 and more["having"] is None else None
        return "GET", "/box", {**dict(zip(sides, box, strict=True)), "where": where, "count": count, **more}, None
    if kind == 7:
        return "POST", "/box", {"where": where, **more}, {"boxes": [box, box_of(index, *places[0], rng)]}
    if kind == 8:
        west, south, east, north = box_of(index, x, y, rng, small=True)
        ring = [[west, south], [east, south], [east, north], [west, north], [west, south]]
        return "POST", "/within", {"where": where, **more}, {"type": "Polygon", "coordinates": [ring]}
    if kind == 9:
        return "POST", "/knn", {"k": k, "where": where, **more}, {"positions": places}
    if kind == 10:
        return "POST", "/range", {"radius": radius / 50, "where": where, **more}, {"positions": places}
    if kind == 11:
        return "POST", "/count", {"radius": radius, "where": where}, {"positions": places}
    if kind > 11 and not geographic:
        return "GET", "/count", {**at, "radius": radius, "where": where}, None
    if kind == 12:
        z = int(rng.integers(0, 15))
        tile = [int((x + 180) / 360 * 2**z) % 2**z, int(rng.integers(2**z)) if z < 2 else _row(y, z)]
        return "GET", f"/tiles/{{snapshot}}/objects/{z}/{tile[0]}/{tile[1]}.mvt", {"where": where}, None
    return "GET", "/map/nearest", {"lon": x, "lat": y, "k": min(k, 100), "where": where, "cells": "false"}, None


def _row(lat, z):
    angle = np.radians(np.clip(lat, -85.0, 85.0))
    return int((1 - np.arcsinh(np.tan(angle)) / np.pi) / 2 * 2**z)


def told(answer):
    """Status and body of an answer, without the id of its request."""
    status, _, body = answer
    if status < 400:
        return status, body
    said = json.loads(body)
    return status, said["detail"]
