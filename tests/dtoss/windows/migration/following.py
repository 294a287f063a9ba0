"""Windows that others replace, played without Spark; and the same windows as if they had always run."""

from __future__ import annotations

import numpy as np

from dtoss.commits.offsets import Source
from dtoss.windows.migration.begin_set import begin_next
from dtoss.windows.migration.take_over import count_batch, first_of, read_by_all
from dtoss.windows.query.window_query import open_windows
from dtoss.windows.storage.keys_file import of_sites, write_keys
from dtoss.windows.storage.sets import current_home, sets_of
from dtoss.windows.storage.spec_file import FixedSpec, fix, read_spec
from dtoss.windows.storage.window_document import Home
from tests.dtoss.windows.storage.kept import FAR_FUTURE, SECOND, commit, made

OTHER_SITES = np.array([[1.0, 1.0], [9.0, 3.0], [4.0, 7.0], [11.0, 9.0]])


def fixed_in(home, wanted, sites):
    """The windows of a home stand for a spec from now on."""
    fixed = FixedSpec(wanted, write_keys(home, of_sites(sites)))
    fix(home, fixed)
    return fixed


def begin_beside(home, wanted, sites):
    """Let a set of another spec, of some sites, begin beside the current one."""
    return begin_next(current_home(home.store, home.name), sets_of(home), wanted, of_sites(sites), FAR_FUTURE)


def counted(home, number, batch, tasks):
    """Count a batch, as a file that arrived, in all sets that run."""
    source = Source(files={f"part{number}": len(batch)})
    return count_batch(home, source, lambda one: commit(one, read_spec(one), batch, source, tasks))


def play(home, batches, tasks=1, began=lambda number: None):
    """Count the batches that not all sets have yet, in their order, those first that one set alone has not."""
    names = {f"part{number}": number for number in range(len(batches))}
    while fresh := read_by_all(home).fresh({name: len(batches[number]) for name, number in names.items()}):
        number = min(names[name] for name in first_of(home, fresh) or fresh)
        began(number)
        counted(home, number, batches[number], tasks)


def always(folder, wanted, sites, batches, tasks=1):
    """Windows of a spec that have run from the beginning, in a folder of their own."""
    home = Home(str(folder), "w")
    fixed = fixed_in(home, wanted, sites)
    for number, batch in enumerate(batches):
        commit(home, fixed, batch, Source(files={f"part{number}": len(batch)}), tasks)
    return home


def same_ends(found, other, first, last):
    """Hold all ends from one to another to those of other windows, with revisions; return how many rows there were."""
    mine, theirs = (
        one.wide_between(first / SECOND, last / SECOND).drop_columns(["final"]).to_pylist() for one in (found, other)
    )
    assert mine == theirs
    return len(mine)


def opened(home):
    """The windows of a name."""
    return open_windows(home.store, home.name)


def long_batches(seed, batches=14, rows=25, ids=6):
    """Batches of rows of objects that move about; some are late, some too late, some come twice."""
    return made(seed, batches=batches, rows=rows, ids=ids, step=4.0)
