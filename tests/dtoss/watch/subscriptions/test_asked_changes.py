"""Changes of subscriptions: any sequence of them against a dictionary, several writers, ends in the middle, damage."""

from __future__ import annotations

import os
import signal
import tempfile
import threading
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dtoss.commits.folder import LocalFolder
from dtoss.errors import InputError, StoreError
from dtoss.geometry.space import space_of
from dtoss.watch.subscription import SUBSCRIPTION_SCHEMA
from dtoss.watch.subscriptions.changes import Change, subscribe, unsubscribe
from dtoss.watch.subscriptions.current import base_of, change_number, changes_between, standing_of, table_at
from dtoss.watch.subscriptions.known_columns import asked_space
from dtoss.watch.subscriptions.validation import check_subscriptions
from dtoss.watch.watch_folder import CHANGES, DEFAULT_NAME, Home, Limits
from tests.disks import files_read
from tests.dtoss.commits.faster import others_are_always_faster, others_are_faster
from tests.ends import end_now
from tests.examples import examples

IDS = [str(number) for number in range(6)]


def rows(**radii):
    """The table of circles by the names of ids, i1 for 1, with these radii."""
    table, bad = check_subscriptions([{"id": name[1:], "circle": [8, 50, radius]} for name, radius in radii.items()])
    assert not bad
    return table


def radii(table):
    """{id: (radius, version)} of a table, which is by id."""
    assert table.schema == SUBSCRIPTION_SCHEMA
    ids = table["id"].to_pylist()
    assert ids == sorted(ids)
    return dict(zip(ids, zip(table["radius"].to_pylist(), table["version"].to_pylist(), strict=True), strict=True))


@pytest.fixture
def home(tmp_path):
    return Home(str(tmp_path / "store"))


def names(home):
    """The files of changes."""
    return set(home.asked.files(CHANGES))


def test_rows_come_change_and_go(home):
    """Versions are the numbers of changes; what stays as it is keeps its own, and makes no change."""
    assert (change_number(home), len(table_at(home, 0))) == (0, 0)
    assert subscribe(home, rows(i1=1, i2=2)) == Change(1, 2, 0, 0, 0)
    assert subscribe(home, rows(i1=1, i2=2)) == Change(1, 0, 0, 0, 2)
    assert subscribe(home, rows(i2=3, i1=1, i3=3)) == Change(2, 1, 1, 0, 1)
    assert radii(table_at(home, 2)) == {"1": (1, 1), "2": (3, 2), "3": (3, 2)}
    assert unsubscribe(home, [1, "9", 1]) == Change(3, 0, 0, 1, 0)
    assert unsubscribe(home, ["1"]) == Change(3, 0, 0, 0, 0)
    assert radii(table_at(home, 3)) == {"2": (3, 2), "3": (3, 2)}
    assert radii(table_at(home, 1)) == {"1": (1, 1), "2": (2, 1)}
    document = home.changes.read(2).document
    assert (document["kind"], document["rows"], document["added"], document["removed"]) == ("subscriptions", 2, 2, 0)
    file = pq.read_table(home.asked.path(CHANGES, document["file"]))
    assert file.column_names == [*SUBSCRIPTION_SCHEMA.names, "removed"]
    assert (file["version"].null_count, file["removed"].to_pylist()) == (2, [False, False])


def test_every_value_counts_for_being_the_same(home):
    """Another condition, word, event, end, place or meta is another subscription; nulls are equal."""
    base = {"id": 1, "circle": [1, 2, 3]}
    others = [
        base, base | {"where": "a = 1"}, base | {"meta": {"a": 1}}, base | {"events": ["enter"]}, base | {"expires": 5},
        {"id": 1, "box": [1, 2, 3, 4]}, {"id": 1, "around": {"object": 1, "metres": 3}}, {"id": 1},
        {"id": 1, "polygon": {"type": "Polygon", "coordinates": [[[0, 0], [1, 0], [1, 1]]]}},
    ]  # fmt: skip
    each_alone = [row for other in others[1:] for row in (base, other)]
    for number, row in enumerate(each_alone, 1):
        for expected in (number, number):
            done = subscribe(home, check_subscriptions([row])[0])
            assert done.number == expected
        assert table_at(home, number)["version"].to_pylist() == [number]


