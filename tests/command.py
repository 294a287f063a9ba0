"""A ``dtoss`` command in this process, and what became of it."""

from __future__ import annotations

import io
import json
import sys
from typing import NamedTuple

import pytest

from pipelines.command.main import main


class Ran(NamedTuple):
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def json(self):
        """What it printed for programs."""
        return json.loads(self.out)

    @property
    def lines(self):
        """The lines of stdout, and those of stderr."""
        return self.out.splitlines(), self.err.splitlines()


class Command:
    """Runs commands, each as if nothing had told it to be quiet: ``command("info", "--store", path)`` is a `Ran`."""

    def __init__(self, captured, monkeypatch):
        self.captured = captured
        self.monkeypatch = monkeypatch

    def __call__(self, *words, stdin=None):
        self.captured.readouterr()
        self.monkeypatch.setenv("DTOSS_QUIET", "compiling")
        if stdin is not None:
            self.monkeypatch.setattr(sys, "stdin", io.StringIO(stdin))
        with pytest.raises(SystemExit) as end:
            main([str(word) for word in words])
        return Ran(end.value.code or 0, *self.captured.readouterr())

    def works(self, *words, stdin=None):
        """How a command has ended, which has ended well."""
        ran = self(*words, stdin=stdin)
        assert ran.code == 0, ran.err
        return ran

    def fails(self, *words):
        """The one line on stderr, without ``error: ``, of a command that a user has got wrong."""
        ran = self(*words)
        assert (ran.code, ran.out) == (2, ""), ran
        assert ran.err.startswith("error: "), ran
        assert ran.err.count("\n") == 1, ran
        return ran.err.removeprefix("error: ").rstrip("\n")
