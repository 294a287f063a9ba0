"""What holds of every stream: events alternate, tasks and splits do not show, batches of others are refused."""

from __future__ import annotations

import itertools

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dtoss.commits.chain import Conflict
from dtoss.commits.file_entry import merged_from
from dtoss.commits.offsets import Source
from dtoss.errors import InputError, StoreError
from dtoss.watch.processing import watch_clock
from dtoss.watch.processing.watch_clock import add_histograms, histogram_of
from dtoss.watch.processing.watch_plan import Options, plan_batch
from dtoss.watch.subscription import EVERYWHERE
from dtoss.watch.subscriptions.changes import subscribe
from dtoss.watch.watch_folder import Home
from dtoss.watch.watch_settings import Rows, Settings
from tests.dtoss.watch.oracle import Watched
from tests.dtoss.watch.processing.held import by_object
from tests.dtoss.watch.streams import (
    ATTRIBUTES,
    BEGIN,
    NOW,
    SECOND,
    SPHERE,
    asked,
    change,
    circle,
    random_asked,
    random_rows,
    rows_of,
    run,
    settings_of,
    stands,
    table_of,
    told,
)
from tests.dtoss.watch.watch_batch import run_batch

FENCE = circle("home", 0.0, 0.0, 600.0)
DAY = 86_400 * SECOND


def at(id, second, lon=0.0, **attributes):
    """A row on the equator."""
    return {"id": id, "t": BEGIN + second * SECOND, "x": lon, "y": 0.0, "attributes": attributes}


def all_told(home):
    """What all commits tell."""
    return [event for number in range(1, home.batches.head().number + 1) for event in told(home, number)]


@pytest.mark.parametrize("expire", [None, 15])
def test_between_resets_enter_and_leave_alternate(tmp_path, expire):
    """For each subscription and object, over changes of both, rows that come late and objects that fall silent."""
    seen = 0
    for seed in range(4):
        rng = np.random.default_rng(seed)
        home = Home(str(tmp_path / str(seed)), "w")
        rows = random_rows(rng, 80, seconds=90)
        rows.sort(key=lambda row: row["t"] + rng.normal() * 2e6)
        for part in np.array_split(np.arange(len(rows)), 6):
            some = [random_asked(rng, f"s{rng.integers(4)}") | {"events": 6} for _ in range(2)]
            change(home, {one["id"]: one for one in some}.values())
            run(home, settings_of(), [rows[row] for row in part], 2, expire=None if expire is None else expire * SECOND)
        inside = set()
        for kind, subscription, _version, object, _t, _reason in all_told(home):
            seen += 1
            if kind == "reset":
                inside = {pair for pair in inside if pair[0] != subscription}
            elif kind == "enter":
                assert (subscription, object) not in inside
                inside.add((subscription, object))
            else:
                inside.remove((subscription, object))
    assert seen > 100


def distinct_rows(seed, count=70):
    """Rows of which no two of one object are at one time, by time."""
    rng = np.random.default_rng(seed)
    rows = random_rows(rng, count, objects=6, seconds=300)
    rows = list({(row["id"], row["t"]): row for row in rows}.values())
    return sorted(rows, key=lambda row: row["t"])


def test_tasks_and_splits_do_not_show(tmp_path):
    """1, 2 and 7 tasks, and 1, 3 and 9 batches: the same events in the same order within each object."""
    rows = distinct_rows(3)
    fences = [random_asked(np.random.default_rng(n), f"s{n}") | {"expires": None, "events": 7} for n in range(8)]
    found = []
    for tasks, batches in ((1, 1), (2, 3), (7, 9), (1, 9), (7, 1)):
        home = Home(str(tmp_path / f"{tasks}-{batches}"), "w")
        change(home, fences)
        for part in np.array_split(np.arange(len(rows)), batches):
            run(home, settings_of(), [rows[row] for row in part], tasks)
        found.append(by_object(all_told(home)))
    assert sum(map(len, found[0].values())) > 50
    assert all(one == found[0] for one in found)


