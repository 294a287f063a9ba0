"""Small jobs of each kind of Figure 5, their rows, and changes while they run."""

import random

from bench.windows.enorm.changing import DIRECT, INSTANT, SMOOTH
from bench.windows.enorm.jobs import Job, chain
from bench.windows.enorm.operators import COUNT, GREATEST, MEAN, SUM, Aggregate, Compute, Consolidate, Map, Withdrawn
from bench.windows.enorm.placing import Component, combine, configured, migrate, repartition, split
from bench.windows.enorm.running import Run, Source
from bench.windows.enorm.spans import Window, every

AREA, BOTH, ZONE = ("area",), ("area", "user"), ("zone",)
BY_AREA = frozenset(AREA)
WINDOWS = (every(5), every(10), Window(20, 5))
HOWS = (INSTANT, DIRECT, SMOOTH)
LISTED = Aggregate((), lambda state, value: tuple(sorted((*state, value))), None)
"""No merge: the paper's windows that are computed one by one."""


def simple(windows=WINDOWS, aggregate=SUM, **options):
    """The paper's simple job, combined, with a map after it."""
    return chain(
        Compute("p", AREA, BY_AREA, aggregate, **options),
        Consolidate("o", AREA, BY_AREA, aggregate, windows),
        Map("d", AREA, BY_AREA),
    )


def placed(job, *components, groups=4, nodes=2):
    """Components by their operators' names, each with a turn of the nodes."""
    made = {}
    for number, names in enumerate(components):
        shared = frozenset.intersection(*(job.by_name[name].attributes for name in names))
        by = tuple(sorted(shared - {"user"}))
        turn = tuple((number + group) % nodes for group in range(groups if by else 1))
        made[f"C{number + 1}"] = Component(frozenset(names), by, turn)
    return configured(job, made)


def _doubling(row):
    (area, user), value, begin, end = row
    return [((area,), value, begin, end), ((area + user,), 1, begin, end)]


def _areas(row):
    (area, _), value, begin, end = row
    return [((area,), value, begin, end)]


def jobs():
    """All of them with their first configurations, by name."""
    wide = Map("m", BOTH, frozenset(BOTH), _doubling)
    kept = Map("m", BOTH, frozenset(BOTH), _areas)
    p, o, d = simple().operators
    found = {"simple": placed(simple(), "po", "d"), "split": placed(simple(), "p", "od")}
    found["whole"] = placed(chain(kept, *simple().operators), "mpod")
    found["mean"] = placed(simple(aggregate=MEAN, windows=(Window(9, 3), every(12))), "po", "d")
    found["greatest"] = placed(simple(aggregate=GREATEST), "p", "o", "d")
    found["unshared"] = placed(simple(shared=False), "p", "o", "d")
    found["unshared, combined"] = placed(simple(shared=False), "po", "d")
    found["no merge"] = placed(simple(aggregate=LISTED, shared=False), "po", "d")
    found["rows in each"] = placed(simple(shared=False, spanning="each", longest_row=4), "po", "d")
    found["rows by beginning"] = placed(simple(spanning="begin", longest_row=4), "p", "od")
    found["starts"] = placed(simple(windows=(Window(6, 6, 2), Window(4, 8, 4))), "p", "od")
    zones = chain(
        wide,
        Compute("p", ZONE, frozenset(ZONE), SUM),
        Consolidate("o", ZONE, frozenset(ZONE), SUM, (every(5), Window(20, 5))),
    )
    found["other keys"] = placed(zones, "m", "po")
    pair = frozenset(BOTH)
    found["two attributes"] = configured(
        chain(
            Compute("p", BOTH, pair, SUM),
            Consolidate("o", BOTH, pair, SUM, (every(5), every(10))),
            Map("d", BOTH, BY_AREA),
        ),
        {"C1": Component(frozenset("po"), BOTH, (0, 1, 1)), "C2": Component(frozenset("d"), AREA, (1, 0))},
    )
    found["windows of windows"] = placed(
        chain(
            p,
            Consolidate("o", AREA, BY_AREA, SUM, (every(5), every(10))),
            Consolidate("q", AREA, BY_AREA, SUM, (every(20),)),
            d,
        ),
        *("p", "o", "q", "d"),
    )
    found["windows of windows, fused"] = placed(found["windows of windows"].job, "p", "oqd")
    found["one place"] = placed(chain(p, o, Map("d", AREA, frozenset())), "po", "d")
    found["two computes"] = placed(
        Job(
            (kept, Map("n", BOTH, frozenset(BOTH), _areas), p, Compute("r", AREA, BY_AREA, SUM), o, d),
            (("m", "p"), ("n", "r"), ("p", "o"), ("r", "o"), ("o", "d")),
        ),
        *("m", "n", "p", "r", "od"),
    )
    found["two ways"] = placed(
        Job(
            (kept, p, Compute("r", AREA, BY_AREA, COUNT), o, Consolidate("q", AREA, BY_AREA, COUNT, (every(6),)), d),
            (("m", "p"), ("m", "r"), ("p", "o"), ("r", "q"), ("o", "d"), ("q", "d")),
        ),
        *("mp", "rq", "o", "d"),
    )
    eager = Compute("e", AREA, BY_AREA, COUNT, windows=(every(4),), eager=lambda state, row: state)
    by_window = Map("d", AREA, BY_AREA, lambda row: [(row[0], row[1], row[3] - 1 - (row[3] - 1) % 4, 0)])
    found["eager"] = placed(chain(eager, by_window), "e", "d")
    passing = Compute("e", AREA, BY_AREA, COUNT, windows=(every(4),))
    found["eager, fused"] = placed(chain(kept, passing, p, o, d), "mep", "o", "d")
    found["eager, apart"] = placed(chain(passing, p, o, d), "e", "po", "d")
    found["late windows"] = placed(
        chain(
            p,
            Consolidate("o", AREA, BY_AREA, SUM, (every(5),)),
            Compute("r", AREA, BY_AREA, SUM),
            Consolidate("q", AREA, BY_AREA, SUM, (every(10),)),
        ),
        *("po", "rq"),
    )
    return found


