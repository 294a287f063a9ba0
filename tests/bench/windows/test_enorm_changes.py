"""Every operator and every change of configuration gives the windows of all rows at once."""

import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.windows.enorm.changing import DIRECT, INSTANT, SMOOTH, kind
from bench.windows.enorm.jobs import Job, chain
from bench.windows.enorm.operators import COUNT, SUM, Aggregate, Compute, Consolidate, Map, Withdrawn
from bench.windows.enorm.placing import Component, combine, common, configured, migrate, repartition, split
from bench.windows.enorm.rules import Rules
from bench.windows.enorm.running import Run, Source
from bench.windows.enorm.spans import Window, every, pane_of
from tests.bench.windows.enorm_batch import expected, spans_of
from tests.bench.windows.enorm_jobs import AREA, BOTH, BY_AREA, HOWS, fuzz, jobs, played, rows, simple, sources
from tests.examples import examples

JOBS = jobs()


def check(run, feeding):
    """What came out is what all rows give; none was late, none was lost."""
    assert (run.late, run.lost) == (0, 0)
    assert Counter(run.results) == expected(run.now.job, [row for source in feeding for row in source.rows])


@pytest.mark.parametrize("name", JOBS)
def test_each_job_gives_the_windows_of_all_rows(name):
    """In every way that an operator may be followed by another (Figure 5), also as bytes and merged at the end."""
    for seed in range(3):
        run, feeding, _ = played(JOBS[name], random.Random(seed), 0, rules=Rules(on_arrival=seed != 1))
        check(run, feeding)
        assert run.results


@settings(max_examples=examples(60), deadline=None)
@given(st.integers(0, 1 << 40))
def test_changes_of_any_kind_at_any_time_change_no_window(seed):
    _, run, held, _ = fuzz(seed)
    assert (run.late, run.lost) == (0, 0)
    assert Counter(run.results) == expected(run.now.job, held)


POSSIBLE = {
    "flexible stateless": (lambda now: repartition(now, "C1", (1, 1, 0, 0)), "other keys", "m", HOWS),
    "flexible stateful": (lambda now: repartition(now, "C1", (1, 1, 0, 0)), "split", "p", HOWS),
    "rigid stateless": (lambda now: repartition(now, "C2", (0, 0, 1, 1)), "split", "o", HOWS),
    "rigid stateful": (lambda now: repartition(now, "C1", (1, 1, 0, 0)), "simple", "o", {DIRECT, SMOOTH}),
    "split": (lambda now: split(now, "o"), "simple", "o", HOWS),
    "combine": (lambda now: combine(now, "o"), "split", "o", {DIRECT, SMOOTH}),
    "not shared": (lambda now: repartition(now, "C1", (1, 1, 0, 0)), "unshared", "p", HOWS),
    "no merge": (lambda now: repartition(now, "C1", (1, 1, 0, 0)), "no merge", "p", {DIRECT, SMOOTH}),
    "eager": (lambda now: repartition(now, "C1", (1, 1, 0, 0)), "eager", "e", {DIRECT, SMOOTH}),
    "fewer attributes": (lambda now: migrate(now, "d", "C1"), "two attributes", "o", {DIRECT}),
    "to other nodes": (lambda now: repartition(now, "C1", (2, 2, 2, 0)), "split", "p", HOWS),
    "windows of windows": (
        lambda now: repartition(now, "C2", (2, 1, 2, 0)), "windows of windows, fused", "q", HOWS,
    ),
}  # fmt: skip


@pytest.mark.parametrize("how", [INSTANT, DIRECT, SMOOTH])
@pytest.mark.parametrize("what", POSSIBLE)
def test_each_component_moves_in_the_ways_that_section_5_allows(what, how):
    """And in no other: a refusal says why, and which are left."""
    change, name, operator, ways = POSSIBLE[what]
    start = JOBS[name]
    if " " in what and what.split()[0] in ("flexible", "rigid"):
        assert kind(start, start.component_of(operator)) == what
    rng = random.Random(3)
    feeding = sources(start.job, rng)
    run = Run(start, feeding, 3, seed=5, carry=bytes)
    while min(one.newest for one in run.sources) < 17:
        run.step()
    run.drain()
    if how not in ways:
        with pytest.raises(ValueError, match="direct"):
            run.change(change(run.now), how)
    else:
        run.change(change(run.now), how)
        assert len(run.now.spreads[operator]) == 1 + (how == SMOOTH)
    run.run()
    check(run, feeding)
    assert (run.total("moved_bytes") > 0) == (
        how == DIRECT and isinstance(start.job.by_name[operator], (Compute, Consolidate))
    )


