"""Several commands in one process of their own, where some modules cannot be loaded."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.command import Ran

ROOT = Path(__file__).parents[3]
WITHOUT = """
import contextlib, io, json, sys

class Forbidden(AssertionError):
    def __init__(self, text, name):
        super().__init__(f"{name} is loaded")

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in missing:
            raise error(f"No module named {name!r}", name=name)

error, missing = {"missing": ModuleNotFoundError, "forbidden": Forbidden}[sys.argv[1]], sys.argv[2:]
sys.meta_path.insert(0, Blocker())
from pipelines.command.main import main

for line in sys.stdin.read().splitlines():
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main(json.loads(line))
        except SystemExit as end:
            code = end.code or 0
    print(json.dumps([code, out.getvalue(), err.getvalue()]))
"""


def commands_without(modules, *commands, forbidden=False):
    """How each of several commands ends, one after the other in a process without any warning.

    It has none of these modules, as if they were not installed; or none may even be looked for.
    """
    how = "forbidden" if forbidden else "missing"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", WITHOUT, how, *modules],
        cwd=ROOT, capture_output=True, text=True, timeout=600, check=False,
        input="".join(json.dumps([str(word) for word in command]) + "\n" for command in commands),
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    ended = [Ran(*json.loads(line)) for line in done.stdout.splitlines()]
    assert len(ended) == len(commands)
    return ended
