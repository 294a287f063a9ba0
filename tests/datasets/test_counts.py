import dataclasses

import pytest

from datasets.tables.standard_rows import Counts, add_up


def test_counts_add_by_reason_and_keep_the_first_example():
    a = Counts(read=3, kept=2, dropped={"far": 1}, flawed={"late": 2}, examples={"far": "a"}, notes=("look",))
    b = Counts(read=2, kept=0, dropped={"far": 1, "odd": 1}, examples={"far": "b", "odd": "c"}, notes=("look",))
    both = add_up([a, b])
    assert (both.read, both.kept) == (5, 2)
    assert both.dropped == {"far": 2, "odd": 1}
    assert both.flawed == {"late": 2}
    assert both.examples == {"far": "a", "odd": "c"}
    assert both.notes == ("look",)
    assert add_up([]) == Counts()


def test_a_row_cannot_vanish():
    with pytest.raises(ValueError, match="3 rows read, but 1 kept"):
        Counts(read=3, kept=1, dropped={"far": 1})


def test_counts_are_frozen():
    counts = Counts(read=1, kept=0, dropped={"far": 1})
    with pytest.raises(dataclasses.FrozenInstanceError):
        counts.read = 2
    with pytest.raises(TypeError):
        counts.dropped["far"] = 2


def test_the_report_names_reasons_by_number_with_an_example():
    counts = Counts(
        read=1_005,
        kept=1_000,
        dropped={"odd": 1, "far": 4},
        flawed={"late": 1},
        examples={"far": "lat=400.17 in x.plt"},
        notes=("look swapped",),
    )
    assert counts.report().splitlines() == [
        "1,005 rows read, 1,000 kept, 5 dropped",
        "  dropped 4: far (first: lat=400.17 in x.plt)",
        "  dropped 1: odd",
        "  kept with a flaw 1: late",
        "  note: look swapped",
    ]
