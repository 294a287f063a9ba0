"""What an older release left behind: `tests/samples/older-release.tar.xz`, unpacked where a test may change it."""

from __future__ import annotations

import json
import tarfile
from base64 import b64decode
from pathlib import Path
from typing import NamedTuple

SAMPLE = Path(__file__).parent / "samples" / "older-release.tar.xz"


class Said(NamedTuple):
    """A message between servers of that release, and what was answered."""

    route: str
    asked: bytes
    status: int
    answer: bytes


def unpack(folder, sample=SAMPLE):
    """Unpack a sample into a folder, and return that."""
    with tarfile.open(sample) as packed:
        packed.extractall(folder, filter="data")
    return folder


def heard(folder):
    """What servers of that release said to each other, by name, and the snapshot that they spoke of."""
    told = json.loads((folder / "wire.json").read_text())
    said = {
        name: Said(one["route"], b64decode(one["asked"]), one["status"], b64decode(one["answer"]))
        for name, one in told["said"].items()
    }
    return said, told["snapshot"]
