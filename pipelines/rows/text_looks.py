"""A look at all text of an input: of which kind each of its columns is. Tasks look, a pass over the rows."""

from __future__ import annotations

import pickle

from dtoss.rows.row_plan import RowPlan, kinds_asked
from dtoss.text.text_kinds import add_counts, kinds_of_texts
from pipelines.engines.rows import Batches, one_value
from pipelines.rows.row_sources import Read, Source


def kinds_in(source: Source, plan: RowPlan) -> dict[str, str]:
    """Return the kinds of columns of text, from all their values: an action."""
    names, tolerant = kinds_asked(plan)
    if not names:
        return {}
    columns, decimal, wanted = plan.needed, plan.columns.decimal, plan.wanted

    def look(number: int, read: Read) -> Batches:
        yield one_value("seen", pickle.dumps(kinds_of_texts(read(columns), names, tolerant, decimal, wanted)))

    seen = add_counts([pickle.loads(counts) for counts in source.rows(look, columns, "seen binary").values()])
    return {name: seen[name].kind(name in tolerant, wanted.get(name)) for name in names}