def test_a_change_waits_until_the_one_before_is_over():
    """Windows at two nodes, or halves of a pane, would come to the wrong place."""
    feeding = sources(simple(), random.Random(0), 300)
    run = Run(JOBS["split"], feeding, 2)
    for _ in range(100):
        run.step()
    run.change(repartition(run.now, "C1", (1, 1, 0, 0)), INSTANT)
    run.change(repartition(run.now, "C1", (0, 0, 1, 1)), INSTANT)
    with pytest.raises(ValueError, match="the change before lasts until"):
        run.change(combine(run.now, "o"), DIRECT)
    while min(one.promised for one in run.sources) < run.now.settled_at:
        run.step()
    until = run.change(combine(run.now, "o"), SMOOTH).settled_at
    assert until == max(one.newest for one in run.sources) + 1 + 20
    with pytest.raises(ValueError, match=f"lasts until {until}"):
        run.change(repartition(run.now, "C2", (1, 1, 0, 0)), INSTANT)
    run.run()
    check(run, feeding)


def test_a_combine_is_never_instant():
    """Not even where all keys are at the right nodes already: halves of an open pane may be elsewhere."""
    start = repartition(JOBS["split"], "C2", JOBS["split"].components["C1"].nodes)
    run = Run(start, [Source([])], 2)
    with pytest.raises(ValueError, match="would be combined with what is before it: direct or smooth"):
        run.change(combine(start, "o"), INSTANT)
    run.change(combine(start, "o"), DIRECT)


def test_smooth_migration_doubles_rows_for_the_longest_window():
    """As section 4.5 says; instant and direct migrations double none."""
    sent = {}
    for how in (None, INSTANT, DIRECT, SMOOTH):
        start = JOBS["split" if how == INSTANT else "simple"]
        feeding = [Source(rows(start.job, 400, random.Random(1), 0), 0, 1)]
        run = Run(start, feeding, 2, seed=1)
        while run.sources[0].newest < 40:
            run.step()
        if how:
            run.change(repartition(run.now, "C1", tuple(1 - node for node in run.now.components["C1"].nodes)), how)
        run.run()
        check(run, feeding)
        sent[how] = sum(channel.sent for edge in run.sources[0].edges for channel in edge.channels)
    assert sent[None] == sent[INSTANT] == sent[DIRECT] == 400
    doubled = sent[SMOOTH] - 400
    assert 0.7 * 20 * 4 <= doubled <= 20 * 4
    assert run.now.settled_at == 41 + 20


def test_components_are_divided_by_what_their_operators_share():
    """PA of a component is an intersection (4.4), a migration changes those of both, a circle of parts is none."""
    job = simple()
    wide = Compute("p", BOTH, frozenset(BOTH), SUM)
    other = Consolidate("o", BOTH, BY_AREA, SUM, (every(5),))
    start = configured(
        chain(wide, other, Map("d", BOTH, BY_AREA)),
        {"C1": Component(frozenset("po"), AREA, (0, 1)), "C2": Component(frozenset("d"), AREA, (0, 1))},
    )
    assert common(start.job, "po") == BY_AREA
    after = split(start, "o")
    assert common(start.job, after.components["C1"].operators) == frozenset(BOTH)
    with pytest.raises(ValueError, match="which are no attributes of all of"):
        configured(start.job, {"C1": Component(frozenset("pod"), BOTH, (0, 1))})
    with pytest.raises(ValueError, match="components hold"):
        configured(job, {"C1": Component(frozenset("po"), AREA, (0, 1))})
    with pytest.raises(ValueError, match="there is one key group, not 2"):
        Component(frozenset("d"), (), (0, 1))
    with pytest.raises(ValueError, match="has 4 key groups, not 2"):
        repartition(JOBS["simple"], "C1", (0, 1))
    with pytest.raises(ValueError, match="goes to another component"):
        migrate(JOBS["simple"], "p", "C1")
    with pytest.raises(ValueError, match="one is needed"):
        split(JOBS["split"], "o")
    with pytest.raises(ValueError, match="one is needed"):
        combine(JOBS["simple"], "o")
    keyless = configured(
        chain(Map("a", BOTH, frozenset(["user"])), Map("b", BOTH, BY_AREA)),
        {"C1": Component(frozenset("a"), ("user",), (0,)), "C2": Component(frozenset("b"), AREA, (0,))},
    )
    with pytest.raises(ValueError, match="has none of"):
        migrate(keyless, "b", "C1")


def test_a_map_that_changes_the_attributes_of_its_component_is_found():
    shifting = Map("m", AREA, BY_AREA, lambda row: [((row[0][0] + 1,), *row[1:])])
    job = chain(shifting, *simple().operators)
    parts = {"C1": Component(frozenset("mpo"), AREA, (0, 1, 0, 1)), "C2": Component(frozenset("d"), AREA, (0,))}
    run = Run(configured(job, parts), [Source(rows(job, 40, random.Random(0), 0))], 2)
    with pytest.raises(ValueError, match="changes attributes by which C1 is divided"):
        run.run()


