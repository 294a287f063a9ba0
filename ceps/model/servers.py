"""Server types: what one can do, hold and cost, what a request costs it, and where these figures are from."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from itertools import pairwise
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ceps.model.number_text import how_many

Curve = tuple[tuple[float, float], ...]
"""Pairs of a k or a radius and its weight in base requests, ascending."""

KEYS = ("cost_by_k", "cost_by_radius")
"""What a [[server]] block may say of it."""

_STEEPEST = {"cost_by_k": 1.0, "cost_by_radius": 2.0}  # past the last measured: hits grow with k, and with the area


@dataclass(frozen=True)
class RequestCosts:
    """How many base requests a request counts as.

    The base is what `requests_per_second` counts: the 8 nearest, unless `calibrate` was told another k.
    """

    by_k: Curve = ()  # (k, base requests) of questions for the k nearest
    by_radius: Curve = ()  # (radius, base requests) of questions for all within a radius, metres or CRS units

    def weights(self, k: NDArray[np.float64], radius: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return base requests that each request counts as, float64 (n,).

        Between two measured questions the logarithm of the weight is linear in the logarithm of k, or of the radius.
        Below the first it is the first's. Past the last it goes on as steeply as between the last two, at most as k
        itself, and as the square of the radius. A request with both counts as the less of the two, since its search
        ends at either. With neither, or where nothing was measured of what it has, it counts as 1.

        ``k``: float64 (n,), NaN or 0 where none is asked for; ``radius``: float64 (n,), NaN or infinite where there is
        none.
        """
        found = np.full(len(k), np.inf)
        for key, curve, asked in (("cost_by_k", self.by_k, k), ("cost_by_radius", self.by_radius, radius)):
            some = np.isfinite(asked) & (asked > 0 if key == "cost_by_k" else asked >= 0)
            if curve and some.any():
                found[some] = np.minimum(found[some], _along(curve, asked[some], _STEEPEST[key]))
        return np.where(np.isfinite(found), found, 1.0)


def _along(curve: Curve, asked: NDArray[np.float64], steepest: float) -> NDArray[np.float64]:
    at, weight = np.log(np.array(curve).T)
    where = np.log(np.maximum(asked, curve[0][0]))
    slope = 0.0 if len(at) < 2 else float(np.clip((weight[-1] - weight[-2]) / (at[-1] - at[-2]), 0.0, steepest))
    return np.exp(np.interp(where, at, weight) + slope * np.maximum(where - at[-1], 0.0))


def load_costs(path: str | Path) -> RequestCosts:
    """Costs of the [[server]] blocks of a TOML file; where several have some, the larger weight of each question."""
    file = Path(path)
    if not file.exists():
        raise FileNotFoundError(f"{path}: no such file; dtoss calibrate prints what it holds")
    try:
        blocks = tomllib.loads(file.read_text(encoding="utf-8")).get("server", [])
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: not a TOML file: {error}") from error
    given = [block for block in blocks if isinstance(block, Mapping)] if isinstance(blocks, list) else []
    curves: dict[str, Curve] = {}
    for key in KEYS:
        stated = [
            check_curve(block[key], key, f"{path}: server {block.get('name')!r}") for block in given if key in block
        ]
        curves[key] = _upper(stated, _STEEPEST[key])
    if not any(curves.values()):
        raise ValueError(
            f"{path}: no server has {' or '.join(KEYS)}; dtoss calibrate --store STORE prints a block that has"
        )
    return RequestCosts(curves["cost_by_k"], curves["cost_by_radius"])


def check_curve(value: Any, key: str, where: str) -> Curve:
    """`value` as a curve, once it is known to be one."""
    pairs = value if isinstance(value, Sequence) and not isinstance(value, str) else ()
    good = bool(pairs) and all(
        isinstance(pair, Sequence)
        and len(pair) == 2
        and all(isinstance(x, int | float) and not isinstance(x, bool) and 0 < x < math.inf for x in pair)
        for pair in pairs
    )
    if not good or any(after[0] <= before[0] for before, after in pairwise(pairs)):
        asked = "k" if key == "cost_by_k" else "radius"
        raise ValueError(
            f"{where}: {key} = {value!r}; it must be pairs of a {asked} and its base requests, above 0 and ascending, "
            f"such as [[1, 0.8], [100, 3.5]]"
        )
    return tuple((float(at), float(weight)) for at, weight in pairs)


