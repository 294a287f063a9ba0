"""Exports that fail half way."""

from dtoss.export import export_layers


def ends_half_way(monkeypatch, number):
    """Let the cells of a partition fail; return a list that grows by each that is asked for."""
    seen, made = [], export_layers.cells_of

    def failing(view, partition):
        seen.append(partition.number)
        if partition.number == number:
            raise RuntimeError("half way")
        return made(view, partition)

    monkeypatch.setattr(export_layers, "cells_of", failing)
    return seen
