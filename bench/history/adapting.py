"""Layouts of a history beside each other, still ones and those that adapt: `python -m bench.history.adapting PART`.

Costs are MB a question: bytes read, and as much for each range as could be read in its time (1 MB on an object store,
50 kB on a disk). `layouts` asks every kind of question of every layout; `phases` asks four phases in turn while layouts
adapt; `year` a made year; `streams` 200 made streams beside the best tree in hindsight. All rows are a quarter of
Cabspotting, each standing for 400: 10 GB. Nothing is timed, so the machine does not matter.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Annotated

import numpy as np
import typer
from numpy.typing import NDArray

from bench.history.aqwa_blocks import by_counters
from bench.history.layouts import by_time, reads, statics, time_order
from bench.history.online import EVERYWHERE, Online, Played, begun, leaf_of, play
from bench.history.worlds import DAY, PHASES, World, asked_at, cabspotting, made_year, phases
from bench.measuring.points import missing
from datasets.tables.command import run, say
from dtoss.history.adaptive.cost import Prices, cost_of, reads_of, run_of
from dtoss.history.adaptive.leaf_cuts_by_cost import best_cut
from dtoss.history.questions import Questions, joined_questions

OBJECT_STORE, DISK = 1e6, 5e4
"""Bytes that a request costs."""
KINDS = ("incident", "place", "day", "replay")
AQWA_LEASTS = {"128 MB": 128 * 2**20, "8 MB": 8 * 2**20}
MEGA = 1e6


def prices_at(world: World, request: float) -> Prices:
    """Return the prices of the harness: as the product has them, for the blocks of the world."""
    return Prices(request, block_rows=world.block_rows, least=max(request, 2**18))


def layouts(request: float) -> None:
    """Print ranges and MB of each kind of question for each layout that never changes."""
    world = cabspotting()
    questions, names = phases(world)
    labels = np.array(names)
    say(f"| layout | {' | '.join(KINDS)} | mean |\n|---{'|---' * (len(KINDS) + 1)}|")
    for name, make in {**statics(world), "by time": lambda: time_order(world)}.items():
        got = reads(make(), questions)
        cells, costs = [], []
        for kind in KINDS:
            mine = got[labels == kind]
            cells.append(f"{mine[:, 0].mean():,.0f} / {mine[:, 1].mean() / MEGA:,.1f}")
            costs.append(float((mine[:, 0] * request + mine[:, 1]).mean()) / MEGA)
        say(f"| {name} | {' | '.join(cells)} | {np.mean(costs):,.0f} |")


def row(name: str, cost: NDArray[np.float64], paid: NDArray[np.float64] | None = None, more: str = "") -> float:
    """Print the means of the phases and of all, rewriting apart, and return the mean with it."""
    means = [float(part.mean()) / MEGA for part in np.array_split(cost, len(PHASES))]
    extra = 0.0 if paid is None else float(paid.mean()) / MEGA
    whole = float(cost.mean()) / MEGA
    cells = " | ".join(f"{mean:,.1f}" for mean in means)
    say(f"| {name} | {cells} | {whole:,.1f} | {extra:.2f} | {whole + extra:,.1f} | {more} |")
    return whole + extra


def head() -> None:
    """Print the head of a table of phases."""
    names = " | ".join(name for name, _, _ in PHASES)
    say(f"| layout | {names} | mean | rewriting | both | |\n|---{'|---' * (len(PHASES) + 4)}|")


def by_phases(request: float, aqwa: bool) -> None:
    """Print what the four phases cost on every layout, and the goals H3, H5 and H6 beside what was measured."""
    world = cabspotting()
    questions, _ = phases(world)
    prices = prices_at(world, request)

    def costs(got: NDArray[np.int64]) -> NDArray[np.float64]:
        return np.asarray(got[:, 0] * request + got[:, 1])

    head()
    still = {name: costs(reads(make(), questions)) for name, make in statics(world).items()}
    means = {name: row(name, cost) for name, cost in still.items()}
    for name, least in AQWA_LEASTS.items() if aqwa else ():
        whole, _ = by_counters(world, questions, least)
        label = f"AQWA as written, minCount {name}"
        means[label] = row(label, costs(whole.read), whole.paid, f"{whole.cuts} cuts")
    elsewhere = costs(reads(time_order(world), questions))
    means["two copies"] = row("two copies by hand: by time, and day files", np.minimum(elsewhere, still[_DAY]))
    for leaves in (64, 256, 1024):
        both_orders(world, questions, elsewhere, prices, leaves, means)
    one = begun(world, 64, prices)
    played = play(one, questions)
    row("one order, 64 leaves, adapting", played.cost, played.paid, told(one))
    goals(means)


_DAY = "day files, Hilbert inside"


def both_orders(
    world: World,
    questions: Questions,
    elsewhere: NDArray[np.float64],
    prices: Prices,
    leaves: int,
    means: dict[str, float],
) -> None:
    """Print ours, with and without adapting, from so many leaves."""
    name = f"ours: by time, and by place in {leaves:,} leaves"
    never = play(begun(world, leaves, prices), questions, elsewhere, adapting=False)
    means[f"never {leaves}"] = row(f"{name}, never cut", never.cost)
    ours = begun(world, leaves, prices)
    played = play(ours, questions, elsewhere, wastes=True)
    means[f"ours {leaves}"] = row(f"{name}, adapting", played.cost, played.paid, told(ours))
    hotspot = slice(len(questions) // 8, len(questions) // 4)
    share = played.cost[hotspot].mean() / never.cost[hotspot].mean()
    each = [
        float(a.mean() / b.mean())
        for a, b in zip(*(np.array_split(one.cost, len(PHASES)) for one in (played, never)), strict=True)
    ]
    say(
        f"\n{leaves:,} leaves: second half of phase I costs {share:.3f} of never cut; phases "
        f"{', '.join(f'{ratio:.3f}' for ratio in each)}; rewritten {ours.rewritten / size_of(world):.3f} of the data, "
        f"{ours.rewritten / MEGA:,.0f} MB, of {played.wasted.sum() / MEGA:,.0f} MB read in vain\n"
    )


def size_of(world: World) -> float:
    """Return the bytes of all rows."""
    return len(world.t) * world.row_bytes


def told(online: Online) -> str:
    """Return what was cut and merged, and what was looked at for it."""
    return (
        f"{online.cuts} cuts, {online.merges} merges, {online.rewritten / MEGA:,.0f} MB rewritten, "
        f"{online.looked / MEGA:,.0f} MB looked at"
    )


def goals(means: dict[str, float]) -> None:
    """Print H3: the mean of ours beside those of others."""
    ours = means["ours 1024"]
    single = {name: mean for name, mean in means.items() if not name.startswith(("ours", "never", "two", "AQWA"))}
    best = min(single, key=lambda name: single[name])
    against = {
        f"best single layout ({best})": (single[best], 1 / 3),
        _DAY: (means[_DAY], 1 / 5),
        "z-order, rg 12,800": (means["z-order (x, y, t), rg 12,800"], 1 / 8),
        "hour files": (means["hour files, arrival order, rg 12,800"], 1 / 50),
        "two copies by hand": (means["two copies"], 0.9),
    }
    against |= {name: (mean, 1 / 50) for name, mean in means.items() if name.startswith("AQWA")}
    for name, (mean, goal) in against.items():
        say(f"ours / {name}: {ours / mean:.3f} (goal {goal:.3f}) {'goal' if ours <= goal * mean else 'MISSED'}")


def year(request: float, rows: int, periods: int) -> None:
    """Print what "place" costs in a made year: day files, and our place order of some periods of equal length."""
    world = made_year(rows)
    rng = np.random.default_rng(3)
    prices = prices_at(world, request)
    spots = rng.integers(0, len(world.hotspots), 300)
    for kind in KINDS:
        asked = asked_at(world, kind, spots, rng)
        days = cost_of(reads(by_time(world, DAY, "hilbert", world.block_rows), asked), prices)
        total = np.zeros((len(asked), 2), np.int64)
        edges = np.linspace(0, len(world.t), periods + 1).astype(int)
        for begin, end in itertools.pairwise(edges):
            part = replace(world, xy=world.xy[begin:end], t=world.t[begin:end], ids=world.ids[begin:end])
            total += begun(part, max(1024 // periods, 1), prices).reads(asked)
        ours = np.minimum(cost_of(total, prices), cost_of(reads(time_order(world), asked), prices))
        say(
            f"| {kind} | {days.mean() / MEGA:,.0f} | {ours.mean() / MEGA:,.0f} | {ours.mean() / days.mean():.2f} | "
            f"{total[:, 0].mean():,.0f} / {total[:, 1].mean() / MEGA:,.1f} |"
        )


STREAM_QUESTIONS, BLOCK, ROWS, TURN = 600, 16, 8_000, 5
"""Of a made stream: questions, rows of a block, rows in all, and after how many questions it adapts."""


def stream(seed: int) -> tuple[World, Questions, str]:
    """Return a made world, questions about it, and what kind of stream it is."""
    rng = np.random.default_rng(seed)
    xy = np.concatenate([rng.uniform(0, 10_000, (ROWS // 2, 2)), rng.normal(5_000, 1_500, (ROWS - ROWS // 2, 2))])
    t = np.sort(rng.uniform(0, 30 * DAY, ROWS))
    world = World(xy, t, rng.integers(0, 50, ROWS), 4_800.0, BLOCK, rng.uniform(500, 9_500, (6, 2)))
    kind = ("one hotspot", "a hotspot that moves once", "two that take turns", "six that take turns", "everywhere")[
        seed % 5
    ]
    parts = []
    for number in range(STREAM_QUESTIONS):
        spot = {
            "one hotspot": 0,
            "a hotspot that moves once": 2 * number // STREAM_QUESTIONS,
            "two that take turns": number // 50 % 2,
            "six that take turns": number // 20 % 6,
            "everywhere": int(rng.integers(0, 6)),
        }[kind]
        scatter = 4_000.0 if kind == "everywhere" else 300.0
        asked = asked_at(world, ("place", "incident", "day")[int(rng.integers(0, 3))], np.array([spot]), rng, scatter)
        parts.append(asked)
    questions = joined_questions(parts).numbered(0)
    return world, replace(questions, version=questions.number), kind


def hindsight(world: World, questions: Questions, prices: Prices) -> float:
    """Return the cost of the best tree that knew all questions, and was paid once; or of none, if that is less."""
    points = begun_whole(world, prices).points
    ones = np.ones(len(questions))
    cut = best_cut(points, EVERYWHERE, questions, ones, prices)
    rows = np.arange(len(points), dtype=np.int64)
    never = float(cost_of(reads_of(run_of(points, rows, prices), questions, prices), prices).sum())
    return min(never, float(cut.cost.sum()) + prices.to_rewrite(size_of(world)))


def begun_whole(world: World, prices: Prices) -> Online:
    """Return all rows as one leaf."""
    return Online(world, prices, [leaf_of(world, np.arange(len(world.t)), EVERYWHERE, 0, prices)])


def streams(request: float, count: int) -> None:
    """Print whole costs, rewriting and vain looks included, beside those of the best tree in hindsight."""
    ratios: dict[str, list[float]] = {}
    worst, broken = 0.0, 0
    for seed in range(count):
        world, questions, kind = stream(seed)
        prices = Prices(request, block_rows=BLOCK, least=2**18)
        online = begun_whole(world, prices)
        played: Played = play(online, questions, every=TURN, wastes=True)
        cost = float((played.cost + played.paid).sum())
        ratio = cost / hindsight(world, questions, prices)
        ratios.setdefault(kind, []).append(ratio)
        broken += online.rewritten > played.wasted.sum()
        worst = max(worst, online.rewritten / max(played.wasted.sum(), 1.0))
    say("| stream | median | worst |\n|---|---|---|")
    for kind, found in ratios.items():
        say(f"| {kind} | {np.median(found):.2f} | {max(found):.2f} |")
    every = np.concatenate([np.array(found) for found in ratios.values()])
    say(f"\n{count} streams: at worst {every.max():.2f}, {(every > 2).sum()} above 2 (goal: none); rewritten beside ")
    say(f"what was read in vain: at worst {worst:.2f}, {broken} above 1 (goal: none)")


def main(
    part: Annotated[str, typer.Argument(help="layouts, phases, year or streams")],
    request: Annotated[float, typer.Option(help="Bytes that a request costs.")] = OBJECT_STORE,
    count: Annotated[int, typer.Option(help="Streams.")] = 200,
    rows: Annotated[int, typer.Option(help="Of the made year.")] = 2_000_000,
    periods: Annotated[int, typer.Option(help="Of the made year.")] = 7,
    aqwa: Annotated[bool, typer.Option("--aqwa", help="AQWA as written among the phases, too.")] = False,
) -> None:
    """Print one table of costs."""
    if part in ("layouts", "phases") and (reason := missing("taxi")) is not None:
        raise typer.BadParameter(reason)
    parts: dict[str, Callable[[], None]] = {
        "layouts": lambda: layouts(request),
        "phases": lambda: by_phases(request, aqwa),
        "year": lambda: year(request, rows, periods),
        "streams": lambda: streams(request, count),
    }
    if part not in parts:
        raise typer.BadParameter(f"{part!r} is none of {', '.join(parts)}")
    parts[part]()


if __name__ == "__main__":
    run(main)
