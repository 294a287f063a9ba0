"""Compiled kernels in the wheel, where ``DTOSS_COMPILED=1`` asks for them: for any processor of this platform.

The wheel is one for this Python and platform then; without, it is the pure one, which installs everywhere.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


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
