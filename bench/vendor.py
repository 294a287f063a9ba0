"""The browser libraries that go with the pages, compared with their packages: `python -m bench.vendor`.

npm fetches the packages named in `VENDOR.toml`, from wherever it is configured to. `--replace maplibre-gl=6.18.0` takes
another version: files, hashes and the version in `VENDOR.toml`.
"""

from __future__ import annotations

import hashlib
import re
import subprocess
import tarfile
import tempfile
import tomllib
from pathlib import Path
from typing import Annotated, Any

import typer

from datasets.tables.command import BadInput, run, say

VENDOR = Path(__file__).parents[1] / "dtoss" / "serve" / "static" / "vendor"
SOURCES = {
    "maplibre-gl.LICENSE.txt": "LICENSE.txt",
}
"""Files that have another name and place in their package."""


def main(
    replace: Annotated[list[str] | None, typer.Option(help="Package and version to take, such as name=1.2.3.")] = None,
) -> None:
    """Compare the vendored files with those of their packages, or replace them."""
    wanted = dict(one.partition("=")[::2] for one in replace or ())
    text = (VENDOR / "VENDOR.toml").read_text()
    packages = tomllib.loads(text)["package"]
    if unknown := wanted.keys() - {package["name"] for package in packages}:
        raise BadInput(f"{sorted(unknown)[0]} is no package of VENDOR.toml")
    differing = 0
    for package in packages:
        name, version = package["name"], wanted.get(package["name"], package["version"])
        with tempfile.TemporaryDirectory() as folder:
            fetched = fetch(name, version, Path(folder))
            for file, known in package["files"].items():
                body = (fetched / SOURCES.get(file, str(Path(package["folder"]) / file))).read_bytes()
                found = hashlib.sha256(body).hexdigest()
                if name in wanted:
                    (VENDOR / file).write_bytes(body)
                    text = text.replace(known, found)
                elif found != known or (VENDOR / file).read_bytes() != body:
                    say(f"{file} is not that of {name} {version}")
                    differing += 1
        if name in wanted:
            text = renewed(text, package, version)
        say(f"{name} {version}: {len(package['files'])} files {'replaced' if name in wanted else 'compared'}")
    (VENDOR / "VENDOR.toml").write_text(text)
    if differing:
        raise typer.Exit(1)


def fetch(name: str, version: str, folder: Path) -> Path:
    """Return the folder of a package that npm has fetched."""
    done = subprocess.run(
        ["npm", "pack", "--silent", f"{name}@{version}"], cwd=folder, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise BadInput(f"npm pack {name}@{version} failed: {done.stderr.strip().splitlines()[-1:]}")
    (packed,) = folder.glob("*.tgz")
    with tarfile.open(packed) as archive:
        archive.extractall(folder, filter="data")
    return folder / "package"


def renewed(text: str, package: dict[str, Any], version: str) -> str:
    """Return VENDOR.toml with another version of a package."""
    before = f'name = "{package["name"]}"\nversion = "{package["version"]}"'
    after = f'name = "{package["name"]}"\nversion = "{version}"'
    assert len(re.findall(re.escape(before), text)) == 1
    return text.replace(before, after)


if __name__ == "__main__":
    run(main)
