"""What the suites share: a race as a fixture of pytest-benchmark, and the table of all races at the end."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

os.environ["DTOSS_KERNELS"] = "native"  # never the code for any processor that a wheel may bring
os.environ.setdefault("OMP_NUM_THREADS", "1")  # read when pykdtree is loaded: it would use every core

import pytest

from bench.measuring.machine import processor_seconds
from bench.measuring.race import Race, Work, summary, table, timed

_RACES = pytest.StashKey[list[Race]]()


def pytest_configure(config):
    config.stash[_RACES] = []


def pytest_terminal_summary(terminalreporter, config):
    races = config.stash[_RACES]
    if races:
        terminalreporter.section("races: ours, and how many times as fast as the others")
        terminalreporter.write_line(table(races))


@pytest.fixture
def race(benchmark, request) -> Callable[..., dict[str, Any]]:
    """Time ours against others in turns and note it; returns what each answered last.

    The medians count, or the best times where several threads need cores that nothing else uses. ``processors`` notes
    the processor time of all processes as well, which hardly changes with what else the machine does.
    """

    def run(
        data: str,
        work: str,
        units: float,
        ours: Work,
        others: Mapping[str, Work],
        *,
        scale: Mapping[str, float] | None = None,
        goals: Mapping[str, float] | None = None,
        at_most: float | None = None,
        rounds: int = 5,
        warm: int = 1,
        best: bool = False,
        processors: bool = False,
    ) -> dict[str, Any]:
        times: dict[str, list[float]] = {name: [] for name in others}
        busy: dict[str, list[float]] = {name: [] for name in ("ours", *others)}
        last: dict[str, Any] = {}

        def counted(name: str, runner: Work) -> Any:
            begin = processor_seconds()
            result = runner()
            busy[name].append(processor_seconds() - begin)
            return result

        if processors:
            ours = partial(counted, "ours", ours)
            others = {name: partial(counted, name, other) for name, other in others.items()}

        turn = deque(others)

        def run_others() -> None:
            for name in turn:
                seconds, last[name] = timed(others[name], benchmark._timer)
                times[name].append(seconds)
            # each comes after another one the next time, and finds the caches as that one left them
            turn.rotate(1)

        benchmark.group = f"{data}: {work}"
        last["ours"] = benchmark.pedantic(ours, setup=run_others, rounds=rounds, warmup_rounds=warm)
        spent = {name: summary(some[warm:], best) * (scale or {}).get(name, 1.0) for name, some in times.items()}
        seconds = summary(benchmark.stats.stats.data, best)
        done = Race(data, work, units, seconds, spent, goals or {}, at_most)
        benchmark.extra_info.update({f"times {name}": round(done.ratio(name), 3) for name in spent})
        benchmark.extra_info["per_second"] = units / done.seconds
        request.config.stash[_RACES].append(done)
        if processors:
            spent = {name: summary(some[warm:], best) * (scale or {}).get(name, 1.0) for name, some in busy.items()}
            seconds = spent.pop("ours")
            request.config.stash[_RACES].append(Race(data, f"{work}, processor time", units, seconds, spent))
        return last

    return run
