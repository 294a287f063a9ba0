"""A process that was forked reads an object store, also where its parent has used the library that puts files there."""

from __future__ import annotations

import subprocess
import sys

FORKED = """
import os, signal, sys
from dtoss.snapshots.store_location import folder_of

folder = folder_of(sys.argv[1])
assert folder.create(b"first", "a")
assert folder.read("a") == b"first"
child = os.fork()
if not child:
    signal.alarm(60)
    good = [folder.read("a"), folder.read("none"), folder_of(sys.argv[1]).read("a")] == [b"first", None, b"first"]
    for _ in range(20):
        folder.read("a")
    os._exit(0 if good else 3)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
for number in range(20):
    assert folder.create(b"more", f"b{number}")
    assert folder.read(f"b{number}") == b"more"
print("whole")
"""


def test_a_forked_process_reads_what_its_parent_has_opened(bucket):
    """Neither waits for ever, and the parent lives."""
    run = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", FORKED, bucket.uri()]
    done = subprocess.run(run, capture_output=True, text=True, timeout=180, check=False)
    assert (done.returncode, done.stdout.split()) == (0, ["0", "whole"]), done.stderr
