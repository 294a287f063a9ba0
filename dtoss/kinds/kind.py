"""What a kind of question about places is: one object, from which faces, routes, messages and commands come."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from dtoss.engine import Engine
    from dtoss.geometry.space import Space
    from dtoss.hits import Hits


class Tells(StrEnum):
    """What an answer has, and how fields of JSON and columns of it are called."""

    HITS = "hits"  # Of each place
    COUNT = "count"  # How many hits each place has
    ID = "id"  # One for each place


class About(StrEnum):
    """What a question is about."""

    PLACES = "places"
    BOXES = "boxes"
    POLYGONS = "polygons"


A = TypeVar("A", bound="Hits | NDArray[Any]")
"""What an answer is: hits, or an array with a value for each place."""


@dataclass(frozen=True)
class Parameter:
    """A number that a question takes beside its places.

    One that is called k is how many hits a place has at the most, one that each place may have for its own is called
    radius.
    """

    name: str
    says: str  # What it is, for the OpenAPI text and the help of commands
    whole: bool = False  # A whole number of at least 1; else a distance: metres, or units of the CRS
    wanted: bool = False  # Whether there is no question without it
    default: int | None = None  # Over HTTP, of a whole number
    limit: str | None = None  # Of a server, that bounds it
    each: bool = False  # Whether each place of a batch may have its own
    in_body: bool = False  # Whether it is a word that stands in the shapes themselves over HTTP, and no number

    def value(self, given: Any, count: int) -> Any:
        """Return what was given as an int, float64 (count,), or None where it may be left out."""
        from dtoss.arguments import distances, whole_number  # which loads numpy: the list alone is here without

        if self.whole:
            return whole_number(self.name, given, 1)
        if type(given) is float and given >= 0.0:
            import numpy as np

            return np.full(count, given)  # as most are, in a tenth of the time
        return None if given is None and not self.wanted else distances(self.name, given, count)


@dataclass(frozen=True)
class Disc:
    """Which parameters of a question are those of a search: names, or what is always meant."""

    k: str | int  # 0 for all within the radius
    radius: str | None = None  # None for anywhere


@dataclass(frozen=True, eq=False)
class Search:
    """The same search round several places."""

    positions: NDArray[np.float64]  # float64 (m, 2). Legal ones
    radius: NDArray[np.float64]  # float64 (m,). Metres or CRS units; infinity for anywhere
    k: int  # The nearest so many; 0 for all within the radius
    where: str | None = None  # A condition on the objects; None for none
    columns: tuple[str, ...] = ()
    having: str | None = None  # A condition on hits: a column says which satisfy it. None for none
    ordered: bool = True  # Whether hits within a radius are wanted in the order (distance, id)

    def __len__(self) -> int:
        return len(self.positions)

    def take(self, rows: NDArray[np.int64], radius: NDArray[np.float64] | None = None) -> Search:
        """Return the search round some places, with other radii if any are given."""
        return replace(self, positions=self.positions[rows], radius=self.radius[rows] if radius is None else radius)


@dataclass(frozen=True)
class Shapes:
    """Shapes as they are written."""

    form: str  # box: four numbers; boxes: the body of ``POST /box``; within: GeoJSON
    text: bytes
    # Whether edges are arcs whose sides vectors decide, whatever the text says of them; never sent
    by_vectors: bool = False


@dataclass(frozen=True, eq=False)
class Question(Generic[A]):
    """A question of a kind about several places, or about shapes."""

    kind: Kind[A]
    positions: NDArray[np.float64]  # float64 (m, 2). Legal ones; none beside shapes
    given: Mapping[str, Any]  # Of each parameter an int, float64 (m,), or None
    where: str | None = None
    having: str | None = None
    columns: Sequence[str] = ()
    ordered: bool = True
    shapes: Shapes | None = None

    def __len__(self) -> int:
        return len(self.positions)

    def take(self, rows: slice) -> Question[A]:
        """Return the question about some of the places."""
        given = {name: one if one is None or isinstance(one, int) else one[rows] for name, one in self.given.items()}
        return replace(self, positions=self.positions[rows], given=given)

    @cached_property
    def search(self) -> Search:
        """The one that answers it, where one does."""
        k, radius = self.kind.reads(self.given)
        return self.around(radius, k or 0)

    def around(self, radius: NDArray[np.float64] | None, k: int, more: Sequence[str] = ()) -> Search:
        """Return a search round its places for what it wants of objects, and more columns; no radius is anywhere."""
        import numpy as np

        far = np.full(len(self), np.inf) if radius is None else radius
        columns = tuple(dict.fromkeys((*self.columns, *more))) if more else tuple(self.columns)
        return Search(self.positions, far, k, self.where, columns, self.having, self.ordered)


class Searches(Protocol):
    """What answers the searches that a question is made of: an index, or all servers of a plan together."""

    @property
    def space(self) -> Space:
        """What positions mean."""

    @property
    def objects(self) -> int:
        """How many there are."""

    async def hits(self, asked: Search, /) -> pa.Table:
        """Return query, id, distance and columns ``c:NAME``, by place, distance and id."""

    async def counts(self, asked: Search, /) -> NDArray[np.int64]:
        """Return how many objects lie within the radius of each place, int64 (m,)."""


class Shares(Searches, Protocol):
    """Several shares of the objects, which can each be asked by itself."""

    async def parts(self, asked: Question[Any], /) -> list[Any]:
        """Return what each share says by itself, at least one: a table, with x and y of objects near places, counts."""


@dataclass(frozen=True)
class Part:
    """What each share of the objects says by itself, and how that becomes the answer."""

    name: str  # Of the message
    number: int  # Of the message, by which servers know it for ever
    # Of an index about places; of all objects it is the answer. None where servers look at their limits meanwhile
    answer: Callable[[Engine, NDArray[np.float64]], Hits] | None
    merge: Callable[[Shares, Question[Any]], Awaitable[pa.Table]]


@dataclass(frozen=True)
class Kind(Generic[A]):
    """A kind of question. One search answers it, or steps that search until it is settled, or a part of each share."""

    name: str  # Of the route
    says: str  # What comes back of one place
    says_of_many: str  # What comes back of several
    operations: Mapping[str, str]  # How clients call its routes, by their methods
    parameters: tuple[Parameter, ...] = ()
    tells: Tells = Tells.HITS
    takes: tuple[str, ...] = ("where", "having", "columns")  # What it may say of objects
    search: Disc | None = None  # The search whose hits, or counts, are the answer
    steps: Callable[[Searches, Question[Any]], Awaitable[pa.Table]] | None = None
    part: Part | None = None
    about: About = About.PLACES
    of_all: bool = False  # Whether it is about all objects, and nobody is answered who may see some
    gathered: bool = False  # Whether frequent questions of one place are answered by the turn
    paged: bool = False  # Whether one place may have so many hits that they are asked for page by page
    command: str | None = None  # The help of its command; None where it has none, or one of its own

    def with_defaults(
        self,
        given: Mapping[str, Any],
        where: str | None = None,
        having: str | None = None,
        columns: Sequence[str] = (),
    ) -> dict[str, Any]:
        """Return what is given for each parameter, with defaults, after a look at all that can be seen at once."""
        values = {}
        for one in self.parameters:
            if one.wanted and one.name not in given:
                raise TypeError(f"{self.name} wants {one.name}: {one.says[:1].lower()}{one.says[1:]}")
            value = given.get(one.name, one.default)
            values[one.name] = one.value(value, 0) if one.whole else value
        for name in given:
            if name not in values:
                raise TypeError(f"{self.name} takes no {name!r}: {', '.join(values) or f'{self.about.value} alone'}")
        for name, said in (("where", where), ("having", having), ("columns", columns)):
            if said is not None and len(said) and name not in self.takes:
                raise ValueError(f"{self.name} takes no {name}: leave it out")
        return values

    def reads(self, given: Mapping[str, Any]) -> tuple[int | None, Any]:
        """Return the k and the radius by which the access log knows a question; None where it has none."""
        if self.search is None:
            return given.get("k", 1), None
        k = given[self.search.k] if isinstance(self.search.k, str) else self.search.k
        return k or None, None if self.search.radius is None else given[self.search.radius]

    def question(
        self,
        positions: NDArray[np.float64],
        given: Mapping[str, Any],
        where: str | None = None,
        having: str | None = None,
        columns: Sequence[str] = (),
        ordered: bool = True,
    ) -> Question[A]:
        """Return a question about legal places; ``given``: as :meth:`with_defaults` returns it."""
        values = dict(given)
        for one in self.parameters:
            if not one.whole:
                values[one.name] = one.value(given[one.name], len(positions))
        return Question(self, positions, values, where, having, columns, ordered)

    def tried(self, near: float) -> dict[str, Any]:
        """Return something for each parameter without which there is no question; ``near``: a small distance."""
        return {one.name: near for one in self.parameters if one.wanted}

    async def rows(self, shares: Shares, asked: Question[Any]) -> pa.Table:
        """Return the hits that answer a question: query, id, distance and columns."""
        if self.search is not None:
            return await shares.hits(asked.search)
        if self.part is not None:
            return await self.part.merge(shares, asked)
        assert self.steps is not None
        return await self.steps(shares, asked)

    async def counts(self, shares: Shares, asked: Question[Any]) -> NDArray[np.int64]:
        """Return the counts that answer a question, int64 (m,)."""
        if self.part is None:
            return await shares.counts(asked.search)
        import numpy as np

        return np.sum(await shares.parts(asked), axis=0, dtype=np.int64)