def test_equal_batches_have_the_same_bytes(tmp_path):
    """Of events and of the state, also where rows come in another order."""
    names = []
    for place, order in (("a", 1), ("b", 1), ("c", -1)):
        home = Home(str(tmp_path / place), "w")
        change(home, [FENCE, circle("far", 180.0, 0.0, 3000.0)])
        for part in np.array_split(np.arange(60), 4):
            document = run(home, settings_of(), [distinct_rows(5)[row] for row in part][::order], 2).document
        names.append([(one["name"], one["sha256"]) for one in document["events"] + document["state"]])
    assert names[0] == names[1] == names[2]
    assert len(names[0]) > 2


@settings(deadline=None)
@given(
    times=st.lists(st.integers(-(10**15), 10**18) | st.integers(0, 10**8), min_size=1, max_size=60),
    gone=st.lists(st.booleans(), min_size=60, max_size=60),
    parts=st.integers(1, 7),
    most=st.integers(2, 20),
)
def test_what_witnesses_have_reached_is_the_same_however_rows_are_given_to_tasks(times, gone, parts, most):
    """Its bucket is the narrowest of which few enough are needed for all objects together."""
    t, leaves = np.array(times, np.int64), np.array(gone)[: len(times)]
    usual, watch_clock.MOST_BUCKETS = watch_clock.MOST_BUCKETS, most
    try:
        whole = histogram_of(t)
        split = add_histograms([histogram_of(t[part::parts]) for part in range(parts)])
        for one, other in ((split.bits, whole.bits), (split.buckets, whole.buckets), (split.counts, whole.counts)):
            assert np.array_equal(one, other)
        assert len(whole.buckets) <= most
        for wanted in range(1, len(t) + 1):
            at = np.sort(t)[-wanted]
            assert whole.lasts.reached(wanted) <= at < whole.lasts.reached(wanted) + (1 << whole.bits)
        some = [histogram_of(t[part::parts][leaves[part::parts]]) for part in range(parts)]
        left = add_histograms([whole], some)
        assert np.array_equal(left.lasts.times, np.unique(t[~leaves] >> whole.bits << whole.bits))
        assert left.lasts.count == np.count_nonzero(~leaves)
    finally:
        watch_clock.MOST_BUCKETS = usual


@given(batches=st.lists(st.integers(1, 50), max_size=60))
def test_there_are_few_runs(batches):
    """Each at least twice as large as the next, and all newer ones together are not larger."""
    sizes = []
    for more in batches:
        stay = merged_from(sizes, more)
        sizes = [*sizes[:stay], sum(sizes[stay:]) + more]
        assert all(old >= 2 * new for old, new in itertools.pairwise(sizes))
        assert all(size > sum(sizes[number + 1 :]) for number, size in enumerate(sizes))
    assert len(sizes) <= 1 + np.log2(max(sum(batches), 1))


def test_a_subscription_that_expires_tells_nothing_more(tmp_path):
    """Its end is told once, in the batch whose rows say so, behind their events; whoever was inside does not leave."""
    home = Home(str(tmp_path), "w")
    change(home, [FENCE | {"expires": BEGIN + 30 * SECOND}, circle("other", 0.0, 0.0, 600.0)])
    run(home, settings_of(), [at(1, 0), at(2, 40)])
    run(home, settings_of(), [at(1, 60, lon=1.0)])
    assert told(home, 2)[-1] == ("reset", "home", 1, None, None, "expired")
    run(home, settings_of(), [at(2, 70, lon=1.0)])
    kinds = [(kind, subscription, object, reason) for kind, subscription, _, object, _, reason in all_told(home)]
    assert [one for one in kinds if one[1] == "home" and one[0] != "inside"] == [
        ("enter", "home", 1, None),
        ("enter", "home", 2, None),
        ("leave", "home", 1, None),
        ("reset", "home", None, "expired"),
    ]
    assert [one for one in kinds if one[0] == "leave"] == [
        ("leave", "home", 1, None), ("leave", "other", 1, None), ("leave", "other", 2, None),
    ]  # fmt: skip