def test_jobs_that_make_no_sense_are_refused():
    p, o, d = simple().operators
    for made, message in [
        (lambda: chain(d, o), "computes or consolidates before it"),
        (lambda: chain(p, o, Consolidate("q", AREA, BY_AREA, SUM)), "a consolidate has windows"),
        (lambda: chain(p, d), "no windows of its own"),
        (lambda: Job((p, o), (("o", "p"),)), "in the order of the flow"),
        (lambda: Job((p, p), ()), "one name"),
        (lambda: chain(Compute("p", AREA, BY_AREA, SUM, pane=2), o), "panes of 2 do not make 5"),
        (lambda: chain(Compute("p", AREA, BY_AREA, SUM, spanning="some"), o), "'some'"),
        (lambda: Compute("p", AREA, BY_AREA, SUM, spanning="each"), "would count twice"),
        (lambda: Compute("p", AREA, BY_AREA, Aggregate((), lambda s, v: s, None)), "without merge make no window"),
        (lambda: Map("d", AREA, frozenset(BOTH)), "user is no attribute"),
        (lambda: Window(0, 1), "must be 1 or more"),
        (
            lambda: chain(p, o, Compute("r", AREA, BY_AREA, SUM, windows=(every(5),), spanning="begin"), d),
            "begin before what is promised",
        ),
        (
            lambda: Job(
                (p, Compute("r", AREA, BY_AREA, SUM, pane=1), o),
                (("p", "o"), ("r", "o")),
            ),
            "different pieces",
        ),
    ]:
        with pytest.raises(ValueError, match=message):
            made()
    start = configured(
        chain(Compute("p", AREA, BY_AREA, SUM, spanning="begin", longest_row=2), o, d),
        {"C1": Component(frozenset("pod"), AREA, (0,))},
    )
    with pytest.raises(ValueError, match="a row of 3, longest_row is 2"):
        Run(start, [Source([((1,), 1, 0, 3)])], 1).run()
    with pytest.raises(ValueError, match="'slow' is none of"):
        Run(start, [Source([])], 1).change(start, "slow")


@given(st.lists(st.builds(Window, st.integers(1, 12), st.integers(1, 12), st.integers(0, 6)), min_size=1, max_size=3))
@settings(max_examples=50, deadline=None)
def test_instances_of_windows_and_their_panes(windows):
    pane = pane_of(windows)
    for begin, end in [(0, 1), (7, 8), (5, 9), (20, 33)]:
        assert spans_of(windows, begin, end) == {span for one in windows for span in one.holding(begin, end)}
        assert spans_of(windows, begin, end, True) == {span for one in windows for span in one.touching(begin, end)}
    for one in windows:
        for begin, end in one.holding(40, 41):
            assert pane.begins(begin)
            assert (end - begin) % pane.length == 0


def test_rows_behind_the_grace_are_counted():
    start = JOBS["simple"]
    late = [((1,), 1, at, at + 1) for at in (0, 9, 3, 5, 30)]
    run = Run(start, [Source(late, 4)], 2)
    run.run()
    assert (run.late, run.lost) == (1, 0)
    assert Counter(run.results) == expected(start.job, [row for row in late if row[2] != 3])


def test_a_row_that_is_withdrawn_counts_no_more():
    start = configured(simple(aggregate=COUNT), JOBS["simple"].components)
    made = [((1,), 0, at, at + 1) for at in (0, 1, 1, 2, 30)]
    run = Run(start, [Source([*made[:4], ((1,), Withdrawn(0), 1, 2), made[4]], 30)], 2)
    assert ((1,), 3, 0, 5) in run.run()


def test_a_compute_of_windows_moves_smoothly_only_apart_from_them():
    """Of two kinds of windows in one component some would be at one node and some at the other."""
    job = JOBS["late windows"].job
    together = configured(
        job, {"C1": Component(frozenset("p"), AREA, (0, 1)), "C2": Component(frozenset("orq"), AREA, (0, 1))}
    )
    rng = random.Random(1)
    for start, how in ((together, DIRECT), (JOBS["late windows"], SMOOTH)):
        feeding = sources(job, rng)
        run = Run(start, feeding, 2, seed=2)
        while min(one.newest for one in run.sources) < 17:
            run.step()
        groups = start.components["C2"].nodes
        after = repartition(run.now, "C2", [1 - node for node in groups])
        if start is together:
            with pytest.raises(ValueError, match="counts what o beside it makes of windows"):
                run.change(after, SMOOTH)
        run.change(after, how)
        run.run()
        check(run, feeding)


def test_rows_that_count_from_their_beginning_make_a_change_last_longer():
    """A pane is open for as long as the longest row may still reach back."""
    start = JOBS["rows by beginning"]
    assert start.job.held_back == 3
    for how in (INSTANT, SMOOTH):
        feeding = sources(start.job, random.Random(4), 300)
        run = Run(start, feeding, 2, seed=1)
        while min(one.newest for one in run.sources) < 12:
            run.step()
        newest = max(one.newest for one in run.sources)
        after = run.change(repartition(run.now, "C1", (1, 1, 0, 0)), how)
        assert after.settled_at == newest + 1 + 5 + 3
        while min(one.promised for one in run.sources) < after.settled_at:
            run.step()
        run.change(combine(run.now, "o"), DIRECT)
        run.run()
        check(run, feeding)