def rows(job, count, rng, disorder=3, withdrawn=False):
    """Rows for the first operators of a job, in an order of arrival that is up to ``disorder`` wrong."""
    first = job.operators[0]
    longest = getattr(first, "longest_row", 1)
    found = []
    for number in range(count):
        end = max(0, number // 4 - rng.randrange(disorder + 1)) + 1
        key = tuple(rng.randrange(5) for _ in first.schema)
        value = rng.randrange(9)
        if withdrawn and rng.random() < 0.2 and found:
            key, value, *span = rng.choice(found[-8:])
            if not isinstance(value, Withdrawn):
                found.append((key, Withdrawn(value), *span))
                continue
        found.append((key, value, max(0, end - rng.randrange(1, longest + 1)), end))
    return found


def sources(job, rng, count=120, disorder=3):
    """Two of them, the second further behind; with withdrawn rows where the aggregate has a way back."""
    computes = [one.aggregate for one in job.operators if isinstance(one, Compute)]
    withdrawn = all(one.remove and one is not COUNT for one in computes) and rng.random() < 0.5
    made = [rows(job, count, rng, disorder, withdrawn) for _ in range(2)]
    return [Source(one, disorder + 2 + number, rng.randrange(1, 9)) for number, one in enumerate(made)]


def some_change(now, rng, nodes):
    """Another configuration: groups elsewhere, a split, a combine, an operator that goes to any component."""
    choice = rng.randrange(5)
    name = rng.choice(sorted(now.components))
    if choice == 0:
        groups = len(now.components[name].nodes)
        return repartition(now, name, [rng.randrange(nodes) for _ in range(groups)])
    operator = rng.choice(now.job.operators).name
    if choice == 1:
        return split(now, operator)
    if choice == 2:
        return combine(now, operator)
    if choice == 3:
        return migrate(now, operator, name)
    by = AREA if now.job.by_name[operator].attributes else ()
    alone = Component(frozenset(), by, tuple(rng.randrange(nodes) for _ in range(3 if by else 1)))
    return migrate(now, operator, f"{operator} alone", alone)


def played(start, rng, changes=4, nodes=2, rules=None, **options):
    """A run with changes here and there: itself, its sources, what was changed in which way."""
    feeding = sources(start.job, rng)
    run = Run(
        start,
        feeding,
        nodes,
        seed=rng.randrange(1 << 30),
        rules=rules,
        most=rng.randrange(1, 6),
        carry=rng.choice([None, bytes]),
        **options,
    )
    made = []
    for _ in range(changes):
        for _ in range(rng.randrange(80)):
            run.step()
        how = rng.choice(HOWS)
        try:
            run.change(some_change(run.now, rng, nodes), how)
        except ValueError:
            continue
        made.append(how)
    run.run()
    return run, feeding, made


def fuzz(seed):
    """A job of a seed, played: its name, the run, the rows that its sources had, the changes."""
    rng = random.Random(seed)
    name, start = rng.choice(sorted(jobs().items()))
    run, feeding, made = played(start, rng, nodes=rng.randrange(2, 4))
    return name, run, [row for source in feeding for row in source.rows], made