def test_a_replacement_resets_what_is_gone_and_what_is_another(tmp_path):
    """What stays as it is goes on."""
    home = Home(str(tmp_path), "w")
    change(home, [FENCE, circle("wider", 0.0, 0.0, 700.0), circle("gone", 0.0, 0.0, 800.0)])
    run(home, settings_of(), [at(1, 0)])
    subscribe(home, table_of([FENCE, circle("wider", 0.0, 0.0, 900.0)]), replace=True)
    run(home, settings_of(), [at(1, 1)])
    found = [event[:3] + event[5:] for event in told(home, 2) if event[0] != "inside"]
    assert found == [("reset", "gone", 1, "removed"), ("reset", "wider", 1, "changed"), ("enter", "wider", 2, None)]


def test_a_text_that_is_null_has_no_word(tmp_path):
    """So a negated word holds, as for an empty text; a condition on a null does not, negated or not."""
    home, made = Home(str(tmp_path), "w"), settings_of(messages=True, text="text")
    asking = {"fire": "fire", "calm": "not fire", "either": "fire or not drill", "both": "fire and not drill"}
    change(home, [circle(name, 0.0, 0.0, 600.0, words=words, events=1) for name, words in asking.items()])
    change(home, [circle("other", 0.0, 0.0, 600.0, where="not kind = 'taxi'", events=1)])
    found = []
    for text in (None, "", "Fire!"):
        run(home, made, [at(1, 0) | {"text": text}])
        found.append(sorted(event[1] for event in told(home, len(found) + 1)))
    assert found == [["calm", "either"], ["calm", "either"], ["both", "either", "fire"]]


def test_changes_that_cancel_out_between_two_batches_are_told_once_or_not_at_all(tmp_path):
    """A reader is told how what stands now differs from what stood for the batch before."""
    home, there = Home(str(tmp_path), "w"), circle("there", 0.0, 0.0, 600.0, events=6)
    change(home, [there, circle("twice", 0.0, 0.0, 700.0, events=6), circle("again", 0.0, 0.0, 800.0, events=6)])
    run(home, settings_of(), [at(1, 0)])
    change(home, [circle("twice", 0.0, 0.0, 710.0, events=6), circle("passing", 0.0, 0.0, 900.0, events=6)])
    change(home, [circle("twice", 0.0, 0.0, 720.0, events=6)], ["passing", "again"])
    change(home, [circle("again", 0.0, 0.0, 800.0, events=6), there | {"expires": BEGIN - DAY}])
    change(home, [circle("dead", 0.0, 0.0, 800.0, events=6, expires=BEGIN - DAY)])
    run(home, settings_of(), [at(1, 1)])
    assert [event[:3] + event[5:] for event in told(home, 2)] == [
        ("reset", "again", 1, "changed"), ("reset", "there", 1, "changed"), ("reset", "twice", 1, "changed"),
        ("enter", "again", 5, None), ("enter", "twice", 3, None),
    ]  # fmt: skip


def test_a_file_that_is_sent_again_tells_nothing_and_its_last_rows_alone_are_known(tmp_path):
    """Of an object the last row is repeated, all before it are late."""
    home = Home(str(tmp_path), "w")
    change(home, [FENCE])
    rows = [at(id, second, lon=second % 2) for id in range(3) for second in range(5)]
    run(home, settings_of(), rows)
    counts = run(home, settings_of(), rows, source=Source(files={"again": 1})).document["counts"]
    assert told(home, 2) == []
    assert (counts["repeated"], counts["late"]) == (3, 12)


def test_messages_are_matched_each_for_itself(tmp_path):
    """With and without ids; late ones and those of one time too; no state is kept."""
    home, made = Home(str(tmp_path), "w"), settings_of(messages=True, text="text")
    change(home, [circle("coffee", 0.0, 0.0, 600.0, words="coffee and not decaf", events=1), FENCE | {"events": 1}])
    loop = Watched(SPHERE, made.schema, messages=True)
    texts = ["Coffee!", "decaf coffee", "tea", None, "coffee coffee"]
    rows = [at(n % 3 or None, 9 - n, lon=0.01 * (n % 2)) | {"text": text} for n, text in enumerate(texts)]
    rows += [at(None, 0) | {"text": "COFFEE"}, at(None, 0) | {"text": "coffee"}]
    wanted = []
    for some in (rows[:4], rows[4:]):
        commit = run(home, made, some, 3)
        wanted += loop.batch(some, *stands(home))
        assert commit.document["state"] == []
    key = repr
    assert sorted(all_told(home), key=key) == sorted(wanted, key=key)
    assert len(wanted) == 9


