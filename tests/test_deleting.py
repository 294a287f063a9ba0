"""What is to be deleted is named exactly: no door makes an id of what is none, and nothing goes then."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

import dtoss
from dtoss.errors import InputError
from dtoss.geometry.space import space_of
from dtoss.history.maintenance.erase_rows import forget, retain
from dtoss.history.versions import Home as History
from dtoss.serve.requests.served_watch import remove_subscription
from dtoss.watch.events.readers import forget_reader
from dtoss.watch.subscriptions.changes import subscribe, unsubscribe
from dtoss.watch.subscriptions.current import change_number, table_at
from dtoss.watch.subscriptions.validation import check_subscriptions
from dtoss.watch.watch_folder import Home as Watch

NO_ID = [2.9, 2.0, np.float64(2), True, np.True_, None, float("nan"), 2**64, b"2", Decimal(2), [2]]
"""What means no object, and what Python, numpy and Arrow each make the id 2, 1 or 0 of."""
TEXTS = ["", "1", "2", "2.0", "None", "True", "[2]"]
DIGITS = ["1_0", " 10", "10 ", "+10", "10.0", "1e1", "١٠", "１０", "0x10", "", "ten"]  # noqa: RUF001
"""What is 10 to Python or to a reader, and not to us."""
REFUSED = (ValueError, InputError)


@pytest.fixture(scope="module")
def histories(tmp_path_factory):
    """A history with ids that are numbers, one with text."""
    made = {}
    for name, ids in (("int64", [0, 1, 2, 10]), ("string", TEXTS)):
        path = str(tmp_path_factory.mktemp(name) / "h")
        n = len(ids)
        dtoss.history.append({"id": ids, "lon": [0.0] * n, "lat": [0.0] * n, "t": [*range(n)]}, path, batch="a")
        made[name] = History(path)
    return made


@pytest.fixture
def watch(tmp_path):
    """A watch with subscriptions whose names are what such values look like."""
    home = Watch(str(tmp_path / "store"))
    table, bad = check_subscriptions(
        [{"id": name, "circle": [8, 50, 1]} for name in (*TEXTS[1:], "10", "2.9", "nan", "b'2'")]
    )
    assert not bad
    subscribe(home, table, space=space_of())
    return home


def marks(path, value):
    """A batch with a mark of deletion."""
    rows = {"id": [value], "t": [9], "lon": [None], "lat": [None], "gone": [True]}
    dtoss.history.append(rows, path, batch="b", deleted="gone")


HISTORY_DOORS = {
    "a list": lambda home, value: forget(home, [1 if home == "int64" else "1", value]),
    "alone": lambda home, value: forget(home, value),
    "numpy": lambda home, value: forget(home, np.array([value])),
    "arrow": lambda home, value: forget(home, pa.chunked_array([[value]])),
    "generator": lambda home, value: forget(home, (one for one in [value])),
    "marks": lambda home, value: marks(home.path, value),
    "question": lambda home, value: dtoss.history.open(home.path).trajectory([value]),
}


@pytest.mark.parametrize("door", HISTORY_DOORS)
@pytest.mark.parametrize("kind", ["int64", "string"])
def test_no_row_goes_for_what_is_no_id(histories, kind, door):
    """Whatever the id comes in; it is the check of questions, too."""
    home = histories[kind]
    before = home.version().number
    for value in [*NO_ID, 2 if kind == "string" else "2"]:
        if door == "alone" and value == [2]:
            continue  # of numbers it is what it says
        with pytest.raises((*REFUSED, pa.ArrowException, OverflowError) if door == "arrow" else REFUSED):
            HISTORY_DOORS[door](home, value)
    assert home.version().number == before


@pytest.mark.parametrize(
    "ids", [2, [2], np.int32(2), np.array([2, 2], np.uint8), pa.array([2], pa.uint64()), {2}, (2,)]
)
def test_whole_numbers_of_any_width_name_an_object(histories, ids):
    """Alone, or in what holds several; as a question has them."""
    hits = dtoss.history.open(histories["int64"].path).trajectory(ids)
    assert set(hits.id.tolist()) == {2}


def test_rows_before_what_is_no_number_stay(histories):
    """A truth is 1 to Python."""
    home = histories["int64"]
    before = home.version().number
    for first in (True, np.True_, None, "3", float("nan"), [3]):
        with pytest.raises(ValueError, match="a time as the history stores it"):
            retain(home, first)
    assert home.version().number == before


def test_no_subscription_goes_for_what_is_no_name(watch):
    """Whole numbers are their digits, as where one is added; nothing else is made text."""
    before = change_number(watch)
    for value in [*NO_ID, np.timedelta64(2, "s"), np.datetime64(2, "s")]:
        for ids in ([value], ["1", value], pa.array([value]) if value in (2.9, None) else [value]):
            with pytest.raises(REFUSED, match="id"):
                unsubscribe(watch, ids)
    assert change_number(watch) == before
    for text in ("", "\ud800", "2" * 2000, "210"):
        assert unsubscribe(watch, [text]).removed == 0
    assert unsubscribe(watch, "210").removed == 0, "a text by itself is one id, not its characters"
    for ids in ("10", [np.int64(1)], 2):
        assert unsubscribe(watch, ids).removed == 1
    assert remove_subscription(watch, "2.9").removed == 1
    assert table_at(watch, change_number(watch))["id"].to_pylist() == ["2.0", "None", "True", "[2]", "b'2'", "nan"]


@pytest.mark.parametrize("name", [None, 1, True, b"a", "", "a\n", "a b", "\u0661"])
def test_no_reader_is_forgotten_by_what_is_no_name(watch, name):
    """Nor is there a file of such a name."""
    with pytest.raises(InputError, match="cannot be a name"):
        forget_reader(watch, name)


@pytest.mark.parametrize("text", DIGITS)
def test_numbers_on_the_command_line_are_digits(command, histories, text):
    """Of ids and of all options that are whole numbers; nothing is done."""
    home = histories["int64"]
    before = home.version().number
    assert repr(text) in command.fails("history", "forget", "--history", home.path, f"--id={text}")
    assert repr(text) in command.fails("history", "gc", "--history", home.path, f"--keep={text}")
    assert "--keep" in command.fails("gc", "--store", home.path, f"--keep={text}")
    assert home.version().number == before


def test_names_to_unsubscribe_are_taken_as_they_stand(command, watch, tmp_path):
    """One on each line: a line ends where a file says so, and nowhere else."""
    (tmp_path / "ids").write_text("1_0\n2\u20280\nnan\x0b\n[2]\r\n", newline="")
    ran = command.works("unsubscribe", "--file", tmp_path / "ids", "--store", watch.store, "--json")
    assert ran.json["removed"] == 1
    left = table_at(watch, change_number(watch))["id"].to_pylist()
    assert "[2]" not in left
    assert "nan" in left


def test_files_of_no_version_go_once_their_grace_is_over(command, tmp_path):
    """An hour where nothing is said, as a writer may commit them; --now is of versions alone."""
    dtoss.history.append({"id": [1], "lon": [0.0], "lat": [0.0], "t": [1]}, str(tmp_path / "h"), batch="a")
    left = tmp_path / "h/time/0123456789abcdef.parquet"
    left.write_bytes(b"of a writer that was killed")
    asked = ("history", "gc", "--history", tmp_path / "h", "--json")
    assert command.works(*asked, "--now").json["files"] == 0
    assert "--grace: 'soon' is no duration" in command.fails(*asked, "--grace", "soon")
    assert left.exists()
    assert command.works(*asked, "--grace", "0s").json["files"] == 1
    assert not left.exists()
