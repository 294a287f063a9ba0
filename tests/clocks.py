"""Clocks that tests set."""

from types import SimpleNamespace


def clocked(monkeypatch, module, now):
    """Let a module have the time, in seconds, that a function says."""
    monkeypatch.setattr(module, "time", SimpleNamespace(time=now, monotonic=now, time_ns=lambda: int(now() * 1e9)))
