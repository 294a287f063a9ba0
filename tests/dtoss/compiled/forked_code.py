"""Code in processes of its own that have numba loaded and nothing else: forked from one that does only that.

Run as a script: reads a line of JSON for each, and answers by a line how it ended.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path

from tests.ends import end_now


class Forking:
    """The process that forks; a context, at whose end it ends."""

    def __enter__(self):
        run = [sys.executable, "-B", "-P", __file__]
        self.process = subprocess.Popen(run, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait(60)

    def run(self, code, cwd, env, path):
        """Run code in a folder, with this environment and these places to import from; return how it ended."""
        with tempfile.TemporaryDirectory() as folder:
            out, err = Path(folder, "out"), Path(folder, "err")
            asked = {"code": code, "cwd": str(cwd), "env": dict(env), "path": path, "out": str(out), "err": str(err)}
            self.process.stdin.write(json.dumps(asked) + "\n")
            self.process.stdin.flush()
            ended = int(self.process.stdout.readline())
            return subprocess.CompletedProcess([], ended, out.read_text(), err.read_text())


def main():
    """Load numba with what it loads when it first compiles, and fork as often as is asked for."""
    import numba

    numba.njit("int64(int64)")(lambda x: x + 1)
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            run(**json.loads(line))
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


def run(code, cwd, env, path, out, err):
    """Be the process that runs it."""
    ended = 1
    try:
        os.environ.clear()
        os.environ.update(env)
        os.chdir(cwd)
        sys.path[:0] = path
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        for number, target in ((1, out), (2, err)):
            os.dup2(os.open(target, os.O_WRONLY | os.O_CREAT), number)
        exec(code, {"__name__": "__main__"})
        ended = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        end_now(ended)


if __name__ == "__main__":
    main()
