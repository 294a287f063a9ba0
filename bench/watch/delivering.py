"""How fast `dtoss deliver` is: python -m bench.watch.delivering [--events N].

A watch with a hundred subscriptions tells so many events. They are delivered to a web server on loopback, a file,
Redis, MQTT and Kafka (a cluster that librdkafka makes believe). MQTT and Kafka take turns with their clients alone,
which send the same lines. Goals: 20,000 events a second of this process's time to a web server, and half of the rate
of a client. What is not installed is left out.
"""

from __future__ import annotations

import base64
import json
import os
import socket
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import typer

from bench.peers.agreeing import Missing
from bench.peers.servers import free_port, program_at, redis_server, served
from datasets.tables.command import run, say
from dtoss.client.endpoint import Access
from dtoss.watch.events.consumer import Share
from dtoss.watch.events.event_lines import json_lines
from dtoss.watch.events.event_log import events
from dtoss.watch.events.readers import Filter
from dtoss.watch.events.watch_document import begun_watch
from dtoss.watch.targets.target import target_at
from dtoss.watch.watch_folder import Home
from pipelines.command.main import main as dtoss
from pipelines.command.watch.deliver_events import How, hand_on

SUBSCRIPTIONS = 100
SECRET = "whsec_" + base64.b64encode(bytes(32)).decode()
MOST_IN_FLIGHT = 1_000
"""Messages of MQTT that are not acknowledged."""


def watch_of(folder: Path, count: int) -> Home:
    """Return a watch that has told so many events."""
    home = Home(str(folder / "store"))
    asked = [{"id": f"s{one}", "where": f"bucket = {one}"} for one in range(SUBSCRIPTIONS)]
    (folder / "asked.jsonl").write_text("".join(json.dumps(one) + "\n" for one in asked))
    rows = np.arange(count)
    places = {"lon": rows % 360 - 179.5, "lat": rows % 179 - 89.5, "t": rows, "bucket": rows % SUBSCRIPTIONS}
    pq.write_table(pa.table({"id": rows, **places}), folder / "rows.parquet")
    for words in (["subscribe", str(folder / "asked.jsonl")], ["watch", str(folder / "rows.parquet"), "--once"]):
        with suppress(SystemExit):
            dtoss([*words, "--store", home.store, "--quiet"])
    return home


def receive(listening: socket.socket) -> None:
    """Answer each request of one connection after the other, once its body has come."""
    while True:
        near, _ = listening.accept()
        with near, near.makefile("rb") as asked:
            while head := asked.readline():
                length = 0
                while head.strip():
                    name, _, value = head.partition(b":")
                    length = int(value) if name.lower() == b"content-length" else length
                    head = asked.readline()
                asked.read(length)
                near.sendall(b"HTTP/1.1 204 No Content\r\n\r\n")


@contextmanager
def receiver() -> Iterator[str]:
    """The URL of a web server that takes everything."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        process = get_context("fork").Process(target=receive, args=[listening], daemon=True)
        process.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/"
        process.terminate()


@contextmanager
def broker(folder: Path) -> Iterator[int]:
    """The port of a Mosquitto."""
    port, config = free_port(), folder / "mosquitto.conf"
    config.write_text(f"listener {port} 127.0.0.1\nallow_anonymous true\n")
    command = [program_at("mosquitto", "/usr/sbin"), "-c", str(config)]
    with served(command, lambda: socket.create_connection(("127.0.0.1", port)).close()):
        yield port


def by_paho(port: int, lines: list[bytes]) -> None:
    """Send lines by the client alone, with QoS 1."""
    import paho.mqtt.client as paho

    client = paho.Client(paho.CallbackAPIVersion.VERSION2)
    client.max_inflight_messages_set(MOST_IN_FLIGHT)
    client.connect("127.0.0.1", port)
    client.loop_start()
    for begin in range(0, len(lines), MOST_IN_FLIGHT):  # acknowledgements cost what is in flight
        for one in [client.publish("t", line, qos=1) for line in lines[begin : begin + MOST_IN_FLIGHT]]:
            one.wait_for_publish()
    client.disconnect()
    client.loop_stop()


def by_librdkafka(servers: str, keyed: list[tuple[str, str, bytes]]) -> None:
    """Send lines by the client alone, with the same keys and headers."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True, "linger.ms": 5, "log_level": 0})
    for name, key, line in keyed:
        while True:
            try:
                producer.produce("t", line, key, headers=[("id", name)])
                break
            except BufferError:
                producer.poll(0.01)
    producer.flush()


