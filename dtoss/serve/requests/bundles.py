"""Frequent questions of one turn of a server's loop to another one: in one message there, and in one back.

The other one answers each as it answers its own, or leaves it: then the long way is taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec
import numpy as np
import orjson
from numpy.typing import NDArray

from dtoss.geometry.space import Space, as_positions
from dtoss.kinds.hit_tables import hits_reach
from dtoss.queries.raw_hits import RawHits
from dtoss.serve.answers.json_out import Hit, encode
from dtoss.serve.answers.open_snapshots import ServedSnapshot
from dtoss.serve.cluster.cluster import OTHER_SNAPSHOT
from dtoss.serve.core.pool import Stop, WorkStopped
from dtoss.serve.core.problems import Problem
from dtoss.serve.state.worker_state import WorkerState

FORWARD_PATH = "/forward"
PLACE_BYTES = 16
"""Of two coordinates."""
MOST_SEARCHED = 64
"""Hits that are searched for of a question, at the most."""
MOST_GROUPS = 1 << 17
"""Of a message: looked at before memory is taken for them."""
QUICK_HITS, QUICK_GROUPS = 16_384, 16
"""Of a message that is answered on the loop: some ten milliseconds of work."""


class Group(msgspec.Struct, array_like=True):
    """Questions of one kind."""

    nearest: bool  # Whether the nearest are wanted, and not all within the radius
    size: int  # How many are searched for
    where: str | None  # A condition on the objects
    places: bytes  # places, radius, k: float64 (m, 2), float64 (m,) and int32 (m,), as bytes
    radius: bytes
    k: bytes


class Bundle(msgspec.Struct, array_like=True):
    """Groups of questions about one snapshot."""

    snapshot: str
    groups: Annotated[list[Group], msgspec.Meta(max_length=MOST_GROUPS)]


class Answers(msgspec.Struct, array_like=True):
    """The bodies of answers one after another, and int32 lengths; -1 where there is none."""

    lengths: bytes
    bodies: bytes


_ENCODE = msgspec.msgpack.Encoder().encode
_BUNDLE = msgspec.msgpack.Decoder(Bundle).decode
_ANSWERS = msgspec.msgpack.Decoder(Answers).decode


def packed_group(
    nearest: bool, size: int, where: str | None, places: NDArray[np.float64], radius: NDArray[np.float64],
    k: Sequence[int],
) -> Group:  # fmt: skip
    """Return questions as they are sent."""
    return Group(nearest, size, where, places.tobytes(), radius.tobytes(), np.array(k, np.int32).tobytes())


def packed_bundle(snapshot: str, groups: list[Group]) -> bytes:
    """Return the bytes of a message."""
    return _ENCODE(Bundle(snapshot, groups))


def read_bodies(data: bytes) -> list[bytes | None]:
    """Return the bodies of answers, None where there is none."""
    try:
        said = _ANSWERS(data)
    except msgspec.MsgspecError as error:
        raise ValueError(str(error)) from None
    found: list[bytes | None] = []
    at = 0
    for length in np.frombuffer(said.lengths, np.int32).tolist():
        if length < 0:
            found.append(None)
        else:
            found.append(said.bodies[at : at + length])
            at += length
    return found


def read_bundle(state: WorkerState, data: bytes) -> Bundle:
    """Return a message after a look at how much it asks."""
    try:
        said = _BUNDLE(data)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise Problem(400, f"the body is no question of a server: {error}", limit="body") from None
    # as many as connections can wait in a turn
    most = state.settings.limits.connections
    count = sum(len(group.places) for group in said.groups) // PLACE_BYTES
    if not all(len(group.places) >= PLACE_BYTES for group in said.groups):
        raise Problem(400, f"a group of {len(said.groups):,} has no place: leave it out", limit="places")
    if count > most:
        raise Problem(
            413, f"there are {count:,} questions in a message: at most {most:,} are answered", limit="places",
            value=count, bound=most,
        )  # fmt: skip
    return said


def is_quick(bundle: Bundle) -> bool:
    """Return whether a message may be answered on the loop: no other request waits for it long."""
    hits = sum(len(group.places) // PLACE_BYTES * group.size for group in bundle.groups)
    return hits <= QUICK_HITS and len(bundle.groups) <= QUICK_GROUPS


def answer_bundle(state: WorkerState, said: Bundle, stop: Stop | None = None) -> tuple[int, bytes]:
    """Return the status and the bytes of an answer to a message.

    Only a snapshot that is open answers: another one has to be opened first, which takes its time.
    """
    served = state.serving.open_one(said.snapshot)
    if served is None:
        return OTHER_SNAPSHOT, orjson.dumps({"snapshots": state.serving.names()})
    bodies: list[bytes | None] = []
    for group in said.groups:
        if stop is not None:
            stop.check()
        count = len(group.places) // PLACE_BYTES
        try:
            places = np.frombuffer(group.places, np.float64).reshape(-1, 2).copy()  # kernels want what may be written
            radius, k = np.frombuffer(group.radius, np.float64).copy(), np.frombuffer(group.k, np.int32).tolist()
            check_places(places, radius, served.index.space)
            if not 0 < group.size <= MOST_SEARCHED or not len(k) == len(radius) == count:
                raise ValueError(f"{group.size} hits are searched for of {count} places with {len(k)} k")
            if group.nearest and not all(0 < one <= group.size for one in k):
                raise ValueError(f"a k is beyond the {group.size} hits that are searched for")
            made: list[bytes | None] = []
            step = max(QUICK_HITS // group.size, 1)  # hits become objects while the interpreter is held
            for at in range(0, count, step):
                if stop is not None:
                    stop.check()
                rows = slice(at, at + step)
                found = hot_bodies(served, group.nearest, group.size, group.where, places[rows], radius[rows], k[rows])
                made += [None] * len(k[rows]) if found is None else found[0]
        except WorkStopped:
            raise
        except Exception as error:  # the long way says what is wrong
            state.log.event("bundle failed", error=repr(error))
            made = [None] * count
        bodies += made
    lengths = np.array([-1 if body is None else len(body) for body in bodies], np.int32)
    return 200, _ENCODE(Answers(lengths.tobytes(), b"".join(body for body in bodies if body is not None)))


def check_places(positions: NDArray[np.float64], radius: NDArray[np.float64], space: Space) -> None:
    """Refuse places that are not legal: kernels do not look."""
    as_positions(positions, space)
    if len(radius) != len(positions) or not (radius >= 0.0).all():
        raise ValueError(f"{len(positions)} places want as many radii that are 0 or more")


def hot_bodies(
    served: ServedSnapshot,
    nearest: bool,
    size: int,
    where: str | None,
    places: NDArray[np.float64],
    radius: NDArray[np.float64],
    k: Sequence[int],
) -> tuple[list[bytes | None], RawHits] | None:
    """Return the bodies of answers to frequent questions and what was found; None where a condition is not ready.

    There is no body for a question with too many hits, nor, of a share, where other servers may have some of them.
    """
    index = served.index
    if where is None:
        found = index.search(places, radius, size, places=False)
    else:
        condition = served.conditions.ready(where)
        if condition is None:
            return None
        found = condition.answer(index.space.vectors(places), radius, size, 1, places=False, may_build=False)
    ids = found.ids.tolist() if found.ids is not None else index.ids_of(found).to_pylist()
    hits = list(map(Hit, ids, found.distance.tolist()))
    whole = None
    if served.share is not None:
        whole = _suffices(served, places, radius, k if nearest else None, found, size, where is None)
    begin, at = served.beginning, 0
    bodies: list[bytes | None] = []
    for row, (wanted, count) in enumerate(zip(k, found.count.tolist(), strict=True)):
        if (whole is not None and not whole[row]) or (not nearest and count >= size):
            bodies.append(None)
        else:
            end = at + (min(count, wanted) if nearest else count)
            bodies.append(begin + encode(hits[at:end]) + b"}")
        at += count
    return bodies, found


def _suffices(
    served: ServedSnapshot,
    places: NDArray[np.float64],
    radius: NDArray[np.float64],
    k: Sequence[int] | None,
    found: RawHits,
    size: int,
    replicas: bool,
) -> list[bool]:
    """Return of which places nobody else has hits."""
    share = served.share
    assert share is not None
    # what was searched for is more than what is wanted, and decides whether replicas were looked at
    searched = hits_reach(found.count, found.distance, np.full(len(radius), size), radius)
    far = searched if k is None else hits_reach(found.count, found.distance, np.array(k), radius)
    whole: list[bool] = share.suffices(
        share.index.space.vectors(places), far, searched=searched, replicas=replicas
    ).tolist()
    return whole