def test_a_replacement_keeps_what_stays_and_removes_the_rest(home):
    """It names what it removes; where nothing stays, nothing of before is read any more."""
    subscribe(home, rows(i1=1, i2=2, i3=3))
    assert subscribe(home, rows(i1=1, i2=5), replace=True) == Change(2, 0, 1, 1, 1)
    assert radii(table_at(home, 2)) == {"1": (1, 1), "2": (5, 2)}
    assert not home.changes.read(2).document["replace"]
    assert subscribe(home, rows(i1=1, i2=5), replace=True) == Change(2, 0, 0, 0, 2)
    delta = changes_between(home, 1, 2)
    assert (delta.table["id"].to_pylist(), delta.removed.to_pylist(), delta.replaced) == (["2"], ["2", "3"], False)
    assert subscribe(home, rows(i2=6, i7=7), replace=True) == Change(3, 1, 1, 1, 0)
    assert home.changes.read(3).document["replace"]
    for number in (1, 2):
        home.asked.remove(CHANGES, home.changes.read(number).document["file"])
    subscribe(home, rows(i8=8))
    assert radii(table_at(home, 4)) == {"2": (6, 3), "7": (7, 3), "8": (8, 4)}
    delta = changes_between(home, 0, 4)
    assert (len(delta.table), delta.replaced) == (3, True)
    assert subscribe(home, SUBSCRIPTION_SCHEMA.empty_table(), replace=True) == Change(5, 0, 0, 3, 0)
    assert len(table_at(home, 5)) == 0
    subscribe(home, rows(i8=8))
    assert radii(table_at(home, 6)) == {"8": (8, 6)}


change = st.one_of(
    st.tuples(st.just("add"), st.dictionaries(st.sampled_from(IDS), st.integers(0, 2), max_size=4)),
    st.tuples(st.just("replace"), st.dictionaries(st.sampled_from(IDS), st.integers(0, 2), max_size=4)),
    st.tuples(st.just("remove"), st.lists(st.sampled_from(IDS), max_size=4)),
)


@settings(deadline=None, max_examples=examples(40))
@given(st.lists(change, max_size=12), st.integers(1, 4), st.integers(0, 5))
def test_any_sequence_of_changes_is_as_a_dictionary(changes, every, pending):
    """Whatever stands at each number, and what lies between any two, also across bases and replacements."""
    with tempfile.TemporaryDirectory() as folder:
        home = Home(folder, DEFAULT_NAME, Limits(base_every=every, least_pending=pending))
        stands: dict[str, tuple[float, int]] = {}
        states = [stands]
        for kind, what in changes:
            before = states[-1]
            number = len(states)
            if kind == "remove":
                done = unsubscribe(home, what)
                after = {name: one for name, one in before.items() if name not in what}
            else:
                done = subscribe(
                    home, rows(**{f"i{name}": far for name, far in what.items()}), replace=kind == "replace"
                )
                after = dict(before) if kind == "add" else {n: one for n, one in before.items() if n in what}
                for name, far in what.items():
                    if before.get(name, (None,))[0] != far:
                        after[name] = (far, number)
            assert done.removed == len(set(before) - set(after))
            assert done.added == len(set(after) - set(before))
            if after != before:
                states.append(after)
            assert done.number == len(states) - 1 == change_number(home)
        for last, state in enumerate(states):
            assert radii(table_at(home, last)) == state
            asked = standing_of(home, last, pa.array(["0", "3", "5", "9"]))
            found = {row["id"]: (row["radius"], row["version"]) for row in asked.to_pylist()}
            assert found == {name: one for name, one in state.items() if name in "035"}
            for first in range(last + 1):
                delta = changes_between(home, first, last)
                gone = delta.removed.to_pylist()
                kept = {} if delta.replaced else {n: one for n, one in states[first].items() if n not in gone}
                assert kept | radii(delta.table) == state
                assert all(version > first for _, version in radii(delta.table).values())


def test_many_small_changes_are_read_from_a_base(tmp_path, monkeypatch):
    """A table is a base and less than so many files; bases that nobody needs go, and can be done without."""
    limits = Limits(base_every=8, spared_seconds=-1.0)
    home = Home(str(tmp_path), DEFAULT_NAME, limits)
    subscribe(home, rows(**{f"i{number}": number for number in range(100)}))
    for number in range(30):
        subscribe(home, rows(**{f"i{number % 7}": 5000 + number}))
    head = change_number(home)
    read = files_read(monkeypatch)
    table = table_at(home, head)
    assert len(read) <= 3 * limits.base_every + 3
    assert len(table) == 100
    assert radii(table)["3"] == (5024, 26)
    bases = [name for name in names(home) if name.startswith("base-")]
    assert len(bases) == 2
    assert base_of(home.changes.read(head)).entry.name in bases
    for name in bases:
        home.asked.remove(CHANGES, name)
    assert table_at(home, head).equals(table)
    assert subscribe(home, rows(i3=1)).changed == 1


