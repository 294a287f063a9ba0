"""Files of a release as a newer one would write them: the number of their format raised, all hashes as they have to be.

    PYTHON tests/raised_formats.py FOLDER

raises each in turn in a copy of the folder and prints what the release of that Python says of it.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq


def canonical(value):
    """JSON as commits and specs are hashed."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def commit(folder, change):
    """Change the document of the newest commit of a folder."""
    path = max((folder / "commits").glob("*.json"))
    said = json.loads(path.read_bytes())
    del said["sha256"]
    change(said["document"])
    path.write_bytes(canonical(said | {"sha256": hashlib.sha256(canonical(said)).hexdigest()}) + b"\n")


def raise_format(document):
    """Say the next format."""
    document["format"] += 1


def snapshot(folder):
    """The manifest of the current snapshot, and the commit that has its hash."""
    store = folder / "store"
    path = max((store / "snapshots").glob("*/manifest.json"))
    manifest = json.loads(path.read_bytes())
    raise_format(manifest)
    path.write_text(json.dumps(manifest))
    commit(store, lambda said: said.update(sha256=hashlib.sha256(path.read_bytes()).hexdigest()))


def spec(folder):
    """What windows are asked for."""
    path = folder / "store" / "windows" / "fleet" / "spec.json"
    body = json.loads(path.read_bytes())
    body.pop("sha256", None)
    raise_format(body)
    path.write_bytes(canonical(body | {"sha256": hashlib.sha256(canonical(body)).hexdigest()}) + b"\n")


def plan(folder):
    """A plan."""
    path = folder / "plan.json"
    said = json.loads(path.read_bytes())
    raise_format(said)
    path.write_text(json.dumps(said))


def patterns(folder):
    """Patterns, whose metadata say the format."""
    path = folder / "live.parquet"
    table = pq.read_table(path)
    found = dict(table.schema.metadata)
    key = next(name for name, value in found.items() if b'"format"' in value)
    about = json.loads(found[key])
    raise_format(about)
    pq.write_table(table.replace_schema_metadata({**found, key: json.dumps(about)}), path)


STORE = ("--store", "store")
SERVE = ("serve", *STORE, "--plan", "plan.json", "--server", "0", "--peers", "peers.toml", "--port", "0")
RAISED = {
    "snapshot": (snapshot, ("knn", *STORE, "--at", "8.1", "50.1")),
    "watch": (lambda at: commit(at / "store" / "watch" / "default", raise_format), ("events", *STORE)),
    "windows": (
        lambda at: commit(at / "store" / "windows" / "fleet", raise_format),
        ("windows", "show", *STORE, "--name", "fleet"),
    ),
    "spec of windows": (spec, ("windows", "show", *STORE, "--name", "fleet")),
    "history": (lambda at: commit(at / "history", raise_format), ("history", "info", "--history", "history")),
    "live patterns": (
        lambda at: commit(at / "store" / "patterns" / "live", raise_format),
        ("patterns", "--live", *STORE, "--out", "new.parquet"),
    ),
    "plan": (plan, SERVE),
    "patterns": (patterns, ("plan", "live.parquet", "--servers", "m7g-2026", "--out", "new.json")),
}
"""By name: what raises the format, and a command that reads it."""


def main(folder):
    """Print what each command says."""
    for name, (change, words) in RAISED.items():
        copy = Path(folder).with_name("raised")
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(folder, copy)
        change(copy)
        ran = subprocess.run(
            [sys.executable, "-m", "dtoss", *words], cwd=copy, capture_output=True, text=True, timeout=300
        )
        print(f"{name}: {ran.returncode} {ran.stdout!r} {ran.stderr!r}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
