"""Files that arrive counted in windows, each option a keyword."""

from __future__ import annotations

from dtoss.rows.input_columns import Columns
from dtoss.snapshots.store import Store, on_stderr
from dtoss.windows.storage.window_document import Home
from pipelines.loop.arriving_batches import Pace, Sources
from pipelines.loop.odd_columns import REFUSE
from pipelines.windowing.begin_windows import Which
from pipelines.windowing.running_sets import How
from pipelines.windows import count_files


def run_windows(
    positions, store, name, sessions, wanted=None, *, space=None, every=10.0, once=False, columns=None, wrap=False,
    unit=None, schema="union", max_bad=0.1, most_rows=None, stopping=None, renew=None, patient=None, say=None,
    warn=None, moving=None, retain=None, clock=None, replacing=False, on_odd_file=REFUSE,
):  # fmt: skip
    """Return what a run has done, as :func:`pipelines.windows.count_files`."""
    how = How(max_bad, False, retain, wrap, unit, say or (lambda _: None), warn or on_stderr, moving, clock)
    sources = Sources(positions, columns or Columns(), schema, most_rows, on_odd_file)
    which = Which(Home(Store(store).absolute.path, name), wanted, space, replacing)
    return count_files(which, sources, Pace(every, every, once, patient), how, sessions, stopping=stopping, renew=renew)
