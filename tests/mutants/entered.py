"""Which functions each test enters, in its own process and in all that it starts.

``python -m tests.mutants.entered FOLDER [PYTEST ARGUMENTS]`` runs tests with marks and leaves them in the folder;
``python -m tests.mutants.entered --rooms FOLDER`` prints how many functions of each room were entered, and which not.
"""

from __future__ import annotations

import base64
import builtins
import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

from tests.mutants.recorder.sitecustomize import all_functions

HERE = Path(__file__).parent


class Marks:
    """Takes what each test has marked out of the shared file, and names the test to the processes it starts."""

    def __init__(self, folder, process):
        self.file = Path(folder) / f"{process}.tests"
        self.marks = getattr(builtins, "__entered__", None)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item, nextitem):
        os.environ["ENTERED_TEST"] = str(abs(hash_of(item.nodeid)))
        result = yield
        bits = np.frombuffer(self.marks[:], np.uint8)
        self.marks[:] = bytes(len(bits))
        with self.file.open("a") as out:
            out.write(f"{item.nodeid}\t{base64.b85encode(np.packbits(bits).tobytes()).decode()}\n")
        return result


def hash_of(text):
    """Return a short number for a test's name, the same in each process."""
    import zlib

    return zlib.crc32(text.encode())


def pytest_configure(config):
    folder = os.environ.get("ENTERED")
    if folder and hasattr(builtins, "__entered__"):
        process = getattr(config, "workerinput", {}).get("workerid", "one")
        config.pluginmanager.register(Marks(folder, process), "marks")


def entered_by_test(folder):
    """Return the names of all functions, and for each test a bool array of those that were entered for it."""
    folder = Path(folder)
    names = (folder / "names.txt").read_text().split("\n")
    found = {}
    for file in folder.glob("*.tests"):
        for line in file.read_text().splitlines():
            test, bits = line.rsplit("\t", 1)
            marks = np.unpackbits(np.frombuffer(base64.b85decode(bits), np.uint8))[: len(names)].astype(bool)
            found[test] = found.get(test, False) | marks
    by_hash = {str(hash_of(test)): test for test in found}
    by_hash["none"] = "none"
    found["none"] = np.zeros(len(names), bool)
    for file in folder.glob("*.marks"):
        test = by_hash.get(file.name.split(".")[0])
        if test is not None:
            found[test] |= np.frombuffer(file.read_bytes(), np.uint8)[: len(names)].astype(bool)
    return names, found


def room_of(name):
    """Return the folder that a function's module lies in."""
    return name.partition(":")[0].rpartition(".")[0].replace(".", "/")


def main():
    if sys.argv[1] == "--rooms":
        names, found = entered_by_test(sys.argv[2])
        any_ = np.zeros(len(names), bool)
        for marks in found.values():
            any_ |= marks
        rooms = defaultdict(lambda: [0, 0])
        for name, hit in zip(names, any_, strict=True):
            rooms[room_of(name)][0] += 1
            rooms[room_of(name)][1] += bool(hit)
        for room, (count, hits) in sorted(rooms.items()):
            print(f"{room}\t{hits}\t{count}")
        print(*[f"not entered\t{name}" for name, hit in zip(names, any_, strict=True) if not hit], sep="\n")
        return
    folder, *arguments = sys.argv[1:]
    Path(folder).mkdir(parents=True, exist_ok=True)
    (Path(folder) / "names.txt").write_text("\n".join(all_functions()))
    paths = os.pathsep.join([str(HERE / "recorder"), *filter(None, [os.environ.get("PYTHONPATH")])])
    env = os.environ | {"ENTERED": str(Path(folder).resolve()), "PYTHONPATH": paths}
    command = [sys.executable, "-m", "pytest", "-p", "tests.mutants.entered", *arguments]
    raise SystemExit(subprocess.run(command, env=env).returncode)


if __name__ == "__main__":
    main()
