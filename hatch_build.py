"""What a release has and a checkout has not: compiled kernels, and links that work outside of it.

``DTOSS_COMPILED=1`` asks for kernels that are compiled for any processor of this platform. The wheel is one for this
Python and platform then; without, it is the pure one, which installs everywhere.

``DTOSS_URL`` says where the project is published, as ``https://HOST/OWNER/NAME``. The metadata names it then, and links
and images of the README lead there, to the tag of this version.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

LINK = re.compile(r"(!?)\[([^\]]*)\]\((?![a-z]+:|#)([^)\s]+)\)")


class CompiledKernels(BuildHookInterface):
    """Compiles before the wheel is packed, and adds what was compiled."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add ``dtoss/compiled/shipped`` to the files of the wheel."""
        if os.environ.get("DTOSS_COMPILED") != "1":
            return
        root = Path(self.root)
        self._made = Path(self.directory) / "compiled-kernels"
        code = """
import sys
from dtoss.warm import make_generic
make_generic(sys.argv[1])
"""
        run = [sys.executable, "-B", "-c", code, str(self._made)]
        subprocess.run(run, cwd=root, env=os.environ | {"PYTHONPATH": str(root)}, check=True)
        for file in sorted(self._made.glob("*.nbc")):
            build_data["force_include"][str(file)] = f"dtoss/compiled/shipped/{file.name}"
        build_data["pure_python"] = False
        build_data["infer_tag"] = True

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove what was compiled; it is in the wheel."""
        if hasattr(self, "_made"):
            shutil.rmtree(self._made, ignore_errors=True)


class PublishedPlace(MetadataHookInterface):
    """Says where the project is published, and the README as it reads there."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Add ``urls`` and ``readme``."""
        url, text = os.environ.get("DTOSS_URL", "").rstrip("/"), (Path(self.root) / "README.md").read_text("utf-8")
        metadata["urls"] = {}
        if url:
            metadata["urls"] = {"Repository": url, "Issues": f"{url}/issues", "Changelog": f"{url}/releases"}
            text = absolute(text, url, f"v{metadata['version']}")
        metadata["readme"] = {"content-type": "text/markdown", "text": text}


def absolute(text: str, url: str, tag: str) -> str:
    """Return Markdown whose relative links lead to files of a tag at ``url``, and whose images to their bytes."""
    return LINK.sub(lambda m: f"{m[1]}[{m[2]}]({url}/{'raw' if m[1] else 'blob'}/{tag}/{m[3]})", text)
