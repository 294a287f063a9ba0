"""The pool: its queue is counted, work that nobody waits for stops, and a client that went away frees its place."""

import asyncio
import os
import threading
from concurrent.futures import Future
from types import SimpleNamespace

import pytest

from dtoss.serve.core import pool as pool_module
from dtoss.serve.core.pool import ClientGone, Pool, Until, WorkStopped
from dtoss.serve.core.problems import Problem

LONG = 10.0


class Told:
    def __init__(self):
        self.most = 0
        self.last = None

    def waiting(self, requests):
        self.most, self.last = max(self.most, requests), requests


@pytest.fixture
def made():
    pools = []

    def make(threads=1, queue=2, seconds=LONG, **more):
        told = Told()
        pools.append(Pool(threads, queue, seconds, told, **more))
        return pools[-1], told

    yield make
    for one in pools:
        one.close()


async def until(true):
    """Wait until something holds."""
    async with asyncio.timeout(60):
        while not true():
            await asyncio.sleep(0.005)


def client():
    """A request whose body was read, and what makes its client go away."""
    left = asyncio.Event()

    async def receive():
        await left.wait()
        return {"type": "http.disconnect"}

    return SimpleNamespace(receive=receive), left


def test_threads_stand_back_behind_the_loop(made):
    async def scene():
        pool, _ = made()
        return await pool.run(None, lambda stop: os.getpriority(os.PRIO_PROCESS, threading.get_native_id()))

    assert asyncio.run(scene()) == pool_module.NICE


def test_work_is_done_in_a_thread_and_its_error_is_raised(made):
    async def scene():
        pool, told = made()
        assert await pool.run(None, lambda stop: threading.current_thread().name) != threading.current_thread().name
        with pytest.raises(KeyError, match="no such"):
            await pool.run(None, lambda stop: {}["no such"])
        assert pool.inside == told.last == 0

    asyncio.run(scene())


def test_one_more_than_the_queue_holds_is_sent_away_and_pieces_of_begun_answers_are_not(made):
    async def scene():
        pool, told = made(threads=1, queue=2)
        go = threading.Event()
        running = [asyncio.ensure_future(pool.run(None, lambda stop: go.wait(LONG))) for _ in range(3)]
        await until(lambda: pool.inside == 3)
        assert told.most == 2
        with pytest.raises(Problem) as caught:
            await pool.run(None, lambda stop: 1)
        assert (caught.value.status, caught.value.retry_after, caught.value.bound) == (503, 1, 2)
        piece = asyncio.ensure_future(pool.run(None, lambda stop: "piece", admitted=True))
        await until(lambda: pool.inside == 4)
        go.set()
        assert await asyncio.gather(*running, piece) == [True, True, True, "piece"]
        assert pool.inside == 0

    asyncio.run(scene())


def test_work_that_takes_too_long_is_answered_and_stops_where_it_next_asks(made):
    async def scene():
        pool, _ = made(seconds=0.05)
        ended = []

        def work(stop):
            try:
                while True:
                    stop.check()
            except WorkStopped:
                ended.append("stopped")
                raise

        with pytest.raises(Problem) as caught:
            await pool.run(None, work)
        assert (caught.value.status, caught.value.bound) == (503, 0.05)
        await until(lambda: pool.inside == 0)
        assert ended == ["stopped"]

    asyncio.run(scene())


@pytest.mark.parametrize("begun", [True, False])
def test_a_client_that_goes_away_frees_its_place(made, begun):
    """Whether a thread works for it or it still waits for one: what waits is never begun."""

    async def scene():
        pool, _ = made(threads=1, queue=1)
        go = threading.Event()
        worked = []
        if not begun:
            other = asyncio.ensure_future(pool.run(None, lambda stop: go.wait(LONG)))
            await until(lambda: pool.inside == 1)

        def work(stop):
            worked.append(1)
            while not go.wait(0.001):
                stop.check()

        request, left = client()
        ours = asyncio.ensure_future(pool.run(request, work))
        await until(lambda: pool.inside == 1 + (not begun))
        await asyncio.sleep(2 * pool_module.WATCHED_FROM)
        left.set()
        with pytest.raises(ClientGone):
            await ours
        await until(lambda: pool.inside == (not begun))
        go.set()
        if not begun:
            await other
            assert worked == []

    asyncio.run(scene())


