"""The picture of first discs in docs/figures.md: how wide they are beside the distance of the k-th object.

``python -m bench.discs_picture`` draws what ``python -m bench.run dtoss_3_3_2`` counts.
"""

from __future__ import annotations

from typing import Annotated

import matplotlib as mpl
import numpy as np
import typer
from matplotlib import pyplot as plt
from PIL import Image

import dtoss
from bench.experiments.dtoss_3_3_2 import (
    SIZES,
    WAYS,
    WORLDS,
    Floats,
    asked_of,
    expected_distance,
    searches,
    world_of,
)
from datasets.tables.command import run

mpl.use("agg")

K = 8
NARROW, WIDE = 1 / 64, 64.0
COLOURS = dict(zip(WAYS, ("#8fb8de", "#1f5f9e", "#d1495b"), strict=True))
LINES = {"near": "-", "anywhere": (0, (4, 2))}


def curves(kind: str, size: str) -> dict[tuple[str, str], Floats]:
    """Return how wide first discs are, over the distance of the k-th object, ascending, by way and where places are."""
    count, places, _ = SIZES[size]
    objects = world_of(kind, count)
    index = dtoss.build(np.arange(count), objects, crs="none", partitions=1)
    far, found = expected_distance(objects, K), {}
    for where, at in asked_of(index, objects, places):
        true = index.knn(at, K).distance.reshape(places, K)[:, -1]
        for name, search in searches(index, at, K, far).items():
            found[name, where] = np.sort(search() / true)
    return found


def main(
    out: Annotated[str, typer.Option(help="The file.")] = "docs/images/first_discs.png",
    size: Annotated[str, typer.Option(help="As those of `python -m bench.run`.")] = "here",
) -> None:
    """Draw it."""
    figure, panels = plt.subplots(1, len(WORLDS), figsize=(10, 3.6), dpi=200, sharey=True, layout="constrained")
    for kind, axes in zip(WORLDS, panels, strict=True):
        for (name, where), wide in curves(kind, size).items():
            share = 100 * (np.arange(len(wide)) + 0.5) / len(wide)
            label = name if where == "near" else None
            axes.plot(wide, share, color=COLOURS[name], linestyle=LINES[where], linewidth=1.6, label=label)
        axes.axvline(1.0, color="#888888", linewidth=0.8)
        axes.set_xscale("log", base=2)
        axes.set(xlim=(NARROW, WIDE), ylim=(0, 100), title=kind)
        ticks = [1 / 64, 1 / 16, 1 / 4, 1, 4, 16, 64]
        axes.set_xticks(ticks, [f"1/{1 / tick:.0f}" if tick < 1 else f"{tick:.0f}" for tick in ticks])
        axes.grid(color="#dddddd", linewidth=0.5)
        axes.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("% of places whose disc is narrower")
    panels[1].set_xlabel(f"first disc over the distance of object {K}, times")
    panels[0].plot([], [], color="#555555", linestyle=LINES["anywhere"], label="dashed: anywhere")
    panels[0].legend(frameon=False, fontsize=7.5, loc="upper left")
    figure.canvas.draw()
    picture = Image.fromarray(np.asarray(figure.canvas.buffer_rgba())[:, :, :3])
    picture.quantize(64, dither=Image.Dither.NONE).save(out, optimize=True)


if __name__ == "__main__":
    run(main)
