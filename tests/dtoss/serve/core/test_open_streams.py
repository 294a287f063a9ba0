"""Streams of a worker: so many and no more, woken all of them, ended together."""

from __future__ import annotations

import asyncio

import pytest

from dtoss.serve.core.open_streams import STREAMS_A_TURN, OpenStreams
from dtoss.serve.core.problems import Problem


class One:
    def __init__(self):
        self.woken = asyncio.Event()


def test_so_many_and_no_more():
    async def run():
        streams = OpenStreams("live", 2, "for pages")
        first = streams.add(One)
        streams.add(One)
        with pytest.raises(
            Problem, match="2 streams are open: at most 2 are allowed; ask again later, or for pages"
        ) as told:
            streams.add(One)
        assert (told.value.status, told.value.limit, told.value.value, told.value.bound) == (503, "live", 2, 2)
        streams.forget(first)
        streams.forget(first)
        assert len(streams) == 1
        streams.add(One)
        assert not any(stream.woken.is_set() for stream in streams.held())
        streams.end()
        assert all(stream.woken.is_set() for stream in streams.held())
        with pytest.raises(Problem, match="the server is ending"):
            streams.add(One)

    asyncio.run(run())


def test_all_are_woken_and_others_have_their_turn_between():
    async def run():
        streams, turns = OpenStreams("live", 1_000), []
        some = [streams.add(One) for _ in range(3 * STREAMS_A_TURN + 1)]

        async def others():
            while True:
                turns.append(sum(stream.woken.is_set() for stream in some))
                await asyncio.sleep(0)

        beside = asyncio.create_task(others())
        await streams.wake()
        beside.cancel()
        assert all(stream.woken.is_set() for stream in some)
        assert turns == [*(STREAMS_A_TURN * i for i in range(1, 4)), len(some)]

    asyncio.run(run())


def test_one_task_runs_while_there_are_streams():
    async def run():
        streams, begun = OpenStreams("live", 10), []

        async def pump():
            begun.append(1)
            while streams.heard:
                await asyncio.sleep(0)

        for _ in range(3):
            one = streams.add(One)
            streams.pumped(pump)
        await asyncio.sleep(0)
        assert len(begun) == 1
        for each in streams.held():
            streams.forget(each)
        for _ in range(5):
            await asyncio.sleep(0)
        streams.add(lambda: one)
        streams.pumped(pump)
        await asyncio.sleep(0)
        assert len(begun) == 2
        streams.end()

    asyncio.run(run())
