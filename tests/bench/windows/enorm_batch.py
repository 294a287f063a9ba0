"""What a job must give: all its rows at once, in plain Python, without panes, nodes or order."""

from collections import Counter, defaultdict

from bench.windows.enorm.operators import Compute, Consolidate, Map, Withdrawn


def spans_of(windows, begin, end, each=False):
    """All instances that hold [begin, end), or with ``each`` touch it: from the definition, one after the other."""
    found = set()
    for window in windows:
        number = 0
        while (at := window.start + number * window.frequency) < end:
            holds = at <= begin and end <= at + window.length
            if holds or (each and at < end and begin < at + window.length):
                found.add((at, at + window.length))
            number += 1
    return found


def counted(compute, row):
    """The span in which a row counts."""
    _, _, begin, end = row
    if compute.spanning == "each":
        return begin, end
    at = begin if compute.spanning == "begin" else end - 1
    return at, at + 1


def folded(aggregate, values):
    """The state of values; those that are withdrawn come last."""
    state = aggregate.zero
    for value in sorted(values, key=lambda value: isinstance(value, Withdrawn)):
        state = aggregate.without(state, value) if isinstance(value, Withdrawn) else aggregate.add(state, value)
    return state


def expected(job, rows):
    """What comes out at each end, as a count of rows. Of an eager compute the aggregate must not depend on order."""
    came = {one.name: list(rows) if not job.before(one.name) else [] for one in job.operators}
    merged = {}
    out = Counter()
    for one in job.operators:
        made = []
        if isinstance(one, Map):
            made = [new for row in came[one.name] for new in one.logic(row)]
        elif isinstance(one, Compute):
            held = defaultdict(list)
            windows = set(one.windows) | {w for name in job.merged_by(one.name) for w in job.by_name[name].windows}
            for row in came[one.name]:
                for span in spans_of(windows, *counted(one, row), one.spanning == "each"):
                    held[span, row[0]].append(row[1])
                    values = held[span, row[0]]
                    if len(job.merged_by(one.name)) < len(job.after(one.name)):
                        made.append((row[0], one.eager(folded(one.aggregate, values), row), row[2], row[3]))
            merged[one.name] = held
        elif isinstance(one, Consolidate):
            values = defaultdict(list)
            before = [job.by_name[name] for name in job.before(one.name)]
            if isinstance(before[0], Compute):
                for other in before:
                    for (span, key), more in merged[other.name].items():
                        if span in spans_of(one.windows, *span):
                            values[span, key] += more
                states = {at: folded(one.aggregate, more) for at, more in values.items()}
            else:
                finest = min(window.length for window in before[0].windows)
                for key, state, begin, end in came[one.name]:
                    for span in spans_of(one.windows, begin, end) if end - begin == finest else ():
                        values[span, key].append(state)
                states = {}
                for at, (state, *more) in values.items():
                    for other in more:
                        state = one.aggregate.merge(state, other)
                    states[at] = state
            made = [row for (span, key), state in states.items() for row in one.rows(key, state, *span)]
        for name in job.after(one.name):
            came[name] += made
        if not job.after(one.name):
            out.update(made)
    return out