def test_rows_without_times_or_ids_are_inside_and_nothing_else(tmp_path):
    """Whoever wants more is told why it cannot be."""
    change_of = [FENCE | {"events": 1}, circle("moves", 0.0, 0.0, 600.0, events=6)]
    for place, ids in (("ids", "int64"), ("none", None)):
        home = Home(str(tmp_path / place), "w")
        change(home, change_of)
        fixed = Settings(SPHERE, ids, None, None, False, ATTRIBUTES)
        plan = plan_batch(home, fixed, Source(files={"f": 1}), Options(), NOW)
        columns = {name: pa.nulls(3, kind) for name, kind in ATTRIBUTES.items()}
        names = None if ids is None else pa.array([1, 2, 1])
        rows = Rows(np.array([[0.0, 0.0], [5.0, 0.0], [0.0, 0.001]]), names, None, None, columns)
        document = run_batch(plan, rows, 2).document
        found = [event[:2] + event[3:5] for event in told(home, 1)]
        assert found == [("inside", "home", None if ids is None else 1, None)] * 2
        assert [one["id"] for one in document["unanswered"]] == ["moves"]
        assert (document["state"], document["clock"]) == ([], None)


def refused(home, source, **options):
    """The line that says why a batch cannot be."""
    with pytest.raises(InputError) as error:
        plan_batch(home, settings_of(), source, Options(**options), NOW)
    return str(error.value)


def test_checkpoints_of_others_are_refused(tmp_path):
    """Of another query, one that was deleted, one that has gone on: never a gap."""
    home = Home(str(tmp_path), "w")
    change(home, [FENCE])
    assert "belongs to another watch, or commits were deleted" in refused(home, Source(query="a", batch=4))
    for batch in range(3):
        assert run(home, settings_of(), [at(1, batch)], source=Source(query="a", batch=batch)).number == batch + 1
    assert plan_batch(home, settings_of(), Source(query="a", batch=2), Options(), NOW) is None
    assert "is of query b, the commits are of a" in refused(home, Source(query="b", batch=0))
    assert "goes on with batch 4 of query a" in refused(home, Source(query="a", batch=4))
    assert "would be lost" in refused(home, Source(query="a", batch=4))
    taken = run(home, settings_of(), [at(1, 9)], source=Source(query="b", batch=0), new_source=True)
    assert taken.document["ledger"]["batches"] == {"a": 2, "b": 0}
    assert "no such column" in refused(home, Source(query="a", batch=3), carry=("colour",))
    # the last commit is gone: its batch would be passed over
    home.batches.folder.remove("commits", f"{taken.number:020}.json")
    with pytest.raises(StoreError, match=f"{taken.number:020}.json is missing: CURRENT says that it was committed"):
        plan_batch(home, settings_of(), Source(query="b", batch=1), Options(), NOW)


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (Settings(SPHERE, "string", "timestamp", None, False, ATTRIBUTES), "type of ids int64, these rows have string"),
        (Settings(SPHERE, "int64", None, None, False, ATTRIBUTES), "time timestamp, these rows have none"),
        (Settings(SPHERE, "int64", "timestamp", "text", False, ATTRIBUTES), "text none, these rows have text"),
        (Settings(SPHERE, "int64", "timestamp", None, True, ATTRIBUTES), "messages False, these rows have True"),
        (Settings(SPHERE, "int64", "timestamp", None, False, {}), "columns occupied int64, kind string, these rows"),
    ],
)
def test_rows_of_other_kinds_are_refused(tmp_path, other, said):
    """In one line, which says what both are."""
    home = Home(str(tmp_path), "w")
    run(home, settings_of(), [at(1, 0)])
    with pytest.raises(InputError, match=said):
        plan_batch(home, other, Source(files={"g": 1}), Options(), NOW)