def _upper(curves: Sequence[Curve], steepest: float) -> Curve:
    if len(curves) < 2:
        return curves[0] if curves else ()
    at = np.unique([point for curve in curves for point, _ in curve])
    most = np.max([_along(curve, at, steepest) for curve in curves], axis=0)
    return tuple(zip(at.tolist(), most.tolist(), strict=True))


CATALOGUES = ("m3-2015", "m7g-2026")
"""Names of the catalogues that ship with ceps."""

LEAST, MOST_REQUESTS, MOST_BYTES, MOST_DOLLARS = 1e-9, 1e18, 1e30, 1e9
"""What a server's numbers may be, if not 0: beyond these, sums lose their smaller parts, and costs are no dollars."""

NEEDED = ("name", "requests_per_second", "bytes", "dollars_per_hour")
"""What a [[server]] block must have."""
COMMITTED = ("reserved_dollars_per_hour", "reserved_3_years_dollars_per_hour", "spot_dollars_per_hour")
"""Prices that it may have beside the list's."""
_SHARES = {key: key.replace("dollars_per_hour", "upfront_share") for key in COMMITTED[:2]}
OPTIONAL = (*COMMITTED, *_SHARES.values())
"""Numbers that it may have: those prices, and shares of them that are due at the start."""
_KNOWN = (*NEEDED, *OPTIONAL, "source", "date", *KEYS, "origins")
HOW = ("published", "doubled", "measured", "assumed")
"""How a figure is known: by a list, by its rule from another size, by measuring, or not at all."""
_ORIGIN = {"how", "source", "date"}
_PRICE = "dollars_per_hour = 0.25 where it costs 0.25 dollars an hour, 0 where the machine is your own"


@dataclass(frozen=True)
class ServerType:
    """One kind of server that can be rented.

    Parameters
    ----------
    name
        Name in the provider's list.
    requests_per_second
        Requests/s it answers when fully busy, 1e-9 to 1e18. Plans load it to `utilisation` times this.
    bytes
        Bytes of partitions it can hold, 1e-9 to 1e30; `inf` where storage is no limit.
    dollars_per_hour
        List price, dollars an hour: 0, or 1e-9 to 1e9.
    source, date
        Where the price comes from, and of what day (ISO 8601). Reports print both.
    reserved_dollars_per_hour
        What an hour costs where the server is paid for all hours of a year, whatever is paid at its start included;
        None where that is not known.
    spot_dollars_per_hour
        What it costs while the provider may take the server away at any time; None where that is not known.
    reserved_3_years_dollars_per_hour
        As `reserved_dollars_per_hour`, where it is paid for all hours of three years.
    reserved_upfront_share, reserved_3_years_upfront_share
        Share of all that the year, or the three years, cost that is paid at their start, 0 to 1.

    Raises
    ------
    ValueError
        A capacity, a price or a share is no number, or out of its bounds, or a share stands without its price.
    """

    name: str
    requests_per_second: float
    bytes: float
    dollars_per_hour: float
    source: str = ""
    date: str = ""
    reserved_dollars_per_hour: float | None = None
    spot_dollars_per_hour: float | None = None
    reserved_3_years_dollars_per_hour: float | None = None
    reserved_upfront_share: float | None = None
    reserved_3_years_upfront_share: float | None = None

    def __post_init__(self) -> None:
        if not self.name:
            raise ValueError('a server type needs a name: write name = "..." in its [[server]] block')
        for field, most in (("requests_per_second", MOST_REQUESTS), ("bytes", MOST_BYTES)):
            value = getattr(self, field)
            if field == "bytes" and value == math.inf:
                continue
            if not _is_number(value) or not LEAST <= value <= most:
                why = "; infinite will not do, give what you measured" if value == math.inf else ""
                raise ValueError(
                    f"server {self.name!r}: {field} = {value!r}; it must be above 0: {LEAST:g} to {most:g}{why}"
                )
        for field in ("dollars_per_hour", *COMMITTED):
            price = getattr(self, field)
            if price is None and field in COMMITTED:
                continue
            if not _is_number(price) or not (price == 0 or LEAST <= price <= MOST_DOLLARS):
                raise ValueError(
                    f"server {self.name!r}: {field} = {price!r}; it must be 0 or more and finite: 0, or "
                    f"{LEAST:g} to {MOST_DOLLARS:g}"
                )
        for priced, field in _SHARES.items():
            share = getattr(self, field)
            if share is None:
                continue
            if not _is_number(share) or not 0 <= share <= 1:
                raise ValueError(f"server {self.name!r}: {field} = {share!r}; it must be a share, 0 to 1")
            if getattr(self, priced) is None:
                raise ValueError(f"server {self.name!r}: {field} = {share!r} is a share of nothing: give {priced} too")


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def load_servers(path: str | Path) -> tuple[ServerType, ...]:
    """Server types of a TOML catalogue, in the order of the file.

    Each `[[server]]` block has `name`, `requests_per_second`, `bytes` and `dollars_per_hour`, and may have
    the other prices and shares of `ServerType`, `source` and `date`; those two at the top of the file hold for every
    block without its own. What `calibrate` measured by k and radius may stand there too (:func:`load_costs` reads it),
    and by field how it is known (:func:`figures_of`).

    Parameters
    ----------
    path
        A TOML file, or the name of a catalogue that ships with ceps (`CATALOGUES`).

    Raises
    ------
    ValueError
        The file is not TOML, holds no server, lacks a key, has an unknown one, repeats a name, or a number is
        out of range; the message names the file.
    FileNotFoundError
        There is no such file.

    Examples
    --------
    >>> from ceps import load_servers
    >>> [(s.name, s.dollars_per_hour) for s in load_servers("m3-2015")][:2]
    [('m3.medium', 0.067), ('m3.large', 0.133)]
    """
    content = read_catalogue(path)
    common = {key: str(content.get(key, "")) for key in ("source", "date")}
    return checked_servers((_server(block, common, path) for block in content["server"]), str(path))


