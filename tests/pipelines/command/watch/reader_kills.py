"""Readers of events that are killed, with their consumers or without, while batches are committed: nothing is skipped.

``python -m tests.pipelines.command.watch.reader_kills 200`` (a part of make check-data). Consumers note the id of each
event in a file. However often they, the reader's process or both are killed, each event is noted, and for the first
time only after the one before it. Of two processes of one name one reads.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path

import dtoss
from dtoss.commits.process import runs, start_of
from dtoss.errors import DtossError
from dtoss.watch.events.consumer import Share
from dtoss.watch.events.readers import Cursor, Filter, cursor_of_reader
from dtoss.watch.events.watch_tables import verify_watch
from dtoss.watch.watch_folder import Home
from pipelines.command.watch.deliver_events import How, hand_on
from pipelines.command.watch.hand_batches import CommandTarget, Trying
from tests.dtoss.watch.events.made import batch_of, event
from tests.ends import end_now

WAYS = ("exec", "ack", "two")
"""How events are handed on; of two processes of one name each hands them to a command."""
WHO = ("consumer", "reader", "both", "reader asked")
"""Who is killed; a reader that is asked to end gets SIGTERM."""
NAME = "reader"
EACH, WINDOW = 11, 5
"""Events of a batch of the watch, and of a batch that is handed on."""
LONGEST_SECONDS = 0.15
"""From one kill to the next."""
CONSUMER = """
read -r run < /proc/sys/kernel/random/uuid
while read -r line; do
    id=${line#'{"id":"'}; id=${id%%'"'*}
    echo "$run $id" >> "$1"; sleep 0.005
    [ -z "$2" ] || echo "$id"
done
"""
"""Notes each event and who it is, as numbers of processes come again; a second argument lets it acknowledge, too."""


class Reader:
    """A reader in a process of its own, and its consumer where that is none of its children."""

    def __init__(self, home: Home, way: str, notes: Path, *, follow: bool = True) -> None:
        ours, theirs = os.pipe(), os.pipe()
        words = ["sh", "-c", CONSUMER, "consumer", str(notes)]
        self.way, self.consumer = way, None
        how = How(acks=ours[0], batch=WINDOW)
        if way != "ack":
            how = How(CommandTarget(words, NAME), batch=WINDOW, trying=Trying(pauses=(0.01, 0.02)))
        self.pid = os.fork()
        if self.pid == 0:
            code = 2
            try:
                os.close(ours[1])
                os.close(theirs[0])
                os.dup2(theirs[1], 1)
                os.close(theirs[1])
                sys.stdout = os.fdopen(1, "w", closefd=False)
                sys.stderr = Path(os.devnull).open("w")  # noqa: SIM115
                hand_on(home, NAME, None, Filter(), Share(), how, follow=follow)
                code = 0
            except (DtossError, KeyboardInterrupt):
                code = 1
            except BaseException:
                sys.stderr = sys.__stderr__
                traceback.print_exc()
            finally:
                end_now(code)
        if way == "ack":
            self.consumer = subprocess.Popen([*words, "ack"], stdin=theirs[0], stdout=ours[1])
        for one in (*ours, *theirs):
            os.close(one)

    @property
    def consumers(self) -> list[int]:
        """The processes that handle its events now."""
        if self.consumer is not None:
            return [self.consumer.pid] if self.consumer.poll() is None else []
        children = Path(f"/proc/{self.pid}/task/{self.pid}/children")
        try:
            return [int(word) for word in children.read_text().split()]
        except OSError:
            return []

    def ended(self, *, wait: bool = False) -> int | None:
        """How it has ended; None while it runs."""
        if self.pid == 0:
            return 0
        pid, status = os.waitpid(self.pid, 0 if wait else os.WNOHANG)
        if pid == 0:
            return None
        self.pid = 0
        if self.consumer is not None:
            self.consumer.wait()  # its stdin has ended
        assert status in (0, 256, signal.SIGKILL, signal.SIGTERM), status
        return status


def killed(home: Home, way: str, notes: Path, kills: int, rng: random.Random) -> Counter[str]:
    """Kill so many times, then read to the end; return who was killed how often."""
    count: Counter[str] = Counter()
    running: list[Reader] = []
    orphans: set[tuple[int, str]] = set()
    while count.total() < kills:
        running = [one for one in running if one.ended() is None]
        while len(running) < (2 if way == "two" else 1):
            running.append(Reader(home, "exec" if way == "two" else way, notes))
        noted = len(notes.read_text().splitlines())
        if noted + EACH > len(list(dtoss.events(home.store))):  # there is always something under way
            batch_of(home, [[], [event(f"s{row % 3}", "enter", row) for row in range(EACH)]])
        time.sleep(rng.uniform(0.0, LONGEST_SECONDS))
        victim = rng.choice(running)
        who = WHO[count.total() % len(WHO)]
        consumers = victim.consumers
        if victim.ended() is not None or (who in ("consumer", "both") and not consumers):
            continue  # it had nothing in hand
        if who != "consumer":
            orphans.update((one, start_of(one)) for one in consumers)
            os.kill(victim.pid, signal.SIGTERM if who == "reader asked" else signal.SIGKILL)
        for one in consumers if who in ("consumer", "both") else ():
            try:
                os.kill(one, signal.SIGKILL)
            except ProcessLookupError:
                continue
        if who != "consumer":
            victim.ended(wait=True)
        count[who] += 1
    for one in running:
        if one.ended() is None:
            os.kill(one.pid, signal.SIGTERM)
            one.ended(wait=True)
    while Reader(home, "exec" if way == "two" else way, notes, follow=False).ended(wait=True):
        pass
    while any(runs(*one) for one in orphans):
        time.sleep(0.01)
    return count


def check(home: Home, notes: Path) -> int:
    """Hold what was noted to all events; return how many were noted more than once."""
    every = [row["id"] for row in dtoss.events(home.store)]
    place = {id: row for row, id in enumerate(every)}
    lines = [line.split() for line in notes.read_text().splitlines()]
    first = list(dict.fromkeys(id for _, id in lines))
    assert first == every, "not in order, or not all"
    last: dict[str, int] = {}
    for who, id in lines:
        assert place[id] == last.get(who, place[id] - 1) + 1, f"{who} was not told what comes before {id}"
        last[who] = place[id]
    at = cursor_of_reader(home, NAME)
    assert at is not None
    assert at >= Cursor.of(every[-1])
    assert verify_watch(home).damaged == []
    return len(lines) - len(every)


def round_of(folder: Path, way: str, kills: int, seed: int) -> tuple[Counter[str], int, int]:
    """Kill readers of a watch of its own; return who was killed, how many events there are, and were told again."""
    home, notes = Home(str(folder / "store")), folder / "notes"
    notes.touch()
    batch_of(home, [[], [event("s", "enter", row) for row in range(EACH)]])
    count = killed(home, way, notes, kills, random.Random(seed))
    again = check(home, notes)
    return count, len(list(dtoss.events(home.store))), again


if __name__ == "__main__":
    wanted = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    for number, way in enumerate(WAYS):
        with tempfile.TemporaryDirectory() as folder:
            kills = wanted // len(WAYS) + (number < wanted % len(WAYS))
            count, events, again = round_of(Path(folder), way, kills, number)
            print(f"{way}: {dict(count)} killed, {events:,} events, none lost, {again:,} told again")