def test_of_two_writers_one_loses_and_does_it_again(tmp_path):
    """Nothing of the first try is seen; the same batch is there already, another one follows."""
    home = Home(str(tmp_path), "w")
    change(home, [FENCE])
    run(home, settings_of(), [at(1, 0)])
    sources = [Source(query="q", batch=0), Source(query="q", batch=0), Source(files={"g": 1})]
    plans = [plan_batch(home, settings_of(), source, Options(), NOW) for source in sources]
    made = [at(1, 1, lon=1.0)], [at(1, 1, lon=1.0)], [at(1, 2)]
    assert run_batch(plans[0], rows_of(made[0]), 2).number == 2
    for plan, rows in zip(plans[1:], made[1:], strict=True):
        with pytest.raises(Conflict):
            run_batch(plan, rows_of(rows), 1)
    assert plan_batch(home, settings_of(), sources[1], Options(), NOW) is None
    assert run(home, settings_of(), made[2], source=sources[2]).number == 3
    assert [event[0] for event in all_told(home)] == ["enter", "inside", "leave", "enter", "inside"]


def test_bad_rows_beyond_what_is_borne_commit_nothing(tmp_path):
    """Here times that nobody believes; within bounds they are set aside and told of."""
    home = Home(str(tmp_path), "w")
    change(home, [asked("all", EVERYWHERE)])
    rows = [at(1, 0), at(2, 0), at(3, 0) | {"t": NOW + 10**10}]
    with pytest.raises(InputError, match=r"1 of 3 rows are bad ..*, more than --max-bad 10% allows"):
        run(home, settings_of(), rows)
    assert home.batches.head() is None
    document = run(home, settings_of(), rows, max_bad=0.5).document
    assert document["counts"]["ahead"] == 1
    (file,) = document["quarantine"]
    table = pq.read_table(pa.BufferReader(home.folder.read("quarantine", file["name"])))
    assert table.column("reason").to_pylist() == ["time ahead of the clock"]


def test_an_object_takes_few_bytes(tmp_path):
    """With a number and a name that conditions read: at most 120 bytes in the state."""
    home = Home(str(tmp_path), "w")
    change(home, [FENCE | {"where": "occupied = 0 and kind = 'taxi'"}])
    rows = [at(n, 0, lon=n / 1000, occupied=0, kind="taxi") for n in range(20_000)]
    document = run(home, settings_of(), rows).document
    assert sum(one["bytes"] for one in document["state"]) <= 120 * len(rows)


def test_a_column_that_is_called_id_beside_the_ids_is_kept(tmp_path):
    home, attributes = Home(str(tmp_path), "w"), {"id": pa.string(), "key": pa.int64(), "gone": pa.bool_()}
    settings = Settings(SPHERE, "int64", "timestamp", None, False, attributes)
    change(home, [circle("home", 0.0, 0.0, 10.0, where="id = 'x' and key = 5 and not gone", events=6)])
    found = []
    for second, name in enumerate(["x", "x", "y", "x"]):
        values = {"id": pa.array([name]), "key": pa.array([5]), "gone": pa.array([False])}
        rows = Rows(np.zeros((1, 2)), pa.array([7]), np.array([BEGIN + second]), None, values)
        plan = plan_batch(home, settings, Source(files={f"f{second}": 1}), Options(), NOW)
        found.append([event[0] for event in told(home, run_batch(plan, rows).number)])
    assert found == [["enter"], [], ["leave"], ["enter"]]


def test_messages_that_differ_in_attributes_only_come_in_one_order(tmp_path):
    kinds = {"body": pa.string(), "v": pa.float64(), "w": pa.string()}
    settings = Settings(SPHERE, "string", None, "body", True, kinds)
    values = [("m", None, "a"), (None, float("nan"), "b"), ("m", 1.0, None), (None, 1.0, "c"), ("m", None, None)]
    text = pa.array(["fire"] * 5)
    files = set()
    for turn, order in enumerate(list(itertools.permutations(values))[::20]):
        home = Home(str(tmp_path / str(turn)), "w")
        change(home, [asked("said", EVERYWHERE, words="fire", events=1)])
        ids, v, w = zip(*order, strict=True)
        attributes = {"body": text, "v": pa.array(v, pa.float64()), "w": pa.array(w, pa.string())}
        rows = Rows(np.zeros((5, 2)), pa.array(ids), None, text, attributes)
        plan = plan_batch(home, settings, Source(files={"f": 1}), Options(carry=("v", "w")), NOW)
        (file,) = run_batch(plan, rows).document["events"]
        files.add(file["sha256"])
        assert file["rows"] == 5
    assert len(files) == 1