def test_what_nobody_waits_for_is_done_and_its_error_told(made):
    async def scene():
        errors = []
        pool, _ = made(failed=errors.append)
        done = threading.Event()
        pool.submit(done.set)
        pool.submit(lambda: 1 / 0)
        await until(lambda: errors and done.is_set())
        assert isinstance(errors[0], ZeroDivisionError)

    asyncio.run(scene())


def test_a_closed_pool_says_that_the_server_is_ending(made):
    async def scene():
        pool, _ = made()
        pool.close()
        with pytest.raises(Problem, match="ending"):
            await pool.run(None, lambda stop: 1)
        assert pool.inside == 0

    asyncio.run(scene())


class Ahead(asyncio.SelectorEventLoop):
    """A loop whose clock can be put forward."""

    ahead = 0.0

    def time(self):
        return super().time() + self.ahead


def steps(begun, seen):
    """Work that waits for others, and what it has done."""

    async def work(stop):
        seen.append(threading.current_thread().name)
        try:
            await Until(begun)
            seen.append(threading.current_thread().name)
            return [one.result() for one in begun]
        finally:
            seen.append("left")

    return work


def test_who_waits_for_others_holds_no_thread(made):
    """Nor a place in the queue, of which it has one of its own; it goes on in a thread, once all is done."""

    async def scene():
        pool, _ = made(threads=1, queue=2)
        begun, seen = [Future(), Future()], []
        waiting = [asyncio.ensure_future(pool.run_steps(None, steps(begun, seen))) for _ in range(2)]
        await until(lambda: pool.elsewhere == 2)
        assert pool.inside == 0
        assert await pool.run(None, lambda stop: "at once") == "at once"
        with pytest.raises(Problem, match="2 requests wait for other servers already") as caught:
            await pool.run_steps(None, steps(begun, []))
        assert (caught.value.status, caught.value.limit) == (503, "pool_queue")
        begun[0].set_result(1)
        assert await pool.run(None, lambda stop: "still") == "still"
        assert not any(one.done() for one in waiting)
        begun[1].set_result(2)
        assert await asyncio.gather(*waiting) == [[1, 2], [1, 2]]
        assert set(seen) == {"pool_0", "left"}
        # what is there already is not waited for
        assert await pool.run_steps(None, steps(begun, [])) == [1, 2]
        assert pool.inside == pool.elsewhere == 0

    asyncio.run(scene())


@pytest.mark.parametrize("how", ["time", "client", "error"])
def test_the_time_and_the_client_of_who_waits_for_others_are_looked_after(made, how):
    """The time runs while it waits; whoever is left there ends what it has begun."""

    async def scene():
        loop = asyncio.get_running_loop()
        pool, _ = made(threads=1, queue=2, seconds=1e6)
        begun, seen = Future(), []
        request, left = client()
        ours = asyncio.ensure_future(pool.run_steps(request, steps([begun], seen)))
        await until(lambda: pool.elsewhere == 1)
        if how == "time":
            loop.ahead = 1e6
            with pytest.raises(Problem) as caught:
                await ours
            assert (caught.value.status, caught.value.limit) == (503, "pool_seconds")
        elif how == "client":
            await asyncio.sleep(2 * pool_module.WATCHED_FROM)
            left.set()
            with pytest.raises(ClientGone):
                await ours
        else:
            begun.set_exception(KeyError("it is away"))
            with pytest.raises(KeyError, match="away"):
                await ours
        assert seen[-1] == "left"
        await until(lambda: pool.inside == pool.elsewhere == 0)

    with asyncio.Runner(loop_factory=Ahead) as runner:
        runner.run(scene())
