"""Named readers: when their cursor moves, who may have them, and what belongs to them."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import dtoss
from dtoss.errors import InputError, StoreError, Undelivered
from dtoss.watch.events.consumer import Share, begin
from dtoss.watch.events.event_compaction import fold_watch, retain
from dtoss.watch.events.readers import END_OF_BATCH, Cursor, Filter, Reader, cursor_of_reader, keep_reader, readers
from dtoss.watch.events.watch_tables import clear_watch, verify_watch
from dtoss.watch.targets.file_target import AppendedLines
from dtoss.watch.watch_folder import READERS, Home
from pipelines.command.watch.deliver_events import How, Window, hand_on
from pipelines.command.watch.hand_batches import CommandTarget, Trying, words_of
from pipelines.loop.stopping import Stopping
from tests.dtoss.watch.events.made import HOUR, START, batch_of, event
from tests.dtoss.watch.keep_cursor import keep_cursor

ROOT = Path(__file__).parents[4]
TEN = 10
KEEP = 'cat >> "$0"; echo "$DTOSS_READER $DTOSS_FIRST $DTOSS_LAST $DTOSS_ATTEMPT" >> "$0.env"'


@pytest.fixture
def home(tmp_path):
    """Three batches of ten events, of five subscriptions."""
    home = Home(str(tmp_path / "store"))
    for batch in range(3):
        kinds = ["enter", "inside"]
        batch_of(home, [[], [event(f"s{row % 5}", kinds[row % 2], row) for row in range(TEN)]], START + batch * HOUR)
    return home


@pytest.fixture
def every(home):
    return [row["id"] for row in dtoss.events(home.store)]


@pytest.fixture
def said(command, home):
    """The exit code, and the lines on stdout and stderr, of ``dtoss events``."""

    def ended(*words):
        ran = command("events", "--store", home.store, *words)
        return ran.code, *ran.lines

    return ended


def ids(path):
    lines = path.read_text().splitlines() if isinstance(path, Path) else path
    return [json.loads(line)["id"] for line in lines]


def at(home, name="me"):
    return cursor_of_reader(home, name)


def hand(home, how, name="me", **more):
    hand_on(home, name, None, Filter(), more.pop("share", Share()), how, **more)


def executing(command, retries=5, dead_letter=None, **more):
    """A command that is handed events, and again at once."""
    trying = Trying(retries, dead_letter=dead_letter, pauses=(0.0, 0.0))
    return How(CommandTarget(words_of(command), "me"), trying=trying, **more)


# -- --exec -----------------------------------------------------------------------------------------------------------


def test_a_command_is_handed_events_and_told_which(said, home, every, tmp_path):
    """So many at a time across batches of the watch; it is cut into words, and no shell runs it."""
    out = tmp_path / "a b"
    code, _, err = said("--as", "me", "--exec", f"sh -c '{KEEP}' '{out}'", "--batch", "12")
    assert (code, err) == (0, [])
    assert ids(out) == every
    wanted = [f"me {every[begin]} {every[min(begin + 11, 29)]} 1" for begin in (0, 12, 24)]
    assert Path(f"{out}.env").read_text().splitlines() == wanted
    assert at(home) == (3, END_OF_BATCH)
    assert said("--as", "me", "--exec", "false")[0] == 0  # nothing is left
    for command, why in (
        ("nosuch --x", "there is no program 'nosuch'"),
        ("", "there is no program ''"),
        ("sh -c 'x", "is no command: no closing quotation"),
        (f"{tmp_path}", "there is no program"),
    ):
        code, out_lines, err = said("--as", "other", "--exec", command)
        assert (code, out_lines, len(err)) == (2, [], 1)
        assert why in err[0]


def test_a_command_that_fails_is_tried_again_and_the_reader_stays(home, every, tmp_path, capfd):
    """It need not read all that it is handed, nor wait for its end."""
    out = tmp_path / "out"
    fails = f"sh -c 'echo $DTOSS_ATTEMPT >> {out}; [ $DTOSS_FIRST = {every[0]} ] || exit 7'"
    with pytest.raises(Undelivered, match=rf"3 times for 10 events from {every[10]} to {every[19]}.* exit code 7"):
        hand(home, executing(fails, batch=10, retries=2))
    assert out.read_text().split() == ["1", "1", "2", "3"]
    assert at(home) == (1, END_OF_BATCH)
    assert capfd.readouterr().err.count("again in 0 s") == 2
    with pytest.raises(Undelivered, match="ended by SIGKILL"):
        hand(home, executing("sh -c 'kill -9 $$'", retries=0))
    assert at(home) == (1, END_OF_BATCH)
    late = f"sh -c '[ $DTOSS_ATTEMPT = 3 ] && cat >> {out}.late'"
    hand(home, executing(late, retries=2))
    assert ids(tmp_path / "out.late") == every[10:]


def test_the_command_ends_with_1_where_nobody_takes_events(said, home):
    code, out, err = said("--as", "me", "--exec", "false", "--retries", "0")
    assert (code, out, len(err)) == (1, [], 1)
    assert "--dead-letter FILE" in err[0]
    assert at(home) == (0, END_OF_BATCH)


def test_dead_letters_are_whole_lines_before_the_cursor_moves(said, home, every, tmp_path):
    """As they were told; what a kill has left of a line goes, what is not ours stays."""
    dead = tmp_path / "dead.jsonl"
    picky = f"sh -c '[ $DTOSS_FIRST != {every[10]} ]'"
    words = ("--as", "me", "--batch", "10", "--retries", "0", "--dead-letter", dead)
    code, out, err = said(*words, "--exec", picky)
    assert (code, out, len(err)) == (0, [], 1)
    assert f"set aside in {dead}" in err[0]
    assert ids(dead) == every[10:20]
    assert at(home) == (3, END_OF_BATCH)
    whole = dead.read_bytes()
    for torn, left in ((whole[:90], b""), (whole + whole[:90], whole), (b"not ours", b"not ours\n"), (b"", b"")):
        dead.write_bytes(torn)
        AppendedLines(str(dead), "--dead-letter").append([b'{"id":"9-1"}\n', b'{"id":"9-2"}\n'])
        assert dead.read_bytes() == left + b'{"id":"9-1"}\n{"id":"9-2"}\n'
    code, _, err = said("--as", "me", "--exec", "true", "--dead-letter", tmp_path)
    assert (code, len(err)) == (2, 1)
    assert "cannot be written" in err[0]


def test_what_cannot_be_set_aside_is_not_passed(home):
    """On a full disk, say: nothing of it stays, and the cursor does not move."""
    full = "/dev/full"
    if not os.access(full, os.W_OK):
        pytest.skip("there is no /dev/full here")
    with pytest.raises(OSError, match="No space left"):
        hand(home, executing("false", retries=0, dead_letter=full))
    assert at(home) == (0, END_OF_BATCH)


def process(home, *words, **more):
    command = [sys.executable, "-m", "dtoss", "events", "--store", home.store, "--as", "me", *words]
    return subprocess.Popen(command, env=os.environ | {"PYTHONPATH": str(ROOT)}, **more)


def until(holds):
    ends = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < ends
        time.sleep(0.01)


def test_a_signal_lets_the_command_under_way_end(home, every, tmp_path):
    """And hands on no more: what comes next comes next time."""
    begun, out = tmp_path / "begun", tmp_path / "out"
    slow = f"sh -c 'touch {begun}; sleep 0.5; cat >> {out}'"
    reader = process(home, "--follow", "--batch", "10", "--exec", slow, stderr=subprocess.PIPE)
    until(begun.exists)
    reader.send_signal(signal.SIGTERM)
    assert reader.communicate(timeout=60) == (None, b"")
    assert reader.returncode == 0
    assert ids(out) == every[:10]
    assert at(home) == Cursor.of(every[9])


def test_a_second_process_of_a_name_is_refused(said, home, tmp_path):
    """It is told who has it; once that was killed the next one has it at once."""
    begun = tmp_path / "begun"
    reader = process(home, "--exec", f"sh -c 'touch {begun}; sleep 60'")
    until(begun.exists)
    for words in ((), ("--reset",), ("--share", "1/2", "--reset"), ("--forget",)):
        code, out, err = said("--as", "me", *words)
        assert (code, out, len(err)) == (2, [], 1)
        assert f"reader 'me' is being read by process {reader.pid} on" in err[0]
    assert said("--as", "other", "--at-most-once")[0] == 0
    reader.kill()
    reader.wait()
    assert len(said("--as", "me", "--at-most-once")[1]) == 30
    assert said("--as", "me", "--forget")[0] == 0
    assert sorted(readers(home)) == ["other"]


# -- --ack ------------------------------------------------------------------------------------------------------------


class Acknowledging:
    """A reader whose events and acknowledgements go through pipes of this process."""

    def __init__(self, home, most=4, stopping=None):
        (self.events, out), (acks, self.acks) = os.pipe(), os.pipe()
        self.stopping = stopping or Stopping()
        self.reading = begin(home, "me", Filter(), Share(), None, print)
        self.ends = (out, acks)
        self.window = Window(out, acks, most, self.reading, self.stopping)

    def run(self, lines):
        try:
            self.window.tell(lines)
            self.window.finish()
        finally:
            for one in self.ends:
                os.close(one)
            self.reading.release()


def lines_of(home):
    from dtoss.watch.events.event_lines import line_parts
    from dtoss.watch.events.event_log import told_events
    from dtoss.watch.events.watch_document import begun_watch

    (lines,) = line_parts(told_events(home, cursor_of_reader(home, "me")), lambda: begun_watch(home).settings, 100)
    return lines


def talk(home, consumer, most=4):
    """Let a consumer, in a thread, read lines and acknowledge; return how the reader ended."""
    asked = Acknowledging(home, most)

    def consume():
        with os.fdopen(asked.events) as events, os.fdopen(asked.acks, "w", buffering=1) as acks:
            consumer(events, acks)

    thread = threading.Thread(target=consume)
    thread.start()
    try:
        asked.run(lines_of(home))
    except (InputError, Undelivered) as error:
        return str(error)
    finally:
        thread.join()
    return None


def test_the_cursor_moves_to_what_was_acknowledged(home, every):
    """One id for all up to it; few are on their way, and what was not acknowledged is told again."""
    told = []

    def some(events, acks):
        for line in events:
            told.append(json.loads(line)["id"])
            if len(told) % 4 == 0:
                acks.write(told[-2] + "\n")
            if len(told) == 15:
                return

    why = talk(home, some, most=6)
    assert "events from" in why
    assert "printed again next time" in why
    assert told == every[:15]
    behind = every.index(str(at(home)))
    assert behind == 10

    def one_by_one(events, acks):
        for place, line in enumerate(events):
            assert json.loads(line)["id"] == every[behind + 1 + place]
            acks.write(json.loads(line)["id"] + "\n")
            if json.loads(line)["id"] == every[-1]:
                return

    assert talk(home, one_by_one, most=1) is None
    assert at(home) == (3, END_OF_BATCH)


@pytest.mark.parametrize(
    ("ack", "why"),
    [
        ("x\n", "acknowledged was 'x': 'x' is no cursor"),
        ("2-4294967299\n", "has not been printed"),
        ("3\n", "has not been printed"),
        ("1" * 1000, "is no cursor"),
        ("1-4294967299", "nobody is left to do so"),  # without the end of its line: it may be half a number
        ("", "nobody is left to do so"),
    ],
)
def test_what_is_no_id_that_was_told_is_refused(home, every, ack, why):
    """And moves nothing."""

    def consumer(events, acks):
        events.readline()
        acks.write(ack)

    assert why in talk(home, consumer)
    assert at(home) == (0, END_OF_BATCH)


def test_no_more_are_on_their_way_than_may_be(home, every):
    """The next one comes when one is acknowledged."""
    asked = Acknowledging(home, most=3)
    thread = threading.Thread(target=asked.run, args=[lines_of(home)])
    thread.start()
    with os.fdopen(asked.acks, "w", buffering=1) as acks, os.fdopen(asked.events, "rb", buffering=0) as events:
        for place in range(30):
            ahead = [json.loads(events.readline())["id"] for _ in range(3 if place == 0 else place < 28)]
            assert ahead == every[0 if place == 0 else place + 2 : place + 3]
            if place == 0:
                assert select.select([events], [], [], 0.1) == ([], [], [])
            assert asked.reading.cursor == (Cursor(0, END_OF_BATCH) if place == 0 else Cursor.of(every[place - 1]))
            acks.write(every[place] + "\n")
            until(lambda place=place: asked.reading.cursor >= Cursor.of(every[place]))
        thread.join()
    assert at(home) == (3, END_OF_BATCH)


def test_acknowledged_by_a_process(home, every):
    """Through stdin, and through a descriptor of its own; at a signal what was not acknowledged is told again."""
    reader = process(home, "--ack", "--follow", stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
    told = [json.loads(reader.stdout.readline())["id"] for _ in range(30)]
    assert told == every
    reader.stdin.write(every[9] + "\n")
    until(lambda: at(home) == Cursor.of(every[9]))
    reader.send_signal(signal.SIGTERM)
    reader.stdin.close()
    assert reader.wait(timeout=60) == 0
    reader.stdout.close()
    ours, theirs = os.pipe()
    reader = process(home, "--ack-fd", str(ours), stdout=subprocess.PIPE, pass_fds=[ours])
    os.close(ours)
    with reader.stdout, os.fdopen(theirs, "wb", buffering=0) as acks:
        for id in every[10:]:
            assert json.loads(reader.stdout.readline())["id"] == id
            acks.write(id.encode() + b"\r\n")
        assert reader.wait(timeout=60) == 0
    assert at(home) == (3, END_OF_BATCH)


# -- without an answer ------------------------------------------------------------------------------------------------


def test_at_most_once_moves_the_cursor_first(home, every):
    """Who dies while it prints has lost what it had in hand, and tells nothing twice."""
    with pytest.raises(BrokenPipeError), os.fdopen(broken(), "w") as out, contextlib.redirect_stdout(out):
        hand(home, How(ahead=True))
    assert at(home) == Cursor.of(every[9])
    with pytest.raises(BrokenPipeError), os.fdopen(broken(), "w") as out, contextlib.redirect_stdout(out):
        hand(home, How())
    assert at(home) == (1, END_OF_BATCH)


def broken():
    """The end of a pipe of which nobody has the other."""
    ours, theirs = os.pipe()
    os.close(ours)
    return theirs


def test_who_says_nothing_is_warned_once(said, home):
    """Where it is not a terminal; which way is meant can be said."""
    code, out, err = said("--as", "me")
    assert (code, len(out), len(err)) == (0, 30, 1)
    assert all(word in err[0] for word in ("warning: ", "'me'", "--exec CMD", "--ack", "--at-most-once"))
    assert said("--as", "you", "--at-most-once")[::2] == (0, [])
    assert said()[::2] == (0, [])


def test_options_that_do_not_go_together(said):
    for words, why in (
        (("--exec", "true"), "--exec wants the name of a reader: --as NAME"),
        (("--ack",), "--ack wants the name"),
        (("--at-most-once",), "--at-most-once wants the name"),
        (("--share", "1/2"), "--share wants the name"),
        (("--reset",), "--reset wants the name"),
        (("--as", "a", "--exec", "true", "--ack"), "--exec and --ack do not go together"),
        (("--as", "a", "--ack-fd", "5", "--at-most-once"), "--ack-fd and --at-most-once do not go together"),
        (("--as", "a", "--retries", "1"), "--retries belongs to --exec"),
        (("--as", "a", "--dead-letter", "x", "--ack"), "--dead-letter belongs to --exec"),
        (("--as", "a", "--batch", "1"), "--batch belongs to --exec CMD or --ack"),
        (("--as", "a", "--forget", "--reset"), "--forget and --reset do not go together"),
        (("--as", "a", "--ack-fd", "987"), "--ack-fd 987 is no open descriptor"),
        (("--as", "a", "--share", "0/2"), "share '0/2' is none"),
        (("--as", "a", "--share", "3/2"), "share '3/2' is none"),
        (("--as", "a", "--share", "2"), "share '2' is none"),
        (("--as", "a", "--share", "1/1025"), "up to 1,024"),
    ):
        code, out, err = said(*words)
        assert (code, out, len(err)) == (2, [], 1), words
        assert why in err[0], err


# -- what belongs to a reader -----------------------------------------------------------------------------------------


def test_a_filter_belongs_to_its_reader(said, home, every):
    """Another one, or none, would not be told of what the cursor has passed."""
    kinds = ["--kind", "enter", "--kind", "leave"]
    assert len(said("--as", "me", "--at-most-once", *kinds)[1]) == 15
    for words in ((), ("--kind", "enter"), (*kinds, "--subscription", "s1"), ("--after", "1")):
        code, out, err = said("--as", "me", "--at-most-once", *words)
        assert (code, out, len(err)) == (2, [], 1)
        assert "reads --kind leave --kind enter and its cursor has passed over all else" in err[0]
        assert "--as me --reset" in err[0]
    assert said("--as", "me", "--at-most-once", *reversed(kinds[:2]), *kinds[2:])[0] == 2
    assert said("--as", "me", "--at-most-once", "--kind", "leave", "--kind", "enter")[0] == 0
    assert at(home) == (3, END_OF_BATCH)
    assert ids(said("--as", "me", "--at-most-once", "--reset", "--after", every[19])[1]) == every[20:]
    assert said("--as", "me", "--at-most-once")[0] == 0
    assert ids(said("--as", "me", "--at-most-once", "--reset")[1]) == every


def test_a_reader_of_an_earlier_version_keeps_the_filter_that_it_comes_with(said, home):
    body = b'{"cursor":"2-end","reader":"me"}'
    data = body[:-1] + b',"sha256":"' + hashlib.sha256(body).hexdigest().encode() + b'"}\n'
    home.folder.make(READERS)
    home.folder.replace(data, READERS, "me.json")
    assert at(home) == (2, END_OF_BATCH)
    assert len(said("--as", "me", "--at-most-once", "--kind", "enter")[1]) == 5
    assert said("--as", "me", "--at-most-once")[0] == 2


def test_shares_divide_the_events(said, home, every):
    """By subscription, in their order, each with a cursor of its own; how many there are belongs to the reader."""
    parts = {}
    for number in (2, 3):
        parts[number] = ids(said("--as", "me", "--at-most-once", "--share", f"{number}/3")[1])
    assert at(home) == (0, END_OF_BATCH)  # where the one that has not begun stands
    assert verify_watch(home).damaged == []
    batch_of(home, [[], [event("s1", "enter", 1)]], START + 9 * HOUR)
    fold_watch(home, START + 10 * HOUR)
    assert retain(home, 0, START + 11 * HOUR).held_by == "me"
    for words in ((), ("--share", "1/2"), ("--share", "1/4")):
        code, _, err = said("--as", "me", "--at-most-once", *words)
        assert (code, len(err)) == (2, 1)
        assert "are divided into 3" in err[0]
        assert "--reset --after 0-end" in err[0]
    parts[1] = ids(said("--as", "me", "--at-most-once", "--share", "1/3")[1])
    last = list(dtoss.events(home.store))[-1]["id"]
    assert sorted([one for part in parts.values() for one in part if one != last], key=Cursor.of) == every
    of = {row["id"]: row["subscription"] for row in dtoss.events(home.store)}
    whose = [{of[one] for one in part} for part in parts.values()]
    assert sum(map(len, whose)) == 5
    assert len(set.union(*whose)) == 5
    assert all(part == sorted(part, key=Cursor.of) for part in parts.values())
    for number in (2, 3):
        said("--as", "me", "--at-most-once", "--share", f"{number}/3")
    assert at(home).batch >= 4
    home.folder.remove(READERS, "me.json")  # by hand: its shares are not taken for those of the next one
    again = [ids(said("--as", "me", "--at-most-once", "--share", f"{number}/3")[1]) for number in (1, 2, 3)]
    assert sum(map(len, again)) == 31
    assert len(said("--as", "me", "--at-most-once", "--reset")[1]) == 31
    with begin(home, "you", Filter(), Share(2, 2), None, print):  # which has read nothing yet
        for words in (("--forget",), ("--reset",), ("--reset", "--share", "1/3")):
            assert "share 2/2 of reader 'you' is being read" in said("--as", "you", *words)[2][0].replace("2/3", "2/2")
    assert said("--as", "you", "--forget")[0] == 0
    assert sorted(home.folder.files(READERS)) == ["me.json"]


def test_a_reader_whose_events_were_removed_is_told(said, home, every):
    """Its file was restored from an older copy, say: no gap in silence, and the way on."""
    old = Reader("me", Cursor.of(every[3]), Filter())
    fold_watch(home, START + 9 * HOUR)
    retain(home, 0, START + 9 * HOUR)
    keep_reader(home, old)
    batch_of(home, [[], [event("new", "enter", 1)]], START + 10 * HOUR)
    code, out, err = said("--as", "me", "--at-most-once")
    assert (code, out, len(err)) == (2, [], 1)
    assert f"reader 'me' stands at {every[3]}, and events behind that, up to {every[-1]}, were removed" in err[0]
    assert at(home) == Cursor.of(every[3])
    assert len(said("--as", "me", "--at-most-once", "--after", every[-1])[1]) == 1


def test_a_cursor_that_is_none_moves_no_reader(said, home, every):
    said("--as", "me", "--at-most-once", "--after", every[9])
    before = at(home)
    for after in ("99", "99-3", "x"):
        assert said("--as", "me", "--at-most-once", "--after", after)[0] == 2
    assert at(home) == before
    batch_of(home, [[], [event("new", "enter", 1)]])
    keep_cursor(home, "me", Cursor(99, 1))
    code, _, err = said("--as", "me", "--at-most-once")
    assert (code, len(err)) == (2, 1)
    assert "reader 'me': 99-1 is behind all events" in err[0]


@pytest.mark.parametrize("file", ["me.json", "me+2.json"])
def test_a_damaged_reader_is_one_line(said, home, file):
    """Edited by hand, of another name, cut off: refused, found by verification, and begun anew by --reset."""
    for number in (1, 2):
        said("--as", "me", "--at-most-once", "--share", f"{number}/2")
    whole = home.folder.read(READERS, file)
    for data in (whole.replace(b"-end", b"-9"), whole.replace(b'"me"', b'"you"'), whole[:-9], b"[]", b"{}"):
        home.folder.replace(data, READERS, file)
        code, out, err = said("--as", "me", "--at-most-once", "--share", "2/2")
        assert (code, out, len(err)) == (2, [], 1)
        assert f"{file} is damaged" in err[0]
        assert any(file in line for line in verify_watch(home).damaged)
        with pytest.raises(StoreError, match="is damaged"):
            retain(home, 0, START + 9 * HOUR)
    assert said("--as", "me", "--at-most-once", "--share", "2/2", "--reset")[0] == 0
    assert verify_watch(home).damaged == []


def test_what_a_killed_reader_was_writing_goes(home):
    from dtoss.commits.process import passing_name

    with subprocess.Popen([sys.executable, "-c", "pass"]) as gone:
        pass
    left = passing_name().replace(f"-{os.getpid():x}-", f"-{gone.pid:x}-")
    keep_cursor(home, "me", Cursor(1, 1))
    for name in (f"me.json.{left}", f"me.json.{passing_name()}"):
        home.folder.write(b"half", READERS, name)
    clear_watch(home)
    assert len(home.folder.files(READERS)) == 2
    assert at(home) == (1, 1)