def main(
    count: Annotated[int, typer.Option("--events", help="That are delivered.")] = 200_000,
    batch: Annotated[int, typer.Option(help="Events at a time; as usual when 0.")] = 0,
    times: Annotated[int, typer.Option(help="Runs of each.")] = 3,
) -> int:
    """Measure rates."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        home = watch_of(folder, count)
        settings = begun_watch(home).settings
        tables = list(events(home))
        lines = [line for table in tables for line in bytes(json_lines(table, settings)).splitlines()]
        keys = [key for table in tables for key in table.column("subscription").to_pylist()]
        keyed = [(line[7:30].partition(b'"')[0].decode(), key, line) for key, line in zip(keys, lines, strict=True)]
        say(f"{len(lines):,} events of {sum(map(len, lines)) // len(lines)} bytes")
        good = True

        def deliver(url: str, number: int) -> None:
            access = Access(SECRET if url.startswith("http") else None, frozenset(["127.0.0.1"]), 60.0)
            target = target_at(url, access)
            hand_on(home, f"r{number}", None, Filter(), Share(), How(target, batch=batch or target.batch))

        numbers = iter(range(1_000))

        def rate(work: Callable[[], Any]) -> tuple[float, float]:
            wall, own = time.perf_counter(), time.process_time()
            work()
            return len(lines) / (time.perf_counter() - wall), len(lines) / (time.process_time() - own)

        def measure_rate(
            name: str, url: Callable[[int], str], alone: Callable[[], Any] | None = None
        ) -> tuple[float, float]:
            """Return the rate a second of this process's time, and the share of the client's own by the clock."""
            ours: list[tuple[float, float]] = []
            theirs: list[float] = []
            for _ in range(times):
                number = next(numbers)
                ours.append(rate(lambda number=number: deliver(url(number), number)))  # type: ignore[misc]
                if alone is not None:
                    theirs.append(rate(alone)[0])
            wall, own = median(one[0] for one in ours), median(one[1] for one in ours)
            share = median(one[0] / other for one, other in zip(ours, theirs, strict=True)) if theirs else 0.0
            beside = f", {share:.2f} of its client's {median(theirs):,.0f}" if theirs else ""
            say(f"{name}: {wall:,.0f} events/s by the clock, {own:,.0f} a second of this process{beside}")
            return own, share

        with receiver() as url:
            good &= measure_rate("webhooks", lambda _: url)[0] >= 20_000
        measure_rate("file", lambda number: f"file://{folder}/out{number}")
        with suppress(Missing), redis_server(folder) as (client, _):
            port = client.connection_pool.connection_kwargs["port"]
            measure_rate("redis", lambda number: f"redis://127.0.0.1:{port}/0?stream=s{number}")
        with suppress(Missing, ImportError), broker(folder) as port:
            good &= measure_rate("mqtt", lambda _: f"mqtt://127.0.0.1:{port}/t", lambda: by_paho(port, lines))[1] >= 0.5
        with suppress(ImportError):
            from confluent_kafka import Producer

            holder = Producer({"bootstrap.servers": "x", "test.mock.num.brokers": 1, "log_level": 0})
            brokers = ",".join(f"{one.host}:{one.port}" for one in holder.list_topics(timeout=60).brokers.values())
            alone = lambda: by_librdkafka(brokers, keyed)  # noqa: E731
            good &= measure_rate("kafka", lambda _: f"kafka://{brokers}/t", alone)[1] >= 0.5
        say("every goal is met" if good else "a goal is missed")
        return 0 if good else os.EX_SOFTWARE


if __name__ == "__main__":
    run(main)
