"""Runs the tests that can reach each fault on a copy that has it: ``python -m tests.mutants --help``.

A fault is caught where a test fails, survives where all pass. The result is a line for each: name, file, what became
of it, the test that saw it, seconds. Those of ``by_hand.tsv`` name their tests, ``judged.tsv`` names one for each of
those drawn; others are reached by marks. What no test has to see is left out, but where ``--only`` names it.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from queue import Empty, Queue

from tests.costs import seconds_by_test
from tests.mutants.entered import entered_by_test
from tests.mutants.faults import LISTS, ROOT, faults_of, judgements
from tests.mutants.reach import Reach

SEEN = ["--hypothesis-profile=seen"]
"""Examples that fail are not made smaller."""
FIRST = 25
"""So many tests are run at first, the cheapest of as many modules; then all others, while time is left."""


def chosen(tests, seconds):
    """Return tests in the order in which they are tried: the cheapest of each module, then the next cheapest."""
    by_module = {}
    for test in sorted(tests, key=lambda one: (seconds(one), one)):
        by_module.setdefault(test.partition("::")[0], []).append(test)
    turns = [(place, seconds(test), test) for all_ in by_module.values() for place, test in enumerate(all_)]
    return [test for *_, test in sorted(turns)]


class Copy:
    """A checkout of its own, in which faults come and go."""

    def __init__(self, source, place):
        self.root = Path(place)
        ignore = shutil.ignore_patterns(".git", ".venv", ".hypothesis", "demo", ".mypy_cache", ".ruff_cache")
        shutil.copytree(source, self.root, ignore=ignore, symlinks=True)
        for name in (".git", ".venv"):
            if (Path(source) / name).exists():
                (self.root / name).symlink_to((Path(source) / name).resolve())

    def run(self, tests, seconds, options):
        """Run tests until one fails; return the one that failed, "" where none did, or "out of time"."""
        env = os.environ | {"PYTHONPATH": str(self.root), "PYTHONDONTWRITEBYTECODE": "1"}
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-x",
            "-q",
            "-p",
            "no:cacheprovider",
            "-p",
            "no:benchmark",
            *SEEN,
            *options,
        ]
        with subprocess.Popen(
            [*command, *tests], cwd=self.root, env=env, text=True, start_new_session=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        ) as running:  # fmt: skip
            try:
                said, _ = running.communicate(timeout=seconds)
            except subprocess.TimeoutExpired:
                os.killpg(running.pid, signal.SIGKILL)
                running.communicate()
                return "out of time"
        if running.returncode in (0, 5):
            return ""
        seen = re.search(r"^(?:FAILED|ERROR) (.+?)(?: - |$)", said, re.MULTILINE)
        if seen is None and running.returncode in (3, 4):
            raise RuntimeError(f"pytest could not run {tests[:3]}: {said[-2000:]}")
        return seen[1] if seen else f"exit code {running.returncode}"


def judge(fault, copy, tests, options, budget):
    """Return what became of a fault: ("caught", test), ("survived", how many were run) or ("out of time", ...)."""
    file = copy.root / fault.file
    clean = file.read_text()
    file.write_text(fault.applied(clean))
    began, run = time.monotonic(), 0
    try:
        while tests and time.monotonic() - began < budget:
            some, tests = tests[:FIRST], tests[FIRST:]
            seen = copy.run(some, max(budget - (time.monotonic() - began), 30.0), options)
            if seen == "out of time":
                return "out of time", f"after {run} tests"
            if seen:
                return "caught", seen
            run += len(some)
        return ("survived" if not tests else "out of time"), f"{run} tests"
    finally:
        file.write_text(clean)


def seen_before(file, root):
    """Return {fault: what saw it in an earlier run}: a function of a test, or its module where it is there no more."""
    seen = {}
    for line in Path(file).read_text().splitlines():
        fault, _, what, test, _ = line.split("\t")
        module, _, function = test.partition("[")[0].partition("::")
        if what == "caught" and not module.startswith("tests/"):
            seen[fault] = "tests/test_doctests.py"
        elif what == "caught" and (Path(root) / module).is_file():
            there = f"def {function}(" in (Path(root) / module).read_text()
            seen[fault] = f"{module}::{function}" if there else module
    return seen


def main():
    ask = argparse.ArgumentParser(prog="python -m tests.mutants")
    ask.add_argument(
        "--marks", help="the folder of `python -m tests.mutants.entered`; without it only tests that are named or seen"
    )
    ask.add_argument("--seen", help="the lines of an earlier run: what saw a fault there is tried first")
    ask.add_argument("--kind", nargs="*", default=list(LISTS), choices=LISTS)
    ask.add_argument("--only", nargs="*", help="names of faults, such as hand-7")
    ask.add_argument("--budget", type=float, default=600.0, help="seconds for one fault")
    ask.add_argument("--named", action="store_true", help="only tests that a fault names, where it names some")
    ask.add_argument("--jobs", type=int, default=2)
    ask.add_argument("--source", default=str(ROOT), help="the checkout that is copied")
    ask.add_argument("--out", help="a file that gets the lines, too")
    ask.add_argument("--options", default="", help="more options of pytest, such as --deep")
    asked = ask.parse_args()
    reach, seconds = Reach(*entered_by_test(asked.marks)) if asked.marks else None, seconds_by_test()
    before = seen_before(asked.seen, asked.source) if asked.seen else {}
    needless = {one.name for one in judgements() if one.verdict != "caught"}
    faults = [
        one for kind in asked.kind for one in faults_of(kind)
        if (one.name in asked.only if asked.only else one.name not in needless)
    ]  # fmt: skip
    wait, done, lock = Queue(), [], threading.Lock()
    for fault in faults:
        wait.put(fault)

    def say(*fields):
        line = "\t".join(fields)
        print(line, flush=True)
        if asked.out is not None:
            with Path(asked.out).open("a") as out:
                out.write(f"{line}\n")

    def work(number, folder):
        copy = Copy(asked.source, Path(folder) / f"copy-{number}")
        while True:
            try:
                fault = wait.get_nowait()
            except Empty:
                return
            first = [*fault.tests, *([before[fault.name]] if fault.name in before else [])]
            enough = reach is None or (first and asked.named)
            tests = first + ([] if enough else [t for t in chosen(reach.of(fault), seconds) if t not in first])
            began = time.monotonic()
            what, why = judge(fault, copy, tests, asked.options.split(), asked.budget) if tests else ("unreached", "")
            with lock:
                done.append((fault, what))
                say(fault.name, fault.file, what, why, f"{time.monotonic() - began:.0f}")

    with tempfile.TemporaryDirectory() as folder:
        threads = [threading.Thread(target=work, args=(n, folder)) for n in range(asked.jobs)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
    caught = sum(what == "caught" for _, what in done)
    print(f"{caught} of {len(done)} caught", file=sys.stderr)


if __name__ == "__main__":
    main()