def test_writers_at_once_lose_nothing(home):
    """Each looks again at what stands when another was faster."""
    errors = []

    def write(first):
        try:
            for number in range(8):
                subscribe(home, rows(**{f"i{first}": number, f"i{10 * first + 10 + number}": number, "i0": number}))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=write, args=(first,)) for first in (1, 2, 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    table = radii(table_at(home, change_number(home)))
    assert change_number(home) == 24
    assert set(table) == {"0", "1", "2", "3", *(str(10 * first + 10 + n) for first in (1, 2, 3) for n in range(8))}
    assert [table[str(first)][0] for first in (1, 2, 3)] == [7, 7, 7]


def test_a_conflict_is_tried_again_with_what_stands_then(home, monkeypatch):
    """The counts are those of the change that was made; after so many in vain it says so, and nothing has changed."""
    subscribe(home, rows(i1=1))
    others_are_faster(monkeypatch, lambda: unsubscribe(home, ["1"]), lambda: subscribe(home, rows(i2=2)))
    assert subscribe(home, rows(i1=1, i2=5)) == Change(4, 1, 1, 0, 0)
    assert radii(table_at(home, 4)) == {"1": (1, 4), "2": (5, 4)}
    others_are_always_faster(monkeypatch)
    with pytest.raises(StoreError, match="changed by others 20 times"):
        subscribe(home, rows(i3=1))
    assert change_number(home) == 4


def killed_at(home, step):
    """Make a change in a process that is killed before or after a change of a file; return how it ended."""
    child = os.fork()
    if child == 0:
        done = 0

        def counted(inner):
            def method(*arguments, **options):
                nonlocal done
                for moment in range(2):
                    if done == step:
                        os.kill(os.getpid(), signal.SIGKILL)
                    done += 1
                    if moment == 0:
                        found = inner(*arguments, **options)
                return found

            return method

        try:
            for name in ("replace", "create", "make"):
                setattr(LocalFolder, name, counted(getattr(LocalFolder, name)))
            subscribe(home, rows(i2=9, i3=3))
            end_now(0)
        finally:
            end_now(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_whoever_is_killed_in_a_change_leaves_it_whole_or_not_at_all(tmp_path):
    """At each step; files without a commit are debris, and the next change is made as ever."""
    home = Home(str(tmp_path), DEFAULT_NAME, Limits(base_every=1))
    subscribe(home, rows(i1=1, i2=2))
    ends = set()
    for step in range(30):
        number = change_number(home)
        before = radii(table_at(home, number))
        code = killed_at(home, step)
        after = radii(table_at(home, change_number(home)))
        changed = before | {"2": (9.0, number + 1), "3": (3.0, number + 1)}
        assert after in (before, changed)
        ends.add((code, after == before))
        if code == 0:
            break
        assert code == -signal.SIGKILL
        unsubscribe(home, ["3"])
        subscribe(home, rows(i2=2))
    assert ends == {(-signal.SIGKILL, True), (-signal.SIGKILL, False), (0, False)}


def test_damage_is_named(home):
    """A byte of a file of changes, a file that is gone, and a commit of another kind."""
    subscribe(home, rows(i1=1, i2=2))
    subscribe(home, rows(i3=1))
    name = home.changes.read(1).document["file"]
    path = Path(home.asked.path(CHANGES, name))
    data = path.read_bytes()
    for at in (0, len(data) // 2, len(data) - 1):
        path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        with pytest.raises(StoreError, match=f"{name} is damaged: it does not have the bytes"):
            table_at(home, 2)
        with pytest.raises(StoreError, match=name):
            unsubscribe(home, ["1"])
    path.unlink()
    with pytest.raises(StoreError, match=f"{name} is missing"):
        changes_between(home, 0, 2)
    home.changes.append({"kind": "other"}, home.changes.head())
    with pytest.raises(StoreError, match="is no change of subscriptions"):
        table_at(home, 3)


def test_what_cannot_be_a_table_of_subscriptions_is_refused(home):
    """Two of one id, or one without."""
    table = rows(i1=1)
    with pytest.raises(InputError, match="two subscriptions have one id"):
        subscribe(home, pa.concat_tables([table, table]))
    with pytest.raises(InputError, match="has no id"):
        subscribe(home, table.set_column(0, SUBSCRIPTION_SCHEMA.field("id"), pa.nulls(1, pa.string())))
    assert change_number(home) == 0


def test_a_change_notes_the_space_of_the_places(home):
    """The next one has it too, also where it is not said again."""
    assert asked_space(home) is None
    subscribe(home, rows(i1=1), space=space_of("EPSG:32610"))
    unsubscribe(home, ["1"])
    assert asked_space(home) == space_of("EPSG:32610")