def read_catalogue(path: str | Path) -> dict[str, Any]:
    """Return what a TOML catalogue says, with at least one block under `server`, once every field of it is known."""
    file = Path(path)
    if str(path) in CATALOGUES and not file.exists():
        file = Path(__file__).parent / "catalogues" / f"{path}.toml"
    elif not file.exists():
        raise FileNotFoundError(f"{path}: no such file; catalogues that ship with ceps: {', '.join(CATALOGUES)}")
    try:
        content = tomllib.loads(file.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: not a TOML file: {error}") from error
    blocks = content.get("server", [])
    if not isinstance(blocks, list) or not blocks or not all(isinstance(block, dict) for block in blocks):
        raise ValueError(f"{path}: holds no server type; add a [[server]] block with {', '.join(NEEDED)}")
    _check_origins(content.get("origins", {}), str(path))
    for block in blocks:
        _check_keys(block, path)
    return content


def checked_servers(servers: Iterable[ServerType], where: str = "servers") -> tuple[ServerType, ...]:
    """`servers` as a tuple, once it is known to be usable: at least one, each name once."""
    found = tuple(servers)
    if not found:
        raise ValueError(f"{where}: no server type given; at least one is needed")
    names = [server.name for server in found]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"{where}: server type {twice[0]!r} appears {names.count(twice[0])} times; names must differ")
    return found


def _check_keys(block: Mapping[str, Any], path: str | Path) -> None:
    """Refuse a block that lacks a key, has one that is not known, or no number where one is wanted."""
    label = block.get("name", "without a name")
    missing = [key for key in NEEDED if key not in block]
    if missing:
        hint = "" if "dollars_per_hour" not in missing else "; write " + _PRICE
        raise ValueError(f"{path}: server {label!r} lacks {', '.join(missing)}{hint}")
    unknown = sorted(set(block) - set(_KNOWN))
    if unknown:
        raise ValueError(f"{path}: server {label!r} has unknown key {unknown[0]!r}; known: {', '.join(_KNOWN)}")
    for key in KEYS:
        if key in block:
            check_curve(block[key], key, f"{path}: server {label!r}")
    for key in (*NEEDED[1:], *(key for key in OPTIONAL if key in block)):
        if isinstance(block[key], bool) or not isinstance(block[key], int | float):
            raise ValueError(f"{path}: server {label!r}: {key} = {block[key]!r}; it must be a number")
    _check_origins(block.get("origins", {}), f"{path}: server {label!r}")


def _check_origins(origins: Any, where: str) -> None:
    """Refuse origins that are no words of `HOW`, or no tables, or are of no field."""
    fields = (*NEEDED[1:], *OPTIONAL, *KEYS)
    if not isinstance(origins, Mapping):
        raise ValueError(f"{where}: origins = {origins!r}; a table by field is wanted: {', '.join(fields)}")
    for field, said in origins.items():
        if field not in fields:
            raise ValueError(f"{where}: origins.{field}; a field is wanted: {', '.join(fields)}")
        table = {"how": said} if isinstance(said, str) else said
        if not isinstance(table, Mapping) or table.get("how", HOW[0]) not in HOW or set(table) - _ORIGIN:
            raise ValueError(
                f"{where}: origins.{field} = {said!r}; one of {', '.join(HOW)} is wanted, or a table such as "
                f'{{ how = "{HOW[0]}", source = "...", date = "2026-01-31" }}'
            )


