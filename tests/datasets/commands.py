"""The modules as commands in this process, with what they say."""

import runpy
import warnings

import pytest


class Command:
    """Runs ``python -m datasets.MODULE``; ``dataset("uniform", "--rows", 3)`` returns what it says on stderr."""

    def __init__(self, monkeypatch, capfd):
        self.monkeypatch, self.capfd = monkeypatch, capfd

    def __call__(self, module, *options, code=0):
        self.capfd.readouterr()
        self.monkeypatch.setattr("sys.argv", [f"datasets.{module}", *map(str, options)])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # it may be loaded already, by tests of its functions
            with pytest.raises(SystemExit) as end:
                runpy.run_module(f"datasets.{module}", run_name="__main__")
        said = self.capfd.readouterr()
        assert (end.value.code or 0) == code, said.err
        assert said.out == ""
        return said.err