def _server(block: Mapping[str, Any], common: Mapping[str, str], path: str | Path) -> ServerType:
    try:
        return ServerType(
            name=str(block["name"]),
            requests_per_second=float(block["requests_per_second"]),
            bytes=float(block["bytes"]),
            dollars_per_hour=float(block["dollars_per_hour"]),
            source=str(block.get("source", common["source"])),
            date=str(block.get("date", common["date"])),
            **{key: float(block[key]) for key in OPTIONAL if key in block},
        )
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


STATED = (*NEEDED[1:], *OPTIONAL, *KEYS)
"""Fields of a block that have an origin."""

AGEING = ("requests_per_second", "dollars_per_hour", *COMMITTED)
"""Those that are no longer right after a while: prices, and what a program answers."""


@dataclass(frozen=True)
class Origin:
    """Where a figure is from."""

    how: str  # One of :data:`ceps.model.servers.HOW`; "" where that is not said
    source: str  # In words; "" where that is not said
    date: str  # Of what day (ISO 8601); "" where that is not said


@dataclass(frozen=True)
class Figure:
    """A figure of a catalogue."""

    server: str
    field: str
    value: Any  # As the file has it
    origin: Origin  # Where it is from


@dataclass(frozen=True)
class Finding:
    """Something that is wrong with a figure's origin."""

    kind: str  # "missing", "stale", or "odd" for what cannot be
    server: str
    field: str
    text: str  # What is wrong, and what to write


def figures_of(path: str | Path) -> tuple[Figure, ...]:
    """Return the figures of a catalogue with their origins, in the order of the file."""
    content = read_catalogue(path)
    found = []
    for block in content["server"]:
        for field in STATED:
            if field in block:
                found.append(Figure(str(block["name"]), field, block[field], _origin(field, block, content)))
    return tuple(found)


def _origin(field: str, block: Mapping[str, Any], content: Mapping[str, Any]) -> Origin:
    """Return the origin of a field: what the block says of it goes before what the file says, and that before none."""
    own, of_all = (_table(one.get("origins", {}).get(field, {})) for one in (block, content))
    parts = {}
    for part in ("how", "source", "date"):
        places = (own, of_all) if part == "how" else (own, of_all, block, content)
        parts[part] = next((str(place[part]) for place in places if place.get(part)), "")
    return Origin(**parts)


def _table(said: Any) -> Mapping[str, Any]:
    return {"how": said} if isinstance(said, str) else said


def findings_of(figures: Sequence[Figure], today: date, most_days: float) -> tuple[Finding, ...]:
    """Return what is missing, stale or odd, in the order of the figures. ``today``: the day."""
    found = []
    price = {one.server: one.value for one in figures if one.field == "dollars_per_hour"}
    for one in figures:
        origin = one.origin
        if not origin.how:
            text = f'how it is known is not said: write origins.{one.field} = "{HOW[0]}", or {", ".join(HOW[1:])}'
            found.append(Finding("missing", one.server, one.field, text))
        if not origin.source:
            found.append(Finding("missing", one.server, one.field, "its source is not said: write source = ..."))
        found += _of_day(one, today, most_days)
        if one.field in COMMITTED and one.value > price[one.server]:
            text = f"{one.value:g} is above the list's price of {price[one.server]:g}: nobody would take it"
            found.append(Finding("odd", one.server, one.field, text))
    return tuple(found)


def _of_day(one: Figure, today: date, most_days: float) -> list[Finding]:
    """Return what is wrong with the day of a figure."""
    said = one.origin.date
    try:
        day = date.fromisoformat(said)
    except ValueError:
        text = f"its day is {said!r}: write date = YYYY-MM-DD" if said else "its day is not said: write date = ..."
        return [Finding("missing", one.server, one.field, text)]
    old = today - day
    if old < timedelta(0):
        return [Finding("odd", one.server, one.field, f"it is of {day}, which is to come")]
    if one.field in AGEING and old.days > most_days:
        again = "measure" if one.origin.how == "measured" else "look"
        text = f"it is of {day}, {how_many(old.days, 'day')} ago, more than {most_days:,.6g}: {again} again"
        return [Finding("stale", one.server, one.field, text)]
    return []
